"""The tool registry: caches, unreachable servers, refresh."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import fixture_server, open_app, run
from moonpool.bootstrap.stores import FileStores
from moonpool.bootstrap.tools import DriftRecords, make_redactor, open_tool_registry
from moonpool.configuration.servers import parse_config
from moonpool.core.manifest import ServerListing, ToolDefinition
from moonpool.settings import Settings
from moonpool.store.fake import MemoryJournal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.engine.tool_registry import ToolRegistry

pytestmark = pytest.mark.anyio


def recorder(folder: Path, *names: str) -> dict[str, object]:
    listing = folder / "tools.json"
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    listing.write_text(json.dumps({"tools": tools}), encoding="utf-8")
    return fixture_server("recorder.py", str(listing), str(folder / "calls.jsonl"))


async def test_one_dead_server_does_not_take_the_others_away(tmp_path: Path) -> None:
    servers = {"good": recorder(tmp_path, "ping"), "bad": {"command": "/nowhere/at/all"}}
    async with open_app(servers) as app:
        with anyio.fail_after(30):
            snapshot = await app.tool_registry.snapshot()
            good = await run(app, "import servers.good as g\nresult = (await g.ping()).ok")
            bad = await run(app, "import servers.bad")
    assert "/nowhere/at/all" in snapshot.problems["bad"]
    assert good.data is True
    assert bad.error is not None
    assert bad.error.type == "ImportError"
    assert "tools could not be listed" in bad.error.message
    assert "nowhere" not in bad.error.message


@pytest.mark.req("H-048")
async def test_a_cached_list_is_used_without_a_connection_and_checked_at_the_first_call(tmp_path: Path) -> None:
    servers = {"box": recorder(tmp_path, "one")}
    async with open_app(servers, manifest_ttl_s=3600.0) as app:
        await app.tool_registry.refresh()
    recorder(tmp_path, "one", "two")  # the server learns a tool while nobody looks
    async with open_app(servers, manifest_ttl_s=3600.0) as app:
        snapshot = await app.tool_registry.snapshot()
        names = [tool.name for tool in snapshot.manifest.tools()]
        changed = anyio.Event()
        app.tool_registry.follow(lambda _: changed.set())
        with anyio.fail_after(20):
            await run(app, "import servers.box as b\nawait b.one()")
            await changed.wait()
        fresh = app.tool_registry.current
    assert names == ["one"]  # had the server been asked, it would have said two
    assert fresh is not None
    assert [tool.name for tool in fresh.manifest.tools()] == ["one", "two"]


@pytest.mark.req("H-048", "H-013")
async def test_refresh_without_a_change_keeps_the_tree_and_tells_nobody(tmp_path: Path) -> None:
    async with open_app({"box": recorder(tmp_path, "one")}) as app:
        first = await app.tool_registry.snapshot()
        heard: list[object] = []
        app.tool_registry.follow(heard.append)
        second = await app.tool_registry.refresh()
    assert (first.digest, first.tree) == (second.digest, second.tree)
    assert heard == []


async def test_an_expired_cache_asks_the_server_again(tmp_path: Path) -> None:
    servers = {"box": recorder(tmp_path, "one")}
    async with open_app(servers) as app:
        await app.tool_registry.snapshot()
    recorder(tmp_path, "other")
    async with open_app(servers) as app:
        names = [tool.name for tool in (await app.tool_registry.snapshot()).manifest.tools()]
    assert names == ["other"]


class CountingBox:
    """One server that counts how often it is asked."""

    protocol_version = "2025-11-25"

    def __init__(self) -> None:
        self.asked = 0

    def get(self, server_id: str) -> Any:
        del server_id
        return self

    async def list_tools(self) -> ServerListing:
        self.asked += 1
        return ServerListing(server_id="box")


class ChangingBox(CountingBox):
    """Its first answer takes until `through`; by then it may have other tools."""

    def __init__(self) -> None:
        super().__init__()
        self.tool = "old"
        self.through = anyio.Event()

    async def list_tools(self) -> ServerListing:
        listing = await super().list_tools()
        raw: JsonObject = {"name": self.tool, "inputSchema": {"type": "object"}}
        tool = ToolDefinition(server_id="box", name=self.tool, raw=raw)
        if self.asked == 1:
            await self.through.wait()
        return replace(listing, tools=(tool,))


@asynccontextmanager
async def counted(folder: Path, box: CountingBox, *, ttl_s: float) -> AsyncGenerator[ToolRegistry]:
    async with AsyncExitStack() as stack:
        settings = Settings.load({}, data_dir=folder, manifest_ttl_s=ttl_s)
        drift = DriftRecords(settings, folder, make_redactor(settings, None), MemoryJournal())
        config = parse_config(b'{"mcpServers": {"box": {"command": "x"}}}', source="test", environ={})
        tool_registry = (await open_tool_registry(stack, settings, config, {}, drift, FileStores(folder))).registry
        tool_registry._upstreams = box  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        yield tool_registry


@pytest.mark.req("H-048")
async def test_notification_expiry_and_refresh_cause_one_list_each(tmp_path: Path) -> None:
    box, asked = CountingBox(), list[int]()
    async with counted(tmp_path, box, ttl_s=3600.0) as tool_registry:
        for _ in range(3):
            await tool_registry.snapshot()
        asked.append(box.asked)  # nothing is cached yet
        tool_registry.refresh_soon("box")  # the server said that its list changed
        await tool_registry.close()
        asked.append(box.asked)
        await tool_registry.refresh()  # an operator
        asked.append(box.asked)
    async with counted(tmp_path, box, ttl_s=3600.0) as tool_registry:
        await tool_registry.snapshot()
        asked.append(box.asked)  # the cache is fresh
    async with counted(tmp_path, box, ttl_s=1e-9) as tool_registry:
        await tool_registry.snapshot()
        asked.append(box.asked)  # it has expired

    assert asked == [1, 2, 3, 3, 4]


async def test_a_server_that_could_not_be_listed_is_asked_again_by_the_first_call(tmp_path: Path) -> None:
    listing = tmp_path / "tools.json"
    servers = {"box": recorder(tmp_path, "one")}
    listing.rename(tmp_path / "away")
    async with open_app(servers) as app:
        before = await app.tool_registry.snapshot()
        (tmp_path / "away").rename(listing)
        code = "from client.mcp_client import call_tool\nresult = (await call_tool(server_id='box', name='one')).ok"
        with anyio.fail_after(30):
            answered = await run(app, code)
        after = app.tool_registry.current
    assert "box" in before.problems
    assert answered.data is True
    assert after is not None
    assert not after.problems


@pytest.mark.req("H-048")
async def test_news_on_a_listen_stream_cause_one_list_each(tmp_path: Path) -> None:
    del tmp_path
    async with open_app({"late": fixture_server("late.py", "prompt")}, manifest_ttl_s=3600.0) as app:
        asked = list[int]()
        changed = anyio.Event()
        upstream = app.tool_registry.get("late")
        assert upstream is not None

        async def call(name: str) -> Any:
            return (await upstream.call_tool(name, {}, timeout_s=20)).get("structuredContent")

        with anyio.fail_after(30):
            await app.tool_registry.refresh()  # whatever an earlier run of the test has left in the cache
            for _ in range(2):
                await app.tool_registry.snapshot()
            asked.append((await call("told"))["lists"])
            app.tool_registry.follow(lambda _: changed.set())
            await call("change")
            await changed.wait()
            for _ in range(3):
                await call("told")
            await app.tool_registry.close()
            asked.append((await call("told"))["lists"])
        now = app.tool_registry.current
    assert upstream.protocol_version == "2026-07-28"
    assert asked == [1, 2]
    assert now is not None
    assert "new" in [tool.name for tool in now.manifest.tools()]


async def test_a_list_that_takes_long_does_not_take_the_place_of_a_newer_one(tmp_path: Path) -> None:
    box = ChangingBox()
    async with counted(tmp_path, box, ttl_s=3600.0) as tool_registry:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tool_registry.refresh)
                await anyio.wait_all_tasks_blocked()
                box.tool = "new"
                tasks.start_soon(tool_registry.refresh)
                await anyio.wait_all_tasks_blocked()
                box.through.set()
        snapshot = await tool_registry.snapshot()
    async with counted(tmp_path, box, ttl_s=3600.0) as tool_registry:
        kept = await tool_registry.snapshot()  # from the disk
    assert [[tool.name for tool in one.manifest.tools()] for one in (snapshot, kept)] == [["new"], ["new"]]
    assert box.asked == 2
