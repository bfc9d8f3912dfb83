"""A list that changes while a connection to a 2026-07-28 server begins: seen, and without more lists than needed.

The server is our own loop over stdio and one of the SDK over Streamable HTTP. It acknowledges who listens only after
its list changed, which is the worst that may happen: it tells of that change to nobody.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.upstreams import changes
from upstreams.peers import HttpServer, command, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.manifest import ServerListing
    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio
ERA = "2026-07-28"


class Peer:
    """One upstream over a transport, and what was heard of it."""

    srv: Upstream

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.news = anyio.Event()

    def hear(self, server_id: str) -> None:
        self.heard.append(server_id)
        self.news.set()

    async def call(self, name: str) -> Any:
        return (await self.srv.call_tool(name, {}, timeout_s=20)).get("structuredContent")


@pytest.fixture
def late() -> Any:
    server = HttpServer("late.py")
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens is waited for longer than a busy machine takes for a call."""
    monkeypatch.setattr(changes, "STANDING_WITHIN_S", 20)


@pytest.fixture(params=["stdio", pytest.param("Streamable HTTP", marks=pytest.mark.slow)])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "stdio":
        return command("late.py")
    return {"url": request.getfixturevalue("late").url("/stateful")}


@asynccontextmanager
async def connected(way: dict[str, Any]) -> AsyncGenerator[Peer]:
    peer = Peer()
    with anyio.fail_after(30):
        async with upstream(way, known_versions={"srv": ERA}, on_listing_changed=peer.hear) as peer.srv:
            yield peer


def names(listing: ServerListing) -> list[str]:
    return [tool.name for tool in listing.tools]


@pytest.mark.req("H-048")
async def test_a_change_by_the_first_call_is_seen_with_one_list(way: dict[str, Any]) -> None:
    """As it is with a list from the cache: it is checked while the first call is made."""
    async with connected(way) as peer:
        listings: list[ServerListing] = []

        async def check() -> None:
            listings.append(await peer.srv.list_tools())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(check)
            await peer.call("change")
        told = await peer.call("told")
    assert names(listings[0]) == ["change", "told", "new"]
    assert (told, peer.heard) == ({"lists": 1}, [])


@pytest.mark.req("H-048")
async def test_a_change_after_a_list_that_could_not_wait_is_told(
    way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "STANDING_WITHIN_S", 0.01)
    async with connected(way) as peer:
        before = names(await peer.srv.list_tools())
        await peer.call("change")
        await peer.news.wait()
        after = names(await peer.srv.list_tools())
        told = await peer.call("told")
    assert (before, after) == (["change", "told"], ["change", "told", "new"])
    assert (told, peer.heard) == ({"lists": 2}, ["srv"])


@pytest.mark.req("H-048")
async def test_a_start_at_which_nothing_changes_takes_one_list(way: dict[str, Any]) -> None:
    if "command" in way:
        way["args"].append("prompt")
    else:
        async with connected(way) as peer:
            await peer.call("change")  # from now on it acknowledges at once
    async with connected(way) as peer:
        before = await peer.call("told")
        for _ in range(3):
            await peer.call("told")
        await peer.srv.list_tools()
        after = await peer.call("told")
    assert after["lists"] == before["lists"] + 1
    assert peer.heard == []
