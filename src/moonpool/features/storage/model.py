"""A stored tree: what a thread or a volume holds at one moment, as a value. Pure.

A tree is immutable. Its content lies in blobs (`moonpool.store.blobs`): a file is a list of pieces of them, so small
files share one blob and a large file is many, none larger than `BLOB_BYTES_MAX`. A change puts entries and removes
paths; it is applied whole to whatever the tree is by then, so an upload and an execution never undo each other.

INVARIANT: every path is relative, without `.` and `..`, and everything above an entry is a folder, named or implied.
INVARIANT: folders that are only implied count as entries, so that work on a tree is bounded by `TREE_ENTRIES_MAX`.
SECURITY: nothing here is ever a path of the host. Links are data: their text is kept, and nobody on the host follows
it.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool_wire.filenames import NameFault, member_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

TreeKind = Literal["thread", "volume"]
EntryKind = Literal["file", "folder", "link"]

BLOB_BYTES_MAX: Final = 8 * 1024**2
FILE_BYTES_MAX: Final = 10 * 1024**3
"""What one file may hold, uploaded by API (Baponi's figure)."""
TREE_ENTRIES_MAX: Final = 20_000
TREE_BYTES_MAX: Final = 64 * 1024**3
THREAD_ID_CHARS_MAX: Final = 128
RESERVED: Final = ".moonpool"
"""A folder of a thread that the host alone writes to: neither sandboxes nor the Files API put anything there."""
_THREAD_ID: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]*", re.ASCII)
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


class TreeBusyError(MoonpoolError):
    """Another execution has the thread, or writes the volume. Nothing was started (HTTP 409)."""

    code = "thread_busy"
    fault = Fault.CALLER
    retryable = True


class UnknownTreeError(MoonpoolError):
    """There is no such thread or volume here (HTTP 404)."""

    code = "tree_unknown"
    fault = Fault.CALLER


class UnknownFileError(MoonpoolError):
    """There is no such file in it (HTTP 404)."""

    code = "file_unknown"
    fault = Fault.CALLER


class TreeFullError(MoonpoolError):
    """It, or its organisation, holds as much as it may. Nothing was changed."""

    code = "storage_full"
    fault = Fault.CALLER


class TreeLostError(MoonpoolError):
    """What was held was taken away meanwhile, because its holder did not answer. Nothing was changed."""

    code = "thread_lost"
    fault = Fault.HOST
    _names_host = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeName:
    """What callers call it. Unique in one organisation."""

    kind: TreeKind
    name: str  # a thread's id, a volume's slug
    owner: str = ""
    """Whose thread it is: "" shares it among the keys of the organisation; else the principal, a user or OAuth client.
    Volumes are the organisation's.
    """

    def __post_init__(self) -> None:
        if self.kind == "thread":
            if len(self.name) > THREAD_ID_CHARS_MAX or not _THREAD_ID.fullmatch(self.name):
                raise InputError(
                    f"thread_id must have 1 to {THREAD_ID_CHARS_MAX} characters, begin with a letter or digit and "
                    "contain only letters, digits, - and _"
                )
        elif not _SLUG.fullmatch(self.name):
            raise InputError(
                "a volume's slug has 1 to 63 characters: a-z, 0-9, - and _, and begins with one of a-z, 0-9"
            )


class Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a file's content: `length` bytes of a blob from `offset`."""

    blob: Annotated[str, Meta(min_length=1, max_length=200)]
    offset: Annotated[int, Meta(ge=0, le=BLOB_BYTES_MAX)]
    length: Annotated[int, Meta(ge=1, le=BLOB_BYTES_MAX)]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One file, folder or symbolic link of a tree."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    kind: EntryKind = "file"
    mode: Annotated[int, Meta(ge=0, le=0o777)] = 0o644
    modified_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    size: Annotated[int, Meta(ge=0, le=FILE_BYTES_MAX)] = 0
    sha256: Annotated[str, Meta(max_length=64)] = ""  # of a file's content
    pieces: tuple[Piece, ...] = ()
    target: Annotated[str, Meta(max_length=4096)] = ""  # a link's text


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChange:
    """What is to become of a tree: these entries are as given, these paths are gone with all below them."""

    put: tuple[Entry, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.put and not self.removed


def checked_path(path: str) -> str:
    """A path below a tree's root, without empty parts and `.`. Raises InputError."""
    try:
        parts = member_parts(path)
        path.encode()
    except NameFault as fault:
        raise InputError(f"the path {path[:200]!r} cannot be used: {fault}") from None
    except UnicodeEncodeError:
        raise InputError("the path is no text in UTF-8") from None
    if not parts:
        raise InputError("the path names no file: give one relative to the storage root, such as output/chart.png")
    return "/".join(parts)


def is_reserved(path: str) -> bool:
    """Whether the host alone writes there."""
    return path == RESERVED or path.startswith(f"{RESERVED}/")


def folders_above(paths: Iterable[str], count_max: int) -> set[str] | None:
    """All that is above these paths; None for more than `count_max`. The work is bounded by that, however deep they
    are.
    """
    found: set[str] = set()
    for path in paths:
        above = path
        while (above := above.rpartition("/")[0]) and above not in found:
            found.add(above)
        if len(found) > count_max:
            return None
    return found


class FileTree:
    """All entries of a tree, by path in order. Immutable."""

    __slots__ = ("_blobs", "_entries", "bytes_count")

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._blobs: frozenset[str] | None = None
        self.bytes_count = sum(one.size for one in entries.values())

    @classmethod
    def empty(cls) -> FileTree:
        return cls({})

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def find(self, path: str) -> Entry | None:
        return self._entries.get(path)

    def below(self, folder: str) -> Iterator[Entry]:
        """Everything below `folder` ("" is all), however deep."""
        start = f"{folder}/" if folder else ""
        return (one for one in self if one.path.startswith(start))

    @property
    def blobs(self) -> frozenset[str]:
        """The blobs that its files are made of."""
        if self._blobs is None:
            self._blobs = frozenset(piece.blob for one in self for piece in one.pieces)
        return self._blobs

    def changed(self, change: TreeChange) -> FileTree:
        """It with `change`. What stands in the way of an entry (a file where a folder must be) goes.

        Raises TreeFullError, InputError for a path that cannot be.
        """
        entries = dict(self._entries)
        gone = set(change.removed)
        paths = list(entries)  # in order
        above: set[str] = set()
        for put in change.put:
            path = checked_path(put.path)
            if put.kind != "folder" and _has_below(paths, path):
                gone.add(path)  # a folder, named or implied, and what is below it
            while (path := path.rpartition("/")[0]) and path not in above:
                above.add(path)
                if (was := entries.get(path)) is not None and was.kind != "folder":
                    gone.add(path)
        if gone:
            entries = _without(entries, gone)
        is_in_order = all(one.path in entries for one in change.put)
        entries.update((one.path, one) for one in change.put)
        implied = folders_above(entries, TREE_ENTRIES_MAX)
        if implied is None or len(entries) + len(implied.difference(entries)) > TREE_ENTRIES_MAX:
            raise TreeFullError(f"it would hold more than {TREE_ENTRIES_MAX:,} files and folders; remove some")
        changed = FileTree(entries if is_in_order else dict(sorted(entries.items())))
        if changed.bytes_count > TREE_BYTES_MAX:
            raise TreeFullError(f"it would hold more than {TREE_BYTES_MAX:,} bytes; remove some files")
        return changed

    def encode(self) -> bytes:
        """Its manifest. The same entries give the same bytes."""
        return _encode(tuple(self._entries.values()))

    @classmethod
    def decode(cls, manifest: bytes) -> FileTree:
        """Raises ValueError for what is no manifest."""
        entries = _decode(manifest)
        return cls({one.path: one for one in entries})


def manifest_digest(manifest: bytes) -> str:
    """What a snapshot is known by."""
    return hashlib.sha256(manifest).hexdigest()


def owner_of_threads(principal: str) -> str:
    """`TreeName.owner` of this principal's threads: keys of an organisation share them, so that a key can be replaced;
    users and OAuth clients have their own.
    """
    return principal if principal.startswith(("user:", "client:")) else ""


def _has_below(paths: Sequence[str], folder: str) -> bool:
    """Whether one of the sorted `paths` is below it."""
    place = bisect_left(paths, f"{folder}/")
    return place < len(paths) and paths[place].startswith(f"{folder}/")


def _without(entries: Mapping[str, Entry], gone: Collection[str]) -> dict[str, Entry]:
    """Those that are neither in `gone` nor below what is."""
    known = {"": False}  # path -> whether it goes

    def goes(path: str) -> bool:
        if (known_one := known.get(path)) is None:
            known_one = known[path] = path in gone or goes(path.rpartition("/")[0])
        return known_one

    return {path: one for path, one in entries.items() if not goes(path)}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[Entry, ...]).decode
