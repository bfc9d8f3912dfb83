"""Resources that are subscribed to: told, counted, bounded, and subscribed to again after a reconnect."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.upstreams.base import Change, UpstreamError
from moonpool.upstreams.callers import calling_as
from moonpool.upstreams.fake import FakeUpstream, echo
from moonpool.upstreams.subscriptions import CALLER_COUNT_MAX, PENDING_COUNT_MAX, Subscriptions
from upstreams.peers import command, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio
VERSIONS = ["2025-11-25", "2026-07-28"]
ERAS = pytest.mark.parametrize("version", VERSIONS)
STATE = {"tools": [], "resources": ["w://a"], "prompts": ["p"], "texts": {"w://a": "old"}}


def watched(version: str, folder: Path, **block: Any) -> dict[str, Any]:
    (folder / "state.json").write_text(json.dumps(STATE), encoding="utf-8")
    return command("watched.py", version, folder / "state.json", moonpool=block)


@asynccontextmanager
async def opened(kind: str, folder: Path, **options: Any) -> AsyncGenerator[Upstream]:
    with anyio.fail_after(30):
        if kind != "fake":
            async with upstream(watched(kind, folder), **options) as srv:
                yield srv
            return
        fake = FakeUpstream("srv", {"change": ({"name": "change"}, echo)}, resources={"w://a": "old"})

        async def change(arguments: Any) -> Any:
            fake.change(arguments["uri"], arguments["text"])
            return {"content": []}

        fake.tools["change"] = ({"name": "change", "inputSchema": {"type": "object"}}, change)
        yield fake


async def data(srv: Upstream, tool: str, /, *, by: str = "session", **arguments: Any) -> Any:
    with calling_as(by):
        return (await srv.call_tool(tool, arguments, timeout_s=20)).get("structuredContent")


async def change(srv: Upstream, text: str = "new", uri: str = "w://a") -> None:
    await data(srv, "change", uri=uri, text=text)


@pytest.mark.req("D-013", "D-014")
@pytest.mark.parametrize("kind", ["fake", *VERSIONS])
async def test_a_change_reaches_whoever_subscribed(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as srv:
        assert "mcp:resources/wait" in {tool.name for tool in (await srv.list_tools()).tools}
        before = await data(srv, "mcp:resources/read", uri="w://a")
        assert await data(srv, "mcp:resources/subscribe", uri="w://a") == {"uri": "w://a"}
        await data(srv, "mcp:resources/subscribe", by="other", uri="w://a")
        await change(srv)
        told = [await data(srv, "mcp:resources/wait", by=by) for by in ("session", "other")]
        after = await data(srv, "mcp:resources/read", uri="w://a")
        nothing = await data(srv, "mcp:resources/wait", within_s=0)
    assert told == [{"changed": ["w://a"]}] * 2
    assert (before["contents"][0]["text"], after["contents"][0]["text"]) == ("old", "new")
    assert nothing == {"changed": []}


@pytest.mark.req("D-013")
@pytest.mark.parametrize("kind", ["fake", *VERSIONS])
async def test_after_unsubscribing_nothing_is_told(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as srv:
        for uri in ("w://a", "w://b"):
            await data(srv, "mcp:resources/subscribe", uri=uri)
        await data(srv, "mcp:resources/unsubscribe", uri="w://a")
        await change(srv)
        await change(srv, uri="w://b")
        assert await data(srv, "mcp:resources/wait") == {"changed": ["w://b"]}
        await data(srv, "mcp:resources/unsubscribe", uri="w://b")
        with pytest.raises(UpstreamError, match="no subscription of this session"):
            await data(srv, "mcp:resources/wait")


@ERAS
async def test_the_server_is_told_once_nobody_wants_it(version: str, tmp_path: Path) -> None:
    async with opened(version, tmp_path) as srv:
        await data(srv, "mcp:resources/subscribe", by="one", uri="w://a")
        await data(srv, "mcp:resources/subscribe", by="two", uri="w://a")
        await data(srv, "mcp:resources/unsubscribe", by="one", uri="w://a")
        kept = await data(srv, "told")
        srv.forget_caller("two")
        while _watches(told := await data(srv, "told")):
            await anyio.lowlevel.checkpoint()
    assert _watches(kept)
    assert not _watches(told)


def _watches(told: Any) -> bool:
    said = [one for one in told["told"] if "subscribe" in one or "unsubscribe" in one]
    legacy = bool(said) and "subscribe" in said[-1]
    return legacy or any(one["resourceSubscriptions"] for one in told["listening"])


@ERAS
async def test_a_refused_subscription_is_an_error_and_is_not_kept(version: str, tmp_path: Path) -> None:
    async with opened(version, tmp_path) as srv:
        with pytest.raises(UpstreamError, match=r"Method not found|does not tell when"):
            await data(srv, "mcp:resources/subscribe", uri="w://refused")
        with pytest.raises(UpstreamError, match="no subscription"):
            await data(srv, "mcp:resources/wait")


@pytest.mark.req("A-043")
async def test_a_server_that_declares_no_subscriptions_is_never_asked(tmp_path: Path) -> None:
    del tmp_path
    with anyio.fail_after(30):
        async with upstream(command("library.py", "2025-11-25", "resources")) as srv:
            with pytest.raises(UpstreamError, match="does not offer subscriptions"):
                await data(srv, "mcp:resources/subscribe", uri="weird+x://a")


@pytest.mark.req("D-017")
@ERAS
async def test_a_subscription_outlives_the_connection(version: str, tmp_path: Path) -> None:
    changes: list[Change] = []
    async with opened(version, tmp_path, on_change=changes.append) as srv:
        await data(srv, "mcp:resources/subscribe", uri="w://a")
        with pytest.raises(UpstreamError):
            await data(srv, "crash")
        missed = await data(srv, "mcp:resources/wait")  # connected anew without a call
        await change(srv)
        told = await data(srv, "mcp:resources/wait")
    assert missed == told == {"changed": ["w://a"]}
    assert changes.count(Change(server_id="srv", kind="resource", uri="w://a")) == 2


@pytest.mark.req("D-015", "D-019")
@ERAS
@pytest.mark.parametrize(("kind", "member"), [("resources", "uri"), ("prompts", "name")])
async def test_a_changed_list_is_told_and_read_anew(version: str, kind: str, member: str, tmp_path: Path) -> None:
    heard = anyio.Event()

    def tell(change: Change) -> None:
        if change.kind == kind:
            heard.set()

    async with opened(version, tmp_path, on_change=tell) as srv:
        await srv.list_tools()
        while version == "2026-07-28" and not (await data(srv, "told"))["listening"]:
            await anyio.lowlevel.checkpoint()
        await data(srv, "list_change", kind=kind, name="w://new")
        await heard.wait()
        listed = await data(srv, f"mcp:{kind}/list")
    assert "w://new" in [one[member] for one in listed[kind]]


async def test_subscriptions_are_bounded_for_each_session() -> None:
    many = Subscriptions("srv")
    for number in range(CALLER_COUNT_MAX):
        many.add("a", f"w://{number}")
    with pytest.raises(UpstreamError, match="at most 32"):
        many.add("a", "w://more")
    assert many.add("b", "w://more")
    with pytest.raises(UpstreamError, match="1 to 4096"):
        many.add("b", "w" * 5000)


async def test_what_nobody_wanted_is_not_kept_and_a_flood_is_cut() -> None:
    many = Subscriptions("srv")
    many.add("a", "w://a")
    many.heard("w://other", "w://ab", "w://a" + "/" * 5000)
    assert await many.wait("a", 0) == ()
    many.heard(*(f"w://a/{number}" for number in range(PENDING_COUNT_MAX * 2)))
    assert len(await many.wait("a", 0)) == PENDING_COUNT_MAX
