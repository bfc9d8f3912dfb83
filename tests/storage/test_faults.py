"""What goes wrong below: a store that fails, a full disk, a database that is gone. The tree is the old one, whole."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from moonpool.features.storage.heads import CLAIM_S, GARBAGE_S
from moonpool.features.storage.model import BLOB_BYTES_MAX
from moonpool.features.storage.service import StoredTrees
from moonpool.features.storage.sweeping import Sweeper
from moonpool.features.storage.table import TreeTable
from moonpool.store.blobs.addresses import blob_address
from moonpool.store.blobs.base import StorageDamagedError, StorageError
from moonpool.store.blobs.memory import MemoryBlobs
from moonpool.store.blobs.opening import open_blobs
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.opening import open_database
from storage.worlds import THREAD, Clock, contents, put, read, upload

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from moonpool.features.storage.base import HeldTree, TreeWriter
    from moonpool.store.database.base import Database

pytestmark = pytest.mark.anyio
LARGE = os.urandom(BLOB_BYTES_MAX + 1)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    async with open_database(SqliteAddress(tmp_path / "private" / "service.sqlite3", is_default=True)) as opened:
        yield opened


@pytest.mark.parametrize("content", [b"2", LARGE], ids=["small", "large"])
async def test_a_store_that_fails_leaves_the_tree_and_is_tried_again(database: Database, content: bytes) -> None:
    blobs = MemoryBlobs()
    trees = StoredTrees(TreeTable(database), blobs).of("acme")
    await upload(trees, THREAD, a=b"1")
    async with trees.hold(THREAD, "trc_1") as held:
        writer = held.writer()
        blobs.fails.add("write")
        with pytest.raises(StorageError) as raised:
            await _write_and_commit(held, writer, content)
        assert (raised.value.code, raised.value.retryable) == ("storage_unusable", True)
        blobs.fails.clear()
        with pytest.raises(StorageError):  # a part of it is not there
            await held.commit(writer)
        assert await contents(await trees.snapshot(THREAD)) == {"a": b"1"}
        writer = held.writer()
        await put(writer, "a", content)
        await held.commit(writer)
    assert await read(await trees.snapshot(THREAD), "a") == content


async def test_a_store_that_cannot_be_read_is_told(database: Database) -> None:
    blobs = MemoryBlobs()
    await upload(StoredTrees(TreeTable(database), blobs).of("acme"), THREAD, a=b"1")
    trees = StoredTrees(TreeTable(database), blobs).of("acme")
    blobs.fails.add("read")
    with pytest.raises(StorageError):
        async with trees.hold(THREAD, "trc_1"):
            pytest.fail("its manifest cannot be read")
    blobs.fails.clear()
    async with trees.hold(THREAD, "trc_2") as held:
        assert await contents(held.snapshot) == {"a": b"1"}


async def test_a_full_disk_leaves_the_tree_and_no_rest(database: Database, tmp_path: Path) -> None:
    async with open_blobs(blob_address("", tmp_path / "files", {})) as blobs:
        trees = StoredTrees(TreeTable(database), blobs).of("acme")
        await upload(trees, THREAD, a=b"1")
        before = sorted(one.name for one in (tmp_path / "files").rglob("*"))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 1024**2, limits[1]))
        try:
            with pytest.raises(StorageError, match="full"):
                await upload(trees, THREAD, a=LARGE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert sorted(one.name for one in (tmp_path / "files").rglob("*")) == before
        assert await contents(await trees.snapshot(THREAD)) == {"a": b"1"}
        assert await contents(await upload(trees, THREAD, a=LARGE)) == {"a": LARGE}


async def test_a_database_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    address = SqliteAddress(tmp_path / "private" / "service.sqlite3", is_default=True)
    async with open_database(address) as database:
        trees = StoredTrees(TreeTable(database), MemoryBlobs()).of("acme")
        await upload(trees, THREAD, a=b"1")
        async with trees.hold(THREAD, "trc_1") as held:
            writer = held.writer()
            await put(writer, "a", b"2")
            address.path.rename(tmp_path / "away")
            with pytest.raises(DatabaseError):
                await held.commit(writer)
            (tmp_path / "away").rename(address.path)
        assert await contents(await trees.snapshot(THREAD)) == {"a": b"1"}


async def _write_and_commit(held: HeldTree, writer: TreeWriter, content: bytes) -> None:
    await put(writer, "a", content)
    await held.commit(writer)


async def test_content_that_was_read_wrong_once_is_read_anew(database: Database) -> None:
    blobs = MemoryBlobs()
    written = await upload(StoredTrees(TreeTable(database), blobs).of("acme"), THREAD, a=b"1", b=b"2", c=b"3")
    snapshot = await StoredTrees(TreeTable(database), blobs).of("acme").snapshot(THREAD)
    [name] = written.tree.blobs

    await blobs.delete([name])
    await blobs.put(name, b"1x3")
    with pytest.raises(StorageDamagedError, match="damaged"):
        await contents(snapshot)
    await blobs.delete([name])
    await blobs.put(name, b"123")

    assert await contents(snapshot) == {"a": b"1", "b": b"2", "c": b"3"}


class StuckBlobs(MemoryBlobs):
    """Blobs of `stuck` trees cannot be removed."""

    stuck: frozenset[str] = frozenset()

    async def delete(self, names: Sequence[str], /) -> None:
        if any(name.startswith(tree) for name in names for tree in self.stuck):
            raise StorageError("it cannot be removed")
        await super().delete(names)


@pytest.mark.claim("C-TEN-3")
async def test_what_cannot_be_removed_keeps_nothing_of_others_from_being_removed(database: Database) -> None:
    clock, blobs = Clock(), StuckBlobs()
    heads = TreeTable(database, clock=clock)
    stuck, other = (StoredTrees(heads, blobs).of(name) for name in ("stuck", "other"))
    trees = [await upload(one, THREAD, a=b"1") for one in (stuck, other)]
    for one in (stuck, other):
        await one.delete(THREAD)
        clock.now += 1
    [kept], [gone] = ({name.partition("/")[0] for name in one.tree.blobs} for one in trees)
    blobs.stuck = frozenset({kept})
    clock.now += GARBAGE_S

    swept = [await Sweeper(heads, blobs).sweep() for _ in range(2)]
    left = [len(await blobs.list(f"{tree}/")) for tree in (kept, gone)]
    blobs.stuck = frozenset()
    clock.now += CLAIM_S + 1

    assert swept == [1, 0]
    assert left == [2, 0]
    assert await Sweeper(heads, blobs).sweep() == 1
    assert await blobs.list(f"{kept}/") == []
