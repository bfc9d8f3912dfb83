"""What is where in a stored tree, as lists and addresses of files see it. Pure.

Links are never followed here: a list shows them as what they are, a path that leads through one names nothing.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool.features.storage.model import UnknownFileError, checked_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.features.storage.model import Entry, EntryKind, FileTree

PAGE_ENTRIES_MAX: Final = 10_000
PAGE_PATH_BYTES_MAX: Final = 4 * 1024**2
CURSOR_CHARS_MAX: Final = 6_000


class PathTakenError(MoonpoolError):
    """Something else is where a file was to be written, or above it. Nothing was changed (HTTP 409)."""

    code = "path_taken"
    fault = Fault.CALLER


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One entry of a list."""

    path: str  # from the tree's root
    name: str  # from the folder that was listed
    kind: EntryKind
    size: int = 0
    modified_ns: int = 0  # 0: unknown


@dataclass(frozen=True, slots=True)
class Page:
    """Entries by path, and where to go on if there are more."""

    entries: tuple[Listed, ...]
    next_cursor: str | None


def folder_path(path: str) -> str:
    """The folder that `path` names, `data` and `data/` alike; empty: the root. Raises InputError."""
    return "" if path in {"", ".", "./"} else checked_path(path)


def listed(tree: FileTree, folder: str, *, recursive: bool, cursor: str | None, limit: int) -> Page:
    """What lies in `folder`, or all below it. One that is not there, or is no folder, holds nothing.

    Raises InputError for a cursor that is none of ours.
    """
    after = "" if cursor is None else _path_of(cursor)
    start = f"{folder}/" if folder else ""
    found: dict[str, Listed] = {}
    for entry in tree.below(folder):
        name = entry.path[len(start) :]
        for above in _folders_above(name, all_of_them=recursive):
            if start + above in found:
                break  # and so is what is above that
            found[start + above] = Listed(path=start + above, name=above, kind="folder")
        if recursive or "/" not in name:
            found[entry.path] = Listed(
                path=entry.path, name=name, kind=entry.kind, size=entry.size, modified_ns=entry.modified_ns
            )
    return _page(sorted((one for one in found.values() if one.path > after), key=lambda one: one.path), limit)


def file_at(tree: FileTree, path: str) -> Entry:
    """The regular file at `path`. Raises UnknownFileError, InputError for a folder or a link."""
    entry = tree.find(path)
    if entry is not None and entry.kind == "file":
        return entry
    if entry is not None and entry.kind == "link":
        raise InputError(f"{path[:200]!r} is a symbolic link, and links are not followed; name the file itself")
    if is_there(tree, path):
        raise InputError(f"{path[:200]!r} is a folder; list it, and name a file in it")
    raise UnknownFileError(f"there is no file {path[:200]!r} here; list the folder to see what there is")


def is_there(tree: FileTree, path: str) -> bool:
    """Whether anything has this path, a folder that is only implied included."""
    return tree.find(path) is not None or next(iter(tree.below(path)), None) is not None


def check_place(tree: FileTree, path: str) -> None:
    """Whether a file can be written at `path` without anything but a file giving way. Raises PathTakenError."""
    entry = tree.find(path)
    if (entry is not None and entry.kind == "folder") or next(iter(tree.below(path)), None) is not None:
        raise PathTakenError(f"{path[:200]!r} is a folder; choose another path, or delete it first")
    above = path
    while above := above.rpartition("/")[0]:
        if (entry := tree.find(above)) is not None and entry.kind != "folder":
            raise PathTakenError(f"{above[:200]!r} is a {entry.kind}, so nothing can be below it; choose another path")


def _folders_above(name: str, *, all_of_them: bool) -> Iterator[str]:
    """The deepest first; else the topmost only."""
    if not all_of_them:
        if "/" in name:
            yield name.partition("/")[0]
        return
    above = name
    while above := above.rpartition("/")[0]:
        yield above


def _page(entries: list[Listed], limit: int) -> Page:
    size = 0
    for count, one in enumerate(entries):
        size += len(one.path)
        if count == limit or size > PAGE_PATH_BYTES_MAX:
            return Page(tuple(entries[:count]), _cursor_of(entries[count - 1].path))
    return Page(tuple(entries), None)


def _cursor_of(path: str) -> str:
    return base64.urlsafe_b64encode(path.encode()).rstrip(b"=").decode()


def _path_of(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise InputError("the cursor is none that this list gave; leave it out to begin anew") from None
