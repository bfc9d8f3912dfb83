"""Servers whose tools change all the time: how often they are asked, and what stays on disk."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import fixture_server, open_app, run
from moonpool.core.manifest import Manifest, ServerListing
from moonpool.engine.code_request import CodeRequest
from moonpool.tools.relisting import PER_MINUTE_MAX, Relisting
from moonpool.tools.wrapper_tree import TREES_MAX, drop_oldest, tree_digest, write_tree

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Asked:
    """Counts; each answer comes when it is let through, and the server may have news again by then."""

    def __init__(self) -> None:
        self.count = 0
        self.through = asyncio.Event()
        self.now = 0.0

    async def __call__(self, server_id: str) -> None:
        del server_id
        self.count += 1
        await self.through.wait()


async def test_a_flood_of_news_costs_two_lists() -> None:
    asked = Asked()
    told = Relisting(asked, clock=lambda: asked.now)
    told.ask_soon("box")
    await anyio.wait_all_tasks_blocked()
    for _ in range(20_000):
        told.ask_soon("box")
    assert len(asyncio.all_tasks()) < 10
    asked.through.set()
    await told.close(5)
    assert asked.count == 2


async def test_a_server_with_news_after_each_list_is_asked_so_many_times_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = Asked()
    asked.through.set()

    async def ask(server_id: str) -> None:
        await asked(server_id)
        told.ask_soon("box")

    told = Relisting(ask, clock=lambda: asked.now)
    told.ask_soon("box")
    told.ask_soon("other")
    await anyio.wait_all_tasks_blocked()
    assert asked.count == PER_MINUTE_MAX + 1
    assert "says all the time that its tools changed" in caplog.text
    with anyio.fail_after(5):
        await told.close(5)
    assert asked.count == PER_MINUTE_MAX + 1


async def test_one_refresh_that_fails_does_not_end_the_next(caplog: pytest.LogCaptureFixture) -> None:
    count = 0

    async def ask(server_id: str) -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise OSError(f"the disk is full for {server_id}")

    told = Relisting(ask)
    told.ask_soon("box")
    await anyio.wait_all_tasks_blocked()
    told.ask_soon("box")
    await told.close(5)
    assert count == 2
    assert "the disk is full" in caplog.text


def test_the_newest_trees_are_kept_and_nobody_may_list_them(tmp_path: Path) -> None:
    trees = tmp_path / "trees"
    for number in range(TREES_MAX + 3):
        manifest = Manifest(servers=(ServerListing(server_id=f"s{number}"),))
        write_tree(trees / tree_digest(manifest, ()).removeprefix("sha256:")[:32], manifest, ())
    assert trees.stat().st_mode & 0o777 == 0o711
    kept = {path: path.stat().st_mtime_ns for path in trees.iterdir()}
    assert len(kept) == TREES_MAX
    drop_oldest(trees, kept=1)
    assert [kept[path] for path in trees.iterdir()] == [max(kept.values())]


async def test_a_tree_that_made_room_for_newer_ones_is_written_again() -> None:
    """The server has a name of its own: a slot that shows the same tree would need none on the disk."""
    async with open_app({"rewritten": fixture_server("echo.py")}) as app:
        code = "import servers.rewritten\nresult = servers.rewritten.__name__"
        with anyio.fail_after(60):
            snapshot = await app.tool_registry.snapshot()
            shutil.rmtree(snapshot.tree)
            envelope = await run(app, code)
            session = app.runtime.session(app.caller_grant)
            again = await session.execute(CodeRequest(code=code.encode()))
            await session.close()
    assert (envelope.data, again.data) == ("servers.rewritten", "servers.rewritten")
    assert snapshot.tree.exists()
