"""Every byte of a server is bounded, whatever it sends where, and so is what its bytes become and how fast they go."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

from moonpool.net.bounded_bodies import EventStream
from moonpool.net.message_limits import RESULT_BYTES_MAX
from moonpool.net.throttle import UNASKED_BURST_MAX, UNASKED_PER_SECOND_MAX, pieces
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.wire import BODY_BYTES_MAX, open_login_http
from moonpool.upstreams import UpstreamError
from moonpool.upstreams.http import IGNORED_BYTES_MAX
from moonpool.upstreams.process import UNREAD_BYTES_MAX, open_process
from upstreams.faucet import SIZE, open_faucet
from upstreams.peers import QUICK, SECRET, command, configure, raw, upstream, upstreams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.upstreams import Upstream
    from moonpool.upstreams.base import Change
    from upstreams.faucet import Faucet

pytestmark = pytest.mark.anyio
ON_THE_WAY = 16 * 1024 * 1024
"""What sockets and buffers hold when a reader stops."""
ERA = {"srv": "2025-11-25"}
LIMITED = Path(__file__).with_name("under_a_limit.py")


@pytest.fixture
async def faucet() -> AsyncGenerator[Faucet]:
    async with open_faucet() as opened:
        yield opened


async def outcome(srv: Upstream, *, timeout_s: float = 60) -> str:
    try:
        await srv.call_tool("echo", {}, timeout_s=timeout_s)
    except UpstreamError as exc:
        return exc.code
    return "ok"


@pytest.mark.req("D-063")
@pytest.mark.parametrize(
    ("kind", "expected", "bytes_max"),
    [
        pytest.param("json", "upstream_result_too_large", RESULT_BYTES_MAX, id="a type in other letters"),
        pytest.param("refused-json", "upstream_result_too_large", RESULT_BYTES_MAX, id="a refusal"),
        pytest.param("event", "upstream_result_too_large", RESULT_BYTES_MAX, id="an event without end"),
        pytest.param("zipped-tail", "upstream_result_too_large", RESULT_BYTES_MAX, id="what follows a zipped body"),
        pytest.param("zipped-twice", "upstream_result_too_large", IGNORED_BYTES_MAX, id="a body that is zipped twice"),
        pytest.param("page", "upstream_protocol_error", IGNORED_BYTES_MAX, id="a web page"),
        pytest.param("redirect", "ok", IGNORED_BYTES_MAX, id="the body of a redirect"),
        pytest.param("delete", "ok", IGNORED_BYTES_MAX, id="the answer to a goodbye"),
        pytest.param("sse-post", "ok", IGNORED_BYTES_MAX, id="the answer to a post of the older transport"),
    ],
)
async def test_no_more_of_a_body_is_read_than_a_limit(kind: str, expected: str, bytes_max: int, faucet: Faucet) -> None:
    transport = "sse" if kind.startswith("sse") else "http"
    with anyio.fail_after(60):
        async with upstream({"url": faucet.url(kind), "type": transport}, known_versions=ERA) as srv:
            assert await outcome(srv) == expected
    assert faucet.poured[kind] <= bytes_max + ON_THE_WAY


@pytest.mark.parametrize("kind", ["json", "zipped-tail", "event"])
async def test_no_more_of_an_authorization_server_is_read_than_a_limit(kind: str, faucet: Faucet) -> None:
    with anyio.fail_after(30):
        async with open_login_http(faucet.url(kind)) as http:
            body: Any = {"id": 1, "method": "tools/call"}
            if kind == "event":
                assert (await http.post_json(faucet.url(kind), body)).body is None
            else:
                with pytest.raises(OAuthError, match=r"more than 1 MiB"):
                    await http.post_json(faucet.url(kind), body)
    assert faucet.poured[kind] <= BODY_BYTES_MAX + ON_THE_WAY


@pytest.mark.parametrize("kind", ["objects", "events", "lines", "sse-objects", "stdio"])
async def test_a_message_of_too_many_things_fails_its_call_before_it_is_decoded(kind: str, faucet: Faucet) -> None:
    remote = {"url": faucet.url(kind), "type": "sse" if kind.startswith("sse") else "http"}
    with anyio.fail_after(60):
        async with upstream(raw("objects", SIZE) if kind == "stdio" else remote, known_versions=ERA) as srv:
            with pytest.raises(UpstreamError, match=r"more than [125]00000 (objects and arrays|lines)") as caught:
                await srv.call_tool("echo", {}, timeout_s=40)
            await srv.list_tools()
    assert caught.value.code == "upstream_result_too_large"


@pytest.mark.slow
async def test_what_a_message_becomes_fits_into_memory(faucet: Faucet) -> None:
    """45 MB of `{}` are 1.3 GB of objects, and short lines of an event eight times their length."""
    faucet.size, too_large = 15_000_000, "upstream_result_too_large"
    expected = {"fine": "ok", "objects": too_large, "events": too_large, "lines": too_large, "zipped": too_large}
    remote = {kind: {"url": faucet.url(kind), "type": "http"} for kind in expected}
    older = {"sse-objects": {"url": faucet.url("sse-objects"), "type": "sse"}}
    local = {"objects-stdio": raw("objects", faucet.size)}
    del local["objects-stdio"]["env"]
    servers = {**remote, **older, **local}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(LIMITED), json.dumps({"mcpServers": servers}), stdout=asyncio.subprocess.PIPE
    )
    with anyio.fail_after(100):
        shown, _ = await process.communicate()
    assert dict(zip(servers, json.loads(shown), strict=True)) == {
        **expected,
        "sse-objects": too_large,
        "objects-stdio": too_large,
    }


@pytest.mark.parametrize("kind", ["stdio", "get", "sse-get"])
async def test_a_server_that_never_stops_talking_is_read_at_a_pace(kind: str, faucet: Faucet) -> None:
    entries = {
        "stdio": raw("talks"),
        "get": {"url": faucet.url("get"), "type": "http"},
        "sse-get": {"url": faucet.url("sse-get"), "type": "sse"},
    }
    heard: Counter[str] = Counter()

    def count(change: Change) -> None:
        heard[change.server_id] += 1

    protocol_versions = {"talker": "2025-11-25"}
    with anyio.fail_after(60):
        servers = {"talker": entries[kind], "neighbour": command("echo.py")}
        began = anyio.current_time()
        async with upstreams(servers, on_change=count, known_versions=protocol_versions) as opened:
            talker, neighbour = opened.get("talker"), opened.get("neighbour")
            assert talker is not None
            assert neighbour is not None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(outcome, talker)
                while heard["talker"] < UNASKED_BURST_MAX // 2:
                    await neighbour.call_tool("echo", {}, timeout_s=20)
                await neighbour.call_tool("sleep", {"seconds": 0.5}, timeout_s=20)
                tasks.cancel_scope.cancel()
            took_s = anyio.current_time() - began
            assert heard["talker"] <= UNASKED_BURST_MAX + UNASKED_PER_SECOND_MAX * took_s + 100


async def test_a_server_that_asks_and_takes_no_answer_costs_a_bounded_number_of_tasks(faucet: Faucet) -> None:
    known, told = len(asyncio.all_tasks()), anyio.Event()
    entry = {"url": faucet.url("asks"), "type": "http"}
    with anyio.fail_after(30):
        async with (
            upstream(entry, on_change=lambda _: told.set(), known_versions=ERA) as srv,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(outcome, srv)
            await told.wait()
            assert len(asyncio.all_tasks()) - known < 100
            tasks.cancel_scope.cancel()


async def test_answers_that_a_process_does_not_read_do_not_pile_up() -> None:
    config = configure({"srv": {"command": "sleep", "args": ["600"]}}).servers[0]
    with anyio.fail_after(30):
        async with open_process(config, dict(os.environ), times=QUICK) as process:
            for _ in range(UNREAD_BYTES_MAX // 1024**2 + 1):
                await process.send(bytes(1024**2), patient=False)
            with pytest.raises(anyio.BrokenResourceError):
                await process.send(b"1", patient=False)


@pytest.mark.req("X-12")
async def test_a_server_that_worked_over_one_transport_cannot_choose_the_other(faucet: Faucet) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": faucet.url("turncoat")}, known_versions=ERA) as srv:
            first, second = await outcome(srv), await outcome(srv)
    assert (first, second) == ("upstream_unreachable", "upstream_protocol_error")
    assert [seen for seen in faucet.seen if seen[0] == "GET" and not seen[2]][1:] == []


@pytest.mark.parametrize("kind", ["named", "typed", "unfit", "elsewhere"])
async def test_nothing_that_a_server_sends_is_logged_as_it_came(
    kind: str, faucet: Faucet, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {"url": faucet.url(kind), "type": "http", "headers": {"X-Api-Key": SECRET}}
    with anyio.fail_after(30):
        async with upstream(entry, known_versions=ERA) as srv:
            await outcome(srv)
    assert (SECRET in caplog.text, "\x1b" in caplog.text) == (False, False)


async def test_a_stream_is_taken_up_again_neither_at_once_nor_never() -> None:
    async def said() -> AsyncGenerator[bytes]:
        for retry in (b"0", b"500", b"9" * 20, b"soon"):
            yield b"retry: %b\r\n\r\n" % retry

    response = httpx2.Response(200, content=said())
    events = EventStream(
        response, refuse=pytest.fail, wanted=lambda: True, throttle=pieces(), unasked=None, free=0
    )  # fmt: skip
    assert [event async for event in events] == [
        b"retry: 100\n\n", b"retry: 500\n\n", b"retry: 60000\n\n", b":\n\n",
    ]  # fmt: skip
