"""Stored trees on everything they can lie on, for tests: `world` is parametrised by it. Its clock is the test's."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from moonpool.features.storage.heads import TreeBounds, TreeHeads
from moonpool.features.storage.memory import MemoryHeads
from moonpool.features.storage.model import TreeName
from moonpool.features.storage.service import StoredTrees
from moonpool.features.storage.sweeping import Sweeper
from moonpool.features.storage.table import TreeTable
from moonpool.store.blobs.addresses import blob_address
from moonpool.store.blobs.memory import MemoryBlobs
from moonpool.store.blobs.opening import open_blobs
from moonpool.store.database.addresses import PostgresAddress, SqliteAddress
from moonpool.store.database.opening import open_database
from s3_server import CREDENTIALS
from swift_server import SWIFT_CREDENTIALS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.features.storage.base import OrganisationTrees, Snapshot, TreeWriter
    from moonpool.features.storage.model import Entry
    from moonpool.store.blobs.base import BlobStore

THREAD = TreeName(kind="thread", name="t1")
BOUNDS = TreeBounds(threads_max=5, volumes_max=2, bytes_max=40 * 1024**2)


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Replica:
    """One process of a service."""

    heads: TreeHeads
    blobs: BlobStore

    def __post_init__(self) -> None:
        self.trees = StoredTrees(self.heads, self.blobs)

    @property
    def sweeper(self) -> Sweeper:
        return Sweeper(self.heads, self.blobs)


@dataclass
class World:
    """Two replicas on the same data. Those on SQLite share one process's database."""

    first: Replica
    second: Replica
    clock: Clock = field(default_factory=Clock)

    @property
    def acme(self) -> OrganisationTrees:
        return self.first.trees.of("acme")

    @property
    def acme_elsewhere(self) -> OrganisationTrees:
        """The same organisation at the other replica."""
        return self.second.trees.of("acme")

    async def sweep(self) -> None:
        while await self.first.sweeper.sweep():
            pass


@pytest.fixture(
    params=[
        "in memory", "sqlite, memory", "sqlite, folder", "postgresql, s3",
        pytest.param("in memory, swift", marks=pytest.mark.slow),
    ]
)  # fmt: skip
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[World]:
    clock = Clock()
    async with AsyncExitStack() as stack:
        if request.param == "in memory":
            heads, blobs = MemoryHeads(BOUNDS, clock=clock), MemoryBlobs()
            yield World(Replica(heads, blobs), Replica(heads, blobs), clock)
        elif request.param == "in memory, swift":
            bucket = blob_address(request.getfixturevalue("swift_bucket"), tmp_path, SWIFT_CREDENTIALS)
            heads, opened = MemoryHeads(BOUNDS, clock=clock), await stack.enter_async_context(open_blobs(bucket))
            yield World(Replica(heads, opened), Replica(heads, opened), clock)
        elif request.param == "postgresql, s3":
            server = request.getfixturevalue("postgres")
            bucket = blob_address(request.getfixturevalue("s3_bucket"), tmp_path, CREDENTIALS)
            name = await server.take_database()
            stack.push_async_callback(server.return_database, name)
            replicas: list[Replica] = []
            for _ in range(2):
                address = PostgresAddress(server.url(name), shown="PostgreSQL")
                database = await stack.enter_async_context(open_database(address))
                opened = await stack.enter_async_context(open_blobs(bucket))
                replicas.append(Replica(TreeTable(database, BOUNDS, clock=clock), opened))
            yield World(*replicas, clock)
        else:
            address = SqliteAddress(tmp_path / "private" / "service.sqlite3", is_default=True)
            database = await stack.enter_async_context(open_database(address))
            folder = open_blobs(blob_address("", tmp_path / "files", {}))
            opened = MemoryBlobs() if request.param.endswith("memory") else await stack.enter_async_context(folder)
            heads = TreeTable(database, BOUNDS, clock=clock)
            yield World(Replica(heads, opened), Replica(heads, opened), clock)


async def put(writer: TreeWriter, path: str, content: bytes) -> None:
    await writer.begin_file(path, size=len(content))
    await writer.write(content)


async def upload(trees: OrganisationTrees, name: TreeName, **files: bytes) -> Snapshot:
    """A commit that no execution makes; `a__b` is the path `a/b`."""
    writer = trees.writer(name)
    for path, content in files.items():
        await put(writer, path.replace("__", "/"), content)
    return await trees.commit(name, writer)


async def read(snapshot: Snapshot, path: str, start: int = 0, end: int | None = None) -> bytes:
    entry = snapshot.tree.find(path)
    assert entry is not None, f"{path} is not there"
    return b"".join([part async for part in snapshot.read(entry, start, end)])


async def contents(snapshot: Snapshot) -> dict[str, bytes]:
    """Of all files."""
    return {one.path: await read(snapshot, one.path) for one in snapshot.tree if is_file(one)}


def is_file(entry: Entry) -> bool:
    return entry.kind == "file"
