"""The toolbox: caches, unreachable servers, refresh."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import fixture_server, open_app, run

if TYPE_CHECKING:
    from pathlib import Path

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
            snapshot = await app.toolbox.snapshot()
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
        await app.toolbox.refresh()
    recorder(tmp_path, "one", "two")  # the server learns a tool while nobody looks
    async with open_app(servers, manifest_ttl_s=3600.0) as app:
        snapshot = await app.toolbox.snapshot()
        names = [tool.name for tool in snapshot.manifest.tools()]
        changed = anyio.Event()
        app.toolbox.follow(lambda _: changed.set())
        with anyio.fail_after(20):
            await run(app, "import servers.box as b\nawait b.one()")
            await changed.wait()
        fresh = app.toolbox.current
    assert names == ["one"]  # had the server been asked, it would have said two
    assert fresh is not None
    assert [tool.name for tool in fresh.manifest.tools()] == ["one", "two"]


@pytest.mark.req("H-048", "H-013")
async def test_refresh_without_a_change_keeps_the_tree_and_tells_nobody(tmp_path: Path) -> None:
    async with open_app({"box": recorder(tmp_path, "one")}) as app:
        first = await app.toolbox.snapshot()
        heard: list[object] = []
        app.toolbox.follow(heard.append)
        second = await app.toolbox.refresh()
    assert (first.digest, first.tree) == (second.digest, second.tree)
    assert heard == []


async def test_an_expired_cache_asks_the_server_again(tmp_path: Path) -> None:
    servers = {"box": recorder(tmp_path, "one")}
    async with open_app(servers) as app:
        await app.toolbox.snapshot()
    recorder(tmp_path, "other")
    async with open_app(servers) as app:
        names = [tool.name for tool in (await app.toolbox.snapshot()).manifest.tools()]
    assert names == ["other"]
