"""Whatever happens in whatever order, what is removed is never a part of what a thread holds, and nothing stays."""

from __future__ import annotations

import os
import random
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

import pytest

from moonpool.features.storage.heads import GARBAGE_S, LEASE_S, PENDING_S, TreeBounds
from moonpool.features.storage.memory import MemoryHeads
from moonpool.features.storage.model import BLOB_BYTES_MAX, TreeBusyError, TreeLostError, TreeName, UnknownTreeError
from moonpool.features.storage.service import StoredTrees
from moonpool.features.storage.sweeping import Sweeper
from moonpool.features.storage.table import TreeTable
from moonpool.store.blobs.base import StorageError
from moonpool.store.blobs.memory import MemoryBlobs
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.opening import open_database
from storage.worlds import Clock, contents, put

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from moonpool.features.storage.base import HeldTree, TreeWriter
    from moonpool.features.storage.heads import TreeHeads

pytestmark = pytest.mark.anyio
NAMES: Final = tuple(TreeName(kind="thread", name=f"t{number}") for number in range(3))
PATHS: Final = ("a", "b", "a/c", "d/e", "d/f", "large")
BOUNDS: Final = TreeBounds(bytes_max=10**12)
LARGE: Final = os.urandom(BLOB_BYTES_MAX + 10)


class Machine:
    """Does what chance says to trees, and to a plain dictionary for each of them."""

    def __init__(self, heads: TreeHeads, clock: Clock, seed: int) -> None:
        self.blobs, self.clock, self.chance = MemoryBlobs(), clock, random.Random(seed)  # noqa: S311
        self.trees = StoredTrees(heads, self.blobs, lease_s=LEASE_S).of("acme")
        self.heads, self.sweeper = heads, Sweeper(heads, self.blobs)
        self.model: dict[TreeName, dict[str, bytes]] = {}
        self.held: dict[TreeName, tuple[HeldTree, AsyncExitStack]] = {}
        self.left: list[tuple[TreeName, TreeWriter]] = []  # begun uploads

    async def step(self) -> None:
        steps: list[Callable[[TreeName], Awaitable[object]]] = [
            self.upload, self.upload, self.hold, self.commit, self.commit, self.let_go, self.begin, self.delete,
            self.wait, self.sweep, self.fail,
        ]  # fmt: skip
        await self.chance.choice(steps)(self.chance.choice(NAMES))

    async def fill(self, writer: TreeWriter, files: dict[str, bytes]) -> dict[str, bytes]:
        """A random change, made to the files of a tree, too."""
        for path in self.chance.sample(PATHS, 2):
            files = self.without_below(files, path)
            if self.chance.random() < 0.3:
                writer.remove(path)
                continue
            content = LARGE if path == "large" else str(self.chance.random()).encode()
            await put(writer, path, content)
            above = {one: kept for one, kept in files.items() if not path.startswith(f"{one}/")}
            files = {**above, path: content}
        return files

    def without_below(self, files: dict[str, bytes], path: str) -> dict[str, bytes]:
        return {one: content for one, content in files.items() if one != path and not one.startswith(f"{path}/")}

    async def upload(self, name: TreeName) -> None:
        writer = self.trees.writer(name)
        files = await self.fill(writer, self.model.get(name, {}))
        await self.trees.commit(name, writer)
        self.model[name] = files

    async def hold(self, name: TreeName) -> None:
        stack = AsyncExitStack()
        try:
            held = await stack.enter_async_context(self.trees.hold(name, "trc"))
        except TreeBusyError:
            return
        self.model.setdefault(name, {})
        if name in self.held:  # its lease has ended
            await self.held.pop(name)[1].aclose()
        self.held[name] = (held, stack)

    async def commit(self, name: TreeName) -> None:
        if name not in self.held:
            return
        writer = self.held[name][0].writer()
        with suppress(TreeLostError, UnknownTreeError):  # after two hours without a renewal, while it writes already
            files = await self.fill(writer, self.model.get(name, {}))
            await self.held[name][0].commit(writer)
            self.model[name] = files

    async def let_go(self, name: TreeName) -> None:
        if name in self.held:
            await self.held.pop(name)[1].aclose()

    async def begin(self, name: TreeName) -> None:
        """An upload that may never be committed; or the commit of one that was begun long ago."""
        if self.left and self.chance.random() < 0.5:
            name, writer = self.left.pop()
            with suppress(TreeLostError, UnknownTreeError):
                await self.trees.commit(name, writer)
                self.model[name] = {**self.without_below(self.model.get(name, {}), "large"), "large": LARGE}
            return
        writer = self.trees.writer(name)
        await put(writer, "large", LARGE)
        self.model.setdefault(name, {})
        self.left.append((name, writer))

    async def delete(self, name: TreeName) -> None:
        with suppress(TreeBusyError, UnknownTreeError):
            await self.trees.delete(name)
            self.model.pop(name, None)

    async def wait(self, _name: TreeName) -> None:
        self.clock.now += self.chance.choice([1, LEASE_S + 1, GARBAGE_S / 2, PENDING_S])

    async def sweep(self, _name: TreeName) -> None:
        while await self.sweeper.sweep():
            pass

    async def fail(self, name: TreeName) -> None:
        self.blobs.fails.add("write")
        with suppress(StorageError):
            await self.upload(name)
        self.blobs.fails.clear()

    async def check(self) -> None:
        """Read past everything that is remembered."""
        fresh = StoredTrees(self.heads, self.blobs).of("acme")
        for name, files in self.model.items():
            assert await contents(await fresh.snapshot(name)) == files

    async def end(self) -> None:
        """In the end only what the trees are made of is there."""
        for name in NAMES:
            await self.let_go(name)
        for _ in range(3):
            self.clock.now += PENDING_S + 1
            await self.sweep(NAMES[0])
        await self.check()
        used: set[str] = set()
        for name in self.model:
            snapshot = await self.trees.snapshot(name)
            used |= snapshot.tree.blobs | ({snapshot.head.manifest} - {""})
        assert set(self.blobs.blobs) == used


@pytest.fixture(params=["in memory", "sqlite"])
async def heads(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[TreeHeads, Clock]]:
    clock = Clock()
    if request.param == "in memory":
        yield MemoryHeads(BOUNDS, clock=clock), clock
        return
    async with open_database(SqliteAddress(tmp_path / "private" / "service.sqlite3", is_default=True)) as database:
        yield TreeTable(database, BOUNDS, clock=clock), clock


@pytest.mark.parametrize("steps", [150])
async def test_nothing_that_is_needed_is_removed_and_nothing_else_stays(
    heads: tuple[TreeHeads, Clock], steps: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    machine = Machine(*heads, seed)
    try:
        for _ in range(steps):
            await machine.step()
            await machine.check()
        await machine.end()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        for name in NAMES:
            await machine.let_go(name)
