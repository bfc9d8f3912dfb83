"""What is below a folder, in a fixed order and within bounds; and the listing made of it.

Each folder is opened afresh by its path from the top, without following links, so a walk holds one descriptor however
deep it goes, and a folder that is exchanged meanwhile is found out.
"""

import errno
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.places import TEMPORARY, located, open_beneath
from moonpool_guest.files.refusals import RefusedError
from moonpool_wire.limits import FILE_DEPTH_MAX, FILE_ENTRIES_MAX, FILE_LISTING_BYTES_MAX

_SCANNED_MAX = 4 * FILE_ENTRIES_MAX  # names in one folder that are looked at, to sort them
_LISTING_S_MAX = 5.0
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # removed or exchanged since its name was read
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


class Entry(NamedTuple):
    """Something below the top. `path` may hold bytes that are no UTF-8, as surrogates."""

    path: str
    state: os.stat_result


class BoundReachedError(Exception):
    """There is more than may be looked at."""


def walk(top: int, *, recursive: bool = True, unreadable: "list[str] | None" = None) -> "Iterator[Entry]":
    """Everything below the folder `top`, a folder before what is in it, names in order. Raises BoundReachedError.

    A folder that cannot be read is left out and noted in `unreadable`.
    """
    waiting = ["."]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(_entries(top, folder))
        except PermissionError:
            if unreadable is not None:
                unreadable.append(folder)
            continue
        yield from entries
        if recursive:
            below = [entry.path for entry in entries if stat.S_ISDIR(entry.state.st_mode)]
            if below and folder.count("/") + 2 > FILE_DEPTH_MAX:
                raise BoundReachedError(f"folders more than {FILE_DEPTH_MAX} deep")
            waiting += reversed(below)


def _entries(top: int, folder: str) -> "Iterator[Entry]":
    try:
        fd = open_beneath(top, folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise
    try:
        with os.scandir(fd) as scan:
            names: list[str] = []
            for entry in scan:
                if len(names) == _SCANNED_MAX:
                    raise BoundReachedError(f"more than {_SCANNED_MAX:,} names in one folder")
                names.append(entry.name)
        for name in sorted(names):
            if name.startswith(TEMPORARY):
                continue
            try:
                state = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield Entry(name if folder == "." else f"{folder}/{name}", state)
    finally:
        os.close(fd)


def list_folder(exchange: Exchange) -> None:
    """Answer with what is in a folder, or with the one entry of a file."""
    rows: list[dict[str, object]] = []
    truncated, room, until = False, FILE_LISTING_BYTES_MAX, time.monotonic() + _LISTING_S_MAX
    with located(str(exchange.head["path"])) as place:
        found = _found(place.root, place.below, recursive=bool(exchange.head["recursive"]))
        try:
            for entry in found:
                row = _row(entry)
                room -= len(json.dumps(row, ensure_ascii=False).encode()) + 2
                if len(rows) == FILE_ENTRIES_MAX or room < 0 or time.monotonic() > until:
                    truncated = True
                    break
                rows.append(row)
        except BoundReachedError:
            truncated = True
    exchange.say("file_entries", json.dumps(rows, ensure_ascii=False).encode(), truncated=truncated)


def _found(root: int, below: str, *, recursive: bool) -> "Iterator[Entry]":
    fd = open_beneath(root, below, os.O_PATH)
    try:
        state = os.fstat(fd)
    finally:
        os.close(fd)
    if not stat.S_ISDIR(state.st_mode):
        yield Entry(below.rpartition("/")[2], state)
        return
    top = open_beneath(root, below, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield from walk(top, recursive=recursive)
    finally:
        os.close(top)


def _row(entry: Entry) -> "dict[str, object]":
    """SECURITY: a name that is no UTF-8 is shown escaped and marked; it is no name that could be asked for."""
    raw = os.fsencode(entry.path)
    state = entry.state
    return {
        "path": raw.decode("utf-8", "backslashreplace"),
        "escaped": not _is_text(entry.path),
        "kind": _KINDS.get(stat.S_IFMT(state.st_mode), "other"),
        "size": state.st_size if stat.S_ISREG(state.st_mode) else 0,
        "mode": stat.S_IMODE(state.st_mode),
        "modified_s": max(0, int(state.st_mtime)),
    }


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_walk(top: int, entries_max: int, unreadable: "list[str]") -> "Iterator[Entry]":
    """`walk` for those who need all: a bound that is reached is a refusal."""
    try:
        for count, entry in enumerate(walk(top, unreadable=unreadable), 1):
            if count > entries_max:
                raise RefusedError("too_many", f"there are more than {entries_max:,} files and folders")
            yield entry
    except BoundReachedError as bound:
        raise RefusedError("too_many", f"there are {bound}") from None
