"""Reads trees from blobs: manifests, which are remembered, and the contents of files."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from moonpool.features.storage.model import BLOB_BYTES_MAX, FileTree, manifest_digest
from moonpool.store.blobs.base import StorageDamagedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moonpool.features.storage.heads import Head
    from moonpool.features.storage.model import Entry, Piece
    from moonpool.store.blobs.base import BlobStore

_TREES_MAX: Final = 64
_ENTRIES_MAX: Final = 60_000
"""Of all remembered trees."""
_BLOBS_BYTES_MAX: Final = 64 * 1024**2
"""What is remembered of blobs with small files."""
_SMALL: Final = 1024**2
IN_THREAD: Final = 1000
"""Entries from which a tree is handled in a thread, so that others are served meanwhile."""


class TreeReader:
    """Reads trees of one service. What it remembers is bounded."""

    def __init__(self, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._trees: OrderedDict[str, FileTree] = OrderedDict()
        self._entry_count = 0
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._bytes_count = 0

    async def open(self, head: Head) -> StoredSnapshot:
        """Raises StorageError, StorageDamagedError for a manifest that is not the head's."""
        return StoredSnapshot(self, head, await self._tree(head))

    async def _tree(self, head: Head) -> FileTree:
        if not head.manifest:
            return FileTree.empty()
        if (known := self._trees.get(head.digest)) is not None:
            self._trees.move_to_end(head.digest)
            return known
        manifest = await self.blobs.get(head.manifest)
        if head.entry_count < IN_THREAD:
            tree = _decoded(manifest, head)
        else:
            tree = await anyio.to_thread.run_sync(_decoded, manifest, head)
        self.remember_tree(head.digest, tree)
        return tree

    def remember_tree(self, digest: str, tree: FileTree) -> None:
        if digest in self._trees or len(tree) > _ENTRIES_MAX:
            return
        self._trees[digest] = tree
        self._entry_count += len(tree)
        while len(self._trees) > _TREES_MAX or self._entry_count > _ENTRIES_MAX:
            self._entry_count -= len(self._trees.popitem(last=False)[1])

    def remember_blob(self, name: str, content: bytes) -> None:
        if name in self._contents:
            return
        self._contents[name] = content
        self._bytes_count += len(content)
        while self._bytes_count > _BLOBS_BYTES_MAX:
            self._bytes_count -= len(self._contents.popitem(last=False)[1])

    def forget_blob(self, name: str) -> None:
        self._bytes_count -= len(self._contents.pop(name, b""))

    async def piece(self, piece: Piece, *, again: bool) -> bytes:
        """Its bytes. `again`: the one before was of the same blob, so all of that is read and remembered."""
        content = self._contents.get(piece.blob)
        if content is not None:
            self._contents.move_to_end(piece.blob)
        elif again and piece.length < _SMALL:
            content = await self.blobs.get(piece.blob)
            self.remember_blob(piece.blob, content)
        else:
            return await self.blobs.get(piece.blob, piece.offset, piece.length)
        part = content[piece.offset : piece.offset + piece.length]
        if len(part) != piece.length:
            self.forget_blob(piece.blob)
            raise StorageDamagedError("a stored file is shorter than it was; restore a backup of the storage")
        return part


class StoredSnapshot:
    """The `Snapshot` of a head."""

    def __init__(self, reader: TreeReader, head: Head, tree: FileTree) -> None:
        self._reader, self.head, self._tree = reader, head, tree
        self._last_blob = ""

    @property
    def tree(self) -> FileTree:
        return self._tree

    @property
    def digest(self) -> str:
        return self.head.digest or _EMPTY_DIGEST

    @property
    def version(self) -> int:
        return self.head.version

    async def read(self, entry: Entry, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """See `Snapshot.read`. The last part of a whole read is given only when the digest is right."""
        end = entry.size if end is None else min(end, entry.size)
        digest = hashlib.sha256() if start == 0 and end == entry.size else None
        left = end - start
        position = 0
        for piece in entry.pieces:
            first, last = max(start, position), min(end, position + piece.length)
            if first < last:
                part = await self._part(piece, first - position, last - position)
                left -= len(part)
                if digest is not None:
                    digest.update(part)
                if left == 0 and digest is not None and digest.hexdigest() != entry.sha256:
                    for one in entry.pieces:  # it is read anew the next time, when it may be right again
                        self._reader.forget_blob(one.blob)
                    raise _damaged(entry)
                yield part
            position += piece.length
        if left > 0 or (entry.size == 0 and entry.pieces):
            raise _damaged(entry)

    async def _part(self, piece: Piece, first: int, last: int) -> bytes:
        part = type(piece)(blob=piece.blob, offset=piece.offset + first, length=last - first)
        again, self._last_blob = self._last_blob == piece.blob, piece.blob
        return await self._reader.piece(part, again=again)


def _decoded(manifest: bytes, head: Head) -> FileTree:
    try:
        if manifest_digest(manifest) == head.digest:
            return FileTree.decode(manifest)
    except ValueError:
        pass
    raise StorageDamagedError("the list of a thread's or volume's files is damaged; restore a backup of the storage")


def _damaged(entry: Entry) -> StorageDamagedError:
    return StorageDamagedError(f"the stored file {entry.path[:200]!r} is damaged; restore a backup of the storage")


_EMPTY_DIGEST: Final = manifest_digest(FileTree.empty().encode())
assert BLOB_BYTES_MAX <= _BLOBS_BYTES_MAX, "one blob can be remembered"
