"""Which files code made: those of `/workspace` that are new or changed since it began.

The kernel takes a snapshot of the folder before the code and one after it, whatever the language. Links are neither
followed nor listed; wrappers, actions and skills are links.

SECURITY: what the host is told here is a hint, which it bounds and checks; code can hide files from it.
"""

import json
import os
import stat
from os import scandir, stat_result
from time import monotonic
from typing import Any

from moonpool_guest.channel import GuestChannel
from moonpool_guest.files.places import TEMPORARY
from moonpool_wire.filenames import PLACES
from moonpool_wire.limits import FILE_DEPTH_MAX, FILE_MADE_CHARS_MAX, FILES_MADE_BYTES_MAX, FILES_MADE_MAX

_ENTRIES_MAX = 20_000
_SNAPSHOT_S_MAX = 1.0

Snapshot = dict[str, tuple[int, ...]]
"""Path below `/workspace` -> size, and what else changes with a file."""


def snapshot(folder: str = PLACES[0]) -> Snapshot:
    """The regular files below `folder`, a folder's own before those in folders of it. Bounded: it may miss some."""
    found: Snapshot = {}
    entries_seen, until = 0, monotonic() + _SNAPSHOT_S_MAX
    waiting = [""]
    for below in waiting:  # grows meanwhile
        try:
            with scandir(f"{folder}/{below}") as scan:
                seen = (entry for entry in scan if not entry.is_symlink())
                entries = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in seen)
        except OSError:
            continue  # removed, or not for reading
        for name, state in entries:
            entries_seen += 1
            if stat.S_ISDIR(state.st_mode) and below.count("/") < FILE_DEPTH_MAX:
                waiting.append(f"{below}{name}/")
            elif stat.S_ISREG(state.st_mode) and not name.startswith(TEMPORARY):
                found[below + name] = _marks(state)
        if entries_seen > _ENTRIES_MAX or monotonic() > until:
            break
    return found


def _marks(state: stat_result) -> "tuple[int, ...]":
    return (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


def tell(channel: GuestChannel, run: object, before: Snapshot) -> None:
    """Name the files that are new or changed since `before`, if there are any. Raises ChannelGoneError."""
    after = snapshot()
    made = [(path, marks[0]) for path, marks in after.items() if before.get(path) != marks]
    if made:
        channel.send({"t": "made", "run": run, "count": len(made)}, _encoded(made))


def _encoded(made: "list[tuple[str, int]]") -> bytes:
    """The first of them, as many as may be named. Names that are no UTF-8 are left out."""
    rows: list[Any] = []
    room = FILES_MADE_BYTES_MAX
    for path, size in made:
        if len(rows) == FILES_MADE_MAX or len(path) > FILE_MADE_CHARS_MAX or not _is_text(path):
            continue
        room -= len(json.dumps([path, size])) + 1
        if room < 2:
            break
        rows.append([path, size])
    return json.dumps(rows).encode()


def _is_text(path: str) -> bool:
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return False
    return True
