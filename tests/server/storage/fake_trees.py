"""Stored trees whose blobs are files of a folder, for tests of what uses them."""

from __future__ import annotations

import hashlib
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.core.errors import InputError
from moonpool.features.storage.base import TreeState
from moonpool.features.storage.model import (
    BLOB_BYTES_MAX,
    FILE_BYTES_MAX,
    Entry,
    FileTree,
    Piece,
    TreeBusyError,
    TreeChange,
    TreeFullError,
    TreeName,
    UnknownTreeError,
    checked_path,
    manifest_digest,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path


@dataclass
class _Held:
    tree: FileTree
    created_at: float
    version: int = 0
    held_by: str = ""


@dataclass(frozen=True)
class FakeSnapshot:
    tree: FileTree
    version: int
    folder: Path

    @property
    def digest(self) -> str:
        return manifest_digest(self.tree.encode())

    async def read(self, entry: Entry, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        at, end = 0, entry.size if end is None else end
        for piece in entry.pieces:
            first, last = max(start - at, 0), min(end - at, piece.length)
            if first < last:
                with (self.folder / piece.blob).open("rb") as file:
                    file.seek(piece.offset + first)
                    yield file.read(last - first)
            at += piece.length


class FakeWriter:
    def __init__(self, trees: FakeTrees) -> None:
        self._trees = trees
        self.put: list[Entry] = []
        self.removed: list[str] = []
        self.bytes_count = 0
        self._entry = Entry(path="-")
        self._missing, self._buffer, self._digest = 0, bytearray(), hashlib.sha256()
        self._pieces: list[Piece] = []

    async def begin_file(self, path: str, *, size: int, mode: int = 0o644, modified_ns: int = 0) -> None:
        assert not self._missing
        if size > FILE_BYTES_MAX or size > self._trees.room:
            raise TreeFullError("there is no room for it; remove some files")
        self._entry = Entry(path=checked_path(path), size=size, mode=mode, modified_ns=modified_ns)
        self._missing, self._digest, self._pieces = size, hashlib.sha256(), []
        if not size:
            self._end()

    async def write(self, content: bytes) -> None:
        assert len(content) <= self._missing
        self._buffer += content
        self._digest.update(content)
        self.bytes_count += len(content)
        self._missing -= len(content)
        while len(self._buffer) >= BLOB_BYTES_MAX or (self._buffer and not self._missing):
            piece = bytes(self._buffer[:BLOB_BYTES_MAX])
            del self._buffer[:BLOB_BYTES_MAX]
            self._pieces.append(Piece(self._trees.keep(piece), 0, len(piece)))
        if not self._missing:
            self._end()

    def _end(self) -> None:
        made = Entry(
            path=self._entry.path,
            size=self._entry.size,
            mode=self._entry.mode,
            modified_ns=self._entry.modified_ns,
            sha256=self._digest.hexdigest(),
            pieces=tuple(self._pieces),
        )
        self.put.append(made)

    def folder(self, path: str, *, mode: int = 0o755, modified_ns: int = 0) -> None:
        self.put.append(Entry(path=checked_path(path), kind="folder", mode=mode, modified_ns=modified_ns))

    def link(self, path: str, target: str, *, modified_ns: int = 0) -> None:
        self.put.append(Entry(path=checked_path(path), kind="link", target=target, modified_ns=modified_ns))

    def remove(self, path: str) -> None:
        self.removed.append(checked_path(path))


@dataclass
class FakeHeldTree:
    own: FakeOrganisationTrees
    name: TreeName
    snapshot: FakeSnapshot

    def writer(self) -> FakeWriter:
        return self.own.writer(self.name)

    async def commit(self, writer: FakeWriter) -> FakeSnapshot:
        return await self.own.commit(self.name, writer)


class FakeOrganisationTrees:
    def __init__(self, trees: FakeTrees) -> None:
        self._trees = trees
        self._held: dict[TreeName, _Held] = {}

    @asynccontextmanager
    async def hold(self, name: TreeName, execution_id: str) -> AsyncGenerator[FakeHeldTree]:
        held = self._made(name)
        if held.held_by:
            raise TreeBusyError(f"the thread {name.name} is used by another execution; try again when it has ended")
        held.held_by = execution_id
        try:
            yield FakeHeldTree(self, name, await self.snapshot(name))
        finally:
            held.held_by = ""

    async def snapshot(self, name: TreeName) -> FakeSnapshot:
        held = self._known(name)
        return FakeSnapshot(held.tree, held.version, self._trees.folder)

    async def state(self, name: TreeName) -> TreeState:
        held = self._known(name)
        return TreeState(
            name=name,
            bytes_count=held.tree.bytes_count,
            entry_count=len(held.tree),
            version=held.version,
            created_at=held.created_at,
            used_at=held.created_at,
            held_by=held.held_by,
        )

    async def all(self, kind: str, owner: str | None = None) -> list[TreeState]:
        names = [one for one in self._held if one.kind == kind and owner in {None, one.owner}]
        return [await self.state(one) for one in sorted(names, key=lambda one: one.name)]

    async def create_volume(self, slug: str) -> TreeState:
        name = TreeName(kind="volume", name=slug)
        if name in self._held:
            raise InputError(f"there is a volume {slug} already")
        self._held[name] = _Held(FileTree.empty(), time.time())
        return await self.state(name)

    def writer(self, _name: TreeName) -> FakeWriter:
        return FakeWriter(self._trees)

    async def commit(self, name: TreeName, writer: FakeWriter) -> FakeSnapshot:
        held = self._made(name)
        held.tree = held.tree.changed(TreeChange(put=tuple(writer.put), removed=tuple(writer.removed)))
        held.version += 1
        return FakeSnapshot(held.tree, held.version, self._trees.folder)

    async def delete(self, name: TreeName) -> None:
        if self._known(name).held_by:
            raise TreeBusyError(f"{name.name} is used by an execution; try again when it has ended")
        del self._held[name]

    def _known(self, name: TreeName) -> _Held:
        if name not in self._held:
            raise UnknownTreeError(f"there is no {name.kind} {name.name} of {name.owner or 'keys'}")
        return self._held[name]

    def _made(self, name: TreeName) -> _Held:
        if name.kind == "thread":
            self._held.setdefault(name, _Held(FileTree.empty(), time.time()))
        return self._known(name)


@dataclass
class FakeTrees:
    folder: Path
    room: int = FILE_BYTES_MAX
    _own: dict[str, FakeOrganisationTrees] = field(default_factory=dict)
    _count: int = 0

    def of(self, organisation: str, /) -> FakeOrganisationTrees:
        return self._own.setdefault(organisation, FakeOrganisationTrees(self))

    def keep(self, content: bytes) -> str:
        self._count += 1
        (self.folder / str(self._count)).write_bytes(content)
        return str(self._count)
