"""Collects a change of a tree: contents go into blobs of 8 MiB one after the other, small files side by side."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.core.errors import InputError
from moonpool.features.storage.heads import blob_bytes
from moonpool.features.storage.model import (
    BLOB_BYTES_MAX,
    FILE_BYTES_MAX,
    TREE_BYTES_MAX,
    TREE_ENTRIES_MAX,
    Entry,
    Piece,
    TreeChange,
    TreeFullError,
    checked_path,
)
from moonpool.store.blobs.base import unusable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.store.blobs.base import BlobStore

NamedBlob: TypeAlias = tuple[str, bytes]
_REMOVED_MAX: Final = TREE_ENTRIES_MAX
_MODIFIED_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """One that is noted, so that its blobs may be written."""

    tree_id: str
    commit_id: str


@dataclass(slots=True)
class _File:
    """One whose content comes. `pieces`: number of the blob, offset, length."""

    path: str
    size: int
    mode: int
    modified_ns: int
    left: int
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)  # pyright: ignore[reportPrivateUsage]
    pieces: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def add(self, number: int, offset: int, length: int) -> None:
        """The next bytes are there; they follow the ones before if those are in the same blob."""
        if self.pieces and self.pieces[-1][0] == number:
            number, offset, before = self.pieces.pop()
            length += before
        self.pieces.append((number, offset, length))


class ChangeWriter:
    """The `TreeWriter` of the service.

    `begin` notes the commit, `note` how much is written for it; see `TreeHeads`.
    """

    def __init__(
        self,
        blobs: BlobStore,
        begin: Callable[[], Awaitable[PendingCommit]],
        note: Callable[[PendingCommit, int], Awaitable[None]],
    ) -> None:
        self._blobs, self._begin, self._note = blobs, begin, note
        self._pending: PendingCommit | None = None
        self._names: list[str] = []
        self._buffer = bytearray()
        self._file: _File | None = None
        self._put: dict[str, Entry | _File] = {}
        self._above: set[str] = set()  # folders of what is put; nothing else is put at any of them
        self._removed: dict[str, None] = {}
        self._bytes_count = 0
        self._is_torn = False  # a blob of it may not be there

    @property
    def bytes_count(self) -> int:
        return self._bytes_count

    @property
    def names(self) -> list[str]:
        """All blobs that were named for this change, manifests included."""
        return self._names

    @property
    def is_unused(self) -> bool:
        """Nothing was written for its commit."""
        return not self._names

    async def begin_file(self, path: str, *, size: int, mode: int = 0o644, modified_ns: int = 0) -> None:
        self._check_file_is_whole()
        if not 0 <= size <= FILE_BYTES_MAX:
            raise TreeFullError(f"a file may have {FILE_BYTES_MAX:,} bytes; {path[:200]!r} has {size:,}")
        if self._bytes_count + size > TREE_BYTES_MAX:
            raise TreeFullError(f"it would hold more than {TREE_BYTES_MAX:,} bytes; remove some files")
        file = _File(checked_path(path), size, mode & 0o777, _clamped(modified_ns), size)
        self._place(file.path, file)
        self._file = file

    async def write(self, content: bytes) -> None:
        file = self._file
        if file is None or len(content) > file.left:
            raise InputError("a file has more bytes than were announced")
        file.digest.update(content)
        file.left -= len(content)
        self._bytes_count += len(content)
        view = memoryview(content)
        while view:
            part = view[: BLOB_BYTES_MAX - len(self._buffer)]
            file.add(len(self._names), len(self._buffer), len(part))
            self._buffer += part
            view = view[len(part) :]
            if len(self._buffer) == BLOB_BYTES_MAX:
                await self._flush()

    def folder(self, path: str, *, mode: int = 0o755, modified_ns: int = 0) -> None:
        path = checked_path(path)
        self._place(path, Entry(path=path, kind="folder", mode=mode & 0o777, modified_ns=_clamped(modified_ns)))

    def link(self, path: str, target: str, *, modified_ns: int = 0) -> None:
        path = checked_path(path)
        if not target or len(target.encode("utf-8", "surrogatepass")) > 4095 or not _is_text(target):
            raise InputError(f"the link {path[:200]!r} leads to what cannot be a path")
        made = Entry(path=path, kind="link", mode=0o777, modified_ns=_clamped(modified_ns), target=target)
        self._place(path, made)

    def remove(self, path: str) -> None:
        path = checked_path(path)
        self._drop(path)
        if len(self._removed) >= _REMOVED_MAX:
            raise TreeFullError(f"one change may remove {_REMOVED_MAX:,} paths; remove a folder instead")
        self._removed[path] = None

    async def pending(self) -> PendingCommit:
        """The commit, noted now if it was not. Raises TreeFullError, UnknownTreeError."""
        if self._pending is None:
            self._pending = await self._begin()
        return self._pending

    async def finish(self) -> tuple[TreeChange, tuple[NamedBlob, ...]]:
        """What was collected, and the blobs with their names that the caller has still to write. Once.

        Raises InputError when a file is not whole, StorageError when something could not be written before.
        """
        self._check_file_is_whole()
        if self._is_torn:
            raise unusable("write all of the change")
        blobs = (await self._sealed(),) if self._buffer else ()
        self._is_torn = True
        put = tuple(self._entry(one) if isinstance(one, _File) else one for one in self._put.values())
        return TreeChange(put=put, removed=tuple(self._removed)), blobs

    async def _sealed(self) -> NamedBlob:
        await self.pending()
        content = bytes(self._buffer)
        self._buffer.clear()
        return self.next_name(len(content)), content

    def next_name(self, size: int) -> str:
        """A name for a blob of this size. INVARIANT: the commit is noted, and the name is given once."""
        pending = self._pending
        assert pending is not None, "it is noted before anything is named"
        self._names.append(f"{pending.tree_id}/{pending.commit_id}/{len(self._names)}-{size}")
        return self._names[-1]

    async def _flush(self) -> None:
        pending = await self.pending()
        self._is_torn = True
        name, content = await self._sealed()
        await self._note(pending, sum(map(blob_bytes, self._names)))
        await self._blobs.put(name, content)
        self._is_torn = False

    def _place(self, path: str, one: Entry | _File) -> None:
        """Put it, and drop what was put before and stands in its way. Raises TreeFullError."""
        if (isinstance(one, _File) or one.kind != "folder") and path in self._above:
            self._drop(path)
        above = path
        while (above := above.rpartition("/")[0]) and above not in self._above:
            was = self._put.get(above)
            if was is not None and (isinstance(was, _File) or was.kind != "folder"):
                del self._put[above]
                self._removed.setdefault(above)
            self._above.add(above)
        if path not in self._put and len(self._put) >= TREE_ENTRIES_MAX:
            raise TreeFullError(f"it would hold more than {TREE_ENTRIES_MAX:,} files and folders; remove some")
        self._put[path] = one

    def _drop(self, path: str) -> None:
        """Take back what was put there and below."""
        self._put.pop(path, None)
        if path in self._above:
            self._put = {put: one for put, one in self._put.items() if not put.startswith(f"{path}/")}
            self._above = {one for one in self._above if one != path and not one.startswith(f"{path}/")}

    def _check_file_is_whole(self) -> None:
        if self._file is not None and self._file.left:
            raise InputError(f"the file {self._file.path[:200]!r} has fewer bytes than were announced")
        self._file = None

    def _entry(self, file: _File) -> Entry:
        return Entry(
            path=file.path, mode=file.mode, modified_ns=file.modified_ns, size=file.size,
            sha256=file.digest.hexdigest(),
            pieces=tuple(Piece(self._names[number], offset, length) for number, offset, length in file.pieces),
        )  # fmt: skip


def _clamped(modified_ns: int) -> int:
    return min(max(modified_ns, 0), _MODIFIED_MAX)


def _is_text(text: str) -> bool:
    try:
        return "\0" not in text and bool(text.encode())
    except UnicodeEncodeError:
        return False
