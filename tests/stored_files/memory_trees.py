"""Stored trees in memory: the seams of `features.storage.base` as far as executions use them."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.features.storage.model import Entry, FileTree, Piece, TreeBusyError, TreeChange, TreeFullError, TreeName

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

_PART = 65536


class MemorySnapshot:
    def __init__(self, tree: FileTree, contents: Mapping[str, bytes], version: int) -> None:
        self.tree, self.version, self._contents = tree, version, contents
        self.digest = hashlib.sha256(tree.encode()).hexdigest()

    async def read(self, entry: Entry, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        content = self._contents[entry.pieces[0].blob][start:end] if entry.pieces else b""
        for at in range(0, len(content), _PART):
            yield content[at : at + _PART]


class MemoryWriter:
    def __init__(self) -> None:
        self.put: list[Entry] = []
        self.removed: list[str] = []
        self.contents: dict[str, bytes] = {}
        self.bytes_count = 0
        self._open: tuple[str, int, int, int] | None = None
        self._content = bytearray()

    async def begin_file(self, path: str, *, size: int, mode: int = 0o644, modified_ns: int = 0) -> None:
        self._end_file()
        self._open = (path, size, mode, modified_ns)

    async def write(self, content: bytes) -> None:
        assert self._open is not None
        self._content += content
        self.bytes_count += len(content)
        assert len(self._content) <= self._open[1]

    def _end_file(self) -> None:
        if self._open is None:
            return
        path, size, mode, modified_ns = self._open
        content, self._open = bytes(self._content), None
        self._content.clear()
        assert len(content) == size, path
        digest = hashlib.sha256(content).hexdigest()
        self.contents[digest] = content
        pieces = (Piece(digest, 0, min(size, 8 * 1024**2)),) if size else ()
        self.put.append(Entry(path=path, mode=mode, modified_ns=modified_ns, size=size, sha256=digest, pieces=pieces))

    def folder(self, path: str, *, mode: int = 0o755, modified_ns: int = 0) -> None:
        self.put.append(Entry(path=path, kind="folder", mode=mode, modified_ns=modified_ns))

    def link(self, path: str, target: str, *, modified_ns: int = 0) -> None:
        self.put.append(Entry(path=path, kind="link", mode=0o777, modified_ns=modified_ns, target=target))

    def remove(self, path: str) -> None:
        self.removed.append(path)

    def change(self) -> TreeChange:
        self._end_file()
        return TreeChange(put=tuple(self.put), removed=tuple(self.removed))


class MemoryTree:
    """One tree; a `HeldTree` for whoever has it."""

    def __init__(self, name: TreeName | None = None, *, bytes_max: int = 1 << 40) -> None:
        self.name = name or TreeName(kind="thread", name="t1")
        self.snapshot = MemorySnapshot(FileTree.empty(), {}, 0)
        self.bytes_max = bytes_max
        self.refused: Exception | None = None  # what the next commit raises
        self.is_held = False
        self._contents: dict[str, bytes] = {}

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[MemoryTree]:
        if self.is_held:
            raise TreeBusyError("another execution has it")
        self.is_held = True
        try:
            yield self
        finally:
            self.is_held = False

    def writer(self) -> MemoryWriter:
        return MemoryWriter()

    async def commit(self, writer: MemoryWriter) -> MemorySnapshot:
        tree = self.snapshot.tree.changed(writer.change())
        if self.refused is not None:
            raise self.refused
        if tree.bytes_count > self.bytes_max:
            raise TreeFullError("the thread is full; remove some files")
        self._contents.update(writer.contents)
        self.snapshot = MemorySnapshot(tree, self._contents, self.snapshot.version + 1)
        return self.snapshot

    # --- for tests

    async def put(self, files: Mapping[str, bytes], **fields: int) -> None:
        writer = self.writer()
        for path, content in files.items():
            await writer.begin_file(path, size=len(content), **fields)
            await writer.write(content)
        await self.commit(writer)

    def content(self, path: str) -> bytes:
        entry = self.snapshot.tree.find(path)
        assert entry is not None, path
        return self._contents[entry.sha256] if entry.size else b""

    @property
    def files(self) -> dict[str, bytes]:
        return {one.path: self.content(one.path) for one in self.snapshot.tree if one.kind == "file"}

    def entry(self, path: str) -> Entry:
        entry = self.snapshot.tree.find(path)
        assert entry is not None, path
        return entry
