"""Resources that are subscribed to at a server of the SDK over loopback HTTP, in both eras."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

from moonpool.upstreams.callers import calling_as
from moonpool.upstreams.notification_stream import NotificationStream
from upstreams.peers import HttpServer, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio
OLDER, MODERN = ("/stateful", "2025-11-25"), ("/stateful", "2026-07-28")
WAYS = pytest.mark.parametrize(
    "way",
    [
        pytest.param(OLDER, id="2025-11-25"),
        pytest.param(MODERN, id="2026-07-28"),
        pytest.param(("/mcp", "2026-07-28"), id="2026-07-28 and replies as JSON"),
        pytest.param(("/sse", "2025-11-25"), id="2025-11-25 over SSE"),
    ],
)


@pytest.fixture(scope="module")
def board() -> Iterator[HttpServer]:
    server = HttpServer("noticeboard.py")
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def own_board() -> Iterator[HttpServer]:
    """One that the test may kill and start again."""
    server = HttpServer("noticeboard.py")
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def uris(request: pytest.FixtureRequest) -> list[str]:
    """Addresses that no other test uses."""
    return [f"w://{abs(hash(request.node.name))}/{name}" for name in "abc"]


@asynccontextmanager
async def connected(board: HttpServer, way: tuple[str, str]) -> AsyncGenerator[Upstream]:
    path, era = way
    with anyio.fail_after(40):
        async with upstream({"url": board.url(path)}, known_versions={"srv": era}) as srv:
            assert (await srv.list_tools()).protocol_version == era
            yield srv


async def data(srv: Upstream, tool: str, /, *, by: str = "session", **arguments: Any) -> Any:
    with calling_as(by):
        return (await srv.call_tool(tool, arguments, timeout_s=20)).get("structuredContent")


async def change(srv: Upstream, uri: str) -> None:
    await data(srv, "change", uri=uri, text="new")


async def subscribed(srv: Upstream) -> set[str]:
    return {*(await data(srv, "told"))["uris"]}


@pytest.mark.req("D-013", "D-014")
@WAYS
async def test_a_change_reaches_who_subscribed_until_nobody_wants_it(
    way: tuple[str, str], board: HttpServer, uris: list[str]
) -> None:
    a, b, c = uris
    async with connected(board, way) as srv:
        for by, uri in (("one", a), ("two", a), ("two", b), ("three", c)):
            await data(srv, "mcp:resources/subscribe", by=by, uri=uri)
        await change(srv, a)
        told = [await data(srv, "mcp:resources/wait", by=by) for by in ("one", "two")]
        after = await data(srv, "mcp:resources/read", uri=a)
        nothing = await data(srv, "mcp:resources/wait", by="three", within_s=0)
        await data(srv, "mcp:resources/unsubscribe", by="one", uri=a)
        for by in ("two", "three"):
            srv.forget_caller(by)
        while not (await subscribed(srv)).isdisjoint(uris):
            await anyio.lowlevel.checkpoint()
    assert told == [{"changed": [a]}] * 2
    assert nothing == {"changed": []}
    assert after["contents"][0]["text"] == "new"


@pytest.mark.req("D-017", "B-066")
@pytest.mark.parametrize("way", [pytest.param(OLDER, id="2025-11-25"), pytest.param(MODERN, id="2026-07-28")])
@pytest.mark.slow
async def test_a_subscription_outlives_the_server_process(
    way: tuple[str, str], own_board: HttpServer, uris: list[str]
) -> None:
    a = uris[0]
    async with connected(own_board, way) as srv:
        await data(srv, "mcp:resources/subscribe", uri=a)
        own_board.die()
        own_board.start()
        missed = await data(srv, "mcp:resources/wait")
        while a not in await subscribed(srv):
            await anyio.lowlevel.checkpoint()
        await data(srv, "mcp:resources/wait", within_s=0)
        await change(srv, a)
        told = await data(srv, "mcp:resources/wait")
    assert missed == told == {"changed": [a]}


@pytest.mark.req("D-017")
@pytest.mark.parametrize("in_good_order", [True, False])
async def test_a_stream_that_a_modern_server_ends_is_opened_again(
    in_good_order: bool, board: HttpServer, uris: list[str]
) -> None:
    a = uris[0]
    async with connected(board, MODERN) as srv:
        await data(srv, "mcp:resources/subscribe", uri=a)
        before = await data(srv, "told")
        await data(srv, "hang_up", in_good_order=in_good_order)
        missed = await data(srv, "mcp:resources/wait")
        while (now := await data(srv, "told"))["listened"] == before["listened"] or a not in now["uris"]:
            await anyio.lowlevel.checkpoint()
        await change(srv, a)
        told = await data(srv, "mcp:resources/wait")
    assert missed == told == {"changed": [a]}


@pytest.mark.req("D-017")
async def test_a_stream_that_an_older_server_ends_may_have_missed_something(board: HttpServer, uris: list[str]) -> None:
    a = uris[0]
    async with connected(board, OLDER) as srv:
        await data(srv, "mcp:resources/subscribe", uri=a)
        await data(srv, "hang_up")
        missed = await data(srv, "mcp:resources/wait")
        await change(srv, a)
        told = await data(srv, "mcp:resources/wait")
    assert missed == told == {"changed": [a]}


REPLAYED = {"last-event-id": "7"}


@pytest.mark.parametrize(
    ("requests", "gaps", "lost"),
    [
        pytest.param([("GET", 405, {})], 0, False, id="a server without such a stream"),
        pytest.param([("GET", 200, {})], 0, False, id="opened"),
        pytest.param([("GET", 200, {}), ("POST", 500, {})], 0, False, id="a call that fails"),
        pytest.param([("GET", 200, {}), ("GET", 200, {})], 1, False, id="opened again"),
        pytest.param([("GET", 200, {}), ("GET", 200, REPLAYED)], 0, False, id="opened again where it ended"),
        pytest.param([("GET", 200, {}), ("GET", 404, {})], 0, True, id="the session is unknown"),
        pytest.param([("GET", 200, {}), ("GET", 503, {})], 0, True, id="the server is gone"),
    ],
)
async def test_what_the_requests_for_an_open_stream_say(
    requests: list[tuple[str, int, dict[str, str]]], gaps: int, lost: bool
) -> None:
    missed: list[None] = []
    stream = NotificationStream(on_gap=lambda: missed.append(None))
    for method, status, headers in requests:
        request = httpx2.Request(method, "http://h/mcp", headers={"mcp-session-id": "s", **headers})
        stream.note(request, httpx2.Response(status, request=request))
    assert (len(missed), stream.lost.is_set()) == (gaps, lost)
