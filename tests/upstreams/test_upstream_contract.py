"""What every `Upstream` does, whatever is behind it: the fake earns its trust here."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.core.calls import CallErrorType
from moonpool.upstreams import UpstreamError
from moonpool.upstreams.fake import FakeUpstream, echo
from upstreams.peers import HttpServer, command, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.json import JsonObject
    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio


async def _sleep(arguments: JsonObject) -> JsonObject:
    await anyio.sleep(float(str(arguments["seconds"])))
    return {"content": []}


async def _fail(arguments: JsonObject) -> JsonObject:
    return {"content": [{"type": "text", "text": arguments["text"]}], "isError": True}


async def _big(arguments: JsonObject) -> JsonObject:
    return {"content": [{"type": "text", "text": "x" * int(str(arguments["n"]))}]}


async def _length(arguments: JsonObject) -> JsonObject:
    return {"content": [], "structuredContent": {"length": len(str(arguments["text"]))}}


def fake() -> FakeUpstream:
    behaviours = {"echo": echo, "sleep": _sleep, "fail": _fail, "big": _big, "length": _length}
    tools = {name: ({"name": name, "inputSchema": {"type": "object"}}, run) for name, run in behaviours.items()}
    return FakeUpstream("srv", tools)


@asynccontextmanager
async def opened(kind: str, server: HttpServer) -> AsyncGenerator[Upstream]:
    if kind == "fake":
        yield fake()
        return
    entries = {
        "stdio": command("echo.py"),
        "stdio of the SDK": command("echo.py", "--sdk"),
        "http 2026-07-28": {"url": server.url("/mcp"), "type": "http"},
        "http sessions": {"url": server.url("/stateful"), "type": "http"},
        "legacy sse": {"url": server.url("/sse"), "type": "sse"},
    }
    era = {"known_versions": {"srv": "2025-11-25"}} if kind == "http sessions" else {}
    async with upstream(entries[kind], **era) as found:
        yield found


@pytest.fixture(
    params=[
        "fake",
        "stdio",
        pytest.param("stdio of the SDK", marks=pytest.mark.slow),
        "http 2026-07-28",
        "http sessions",
        "legacy sse",
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.req("E-001", "L-039")
async def test_listing_keeps_names_and_says_the_revision(kind: str, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with opened(kind, echo_http) as srv:
            listing = await srv.list_tools()
    assert {"echo", "sleep", "fail"} <= {tool.name for tool in listing.tools}
    assert listing.server_id == "srv"
    assert listing.protocol_version == ("2025-11-25" if kind == "http sessions" else "2026-07-28")


@pytest.mark.req("B-001", "B-003", "B-084", "B-085")
async def test_arguments_arrive_and_return_unchanged(kind: str, echo_http: HttpServer) -> None:
    arguments: JsonObject = {"a": None, "self": [1, 2.5, True], "ü": {"$ref": "#", "big": 2**70}, "from": "\u2028"}
    with anyio.fail_after(30):
        async with opened(kind, echo_http) as srv:
            result = await srv.call_tool("echo", arguments, timeout_s=20)
    assert result["structuredContent"] == arguments


@pytest.mark.req("D-011")
async def test_a_tool_error_is_a_result_and_not_an_exception(kind: str, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with opened(kind, echo_http) as srv:
            result = await srv.call_tool("fail", {"text": "no"}, timeout_s=20)
    assert result["isError"] is True


@pytest.mark.req("D-011")
async def test_an_unknown_tool_is_a_typed_error(kind: str, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with opened(kind, echo_http) as srv:
            with pytest.raises(UpstreamError) as caught:
                await srv.call_tool("nonesuch", {}, timeout_s=20)
    assert caught.value.call_error_type is CallErrorType.UPSTREAM_ERROR
    assert "server 'srv' refused 'nonesuch'" in str(caught.value)


@pytest.mark.req("D-007", "A-056", "A-073")
async def test_a_slow_tool_times_out_and_the_next_call_works(kind: str, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with opened(kind, echo_http) as srv:
            await srv.list_tools()
            with pytest.raises(UpstreamError) as caught:
                await srv.call_tool("sleep", {"seconds": 60}, timeout_s=0.2)
            result = await srv.call_tool("echo", {"after": 1}, timeout_s=20)
    assert (caught.value.call_error_type, caught.value.retryable) == (CallErrorType.TIMEOUT, True)
    assert result["structuredContent"] == {"after": 1}


@pytest.mark.req("A-004", "B-085")
async def test_a_hundred_calls_at_once_do_not_mix(kind: str, echo_http: HttpServer) -> None:
    answers: dict[int, object] = {}

    async def call(srv: Upstream, number: int) -> None:
        result = await srv.call_tool("echo", {"n": number}, timeout_s=20)
        answers[number] = result["structuredContent"]

    with anyio.fail_after(30):
        async with opened(kind, echo_http) as srv, anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(call, srv, number)
    assert answers == {number: {"n": number} for number in range(100)}


async def test_a_cancelled_call_leaves_the_connection_usable(kind: str, echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with opened(kind, echo_http) as srv:
            await srv.list_tools()
            with anyio.move_on_after(0.1):
                await srv.call_tool("sleep", {"seconds": 60}, timeout_s=20)
            result = await srv.call_tool("echo", {"after": 1}, timeout_s=20)
    assert result["structuredContent"] == {"after": 1}


@pytest.mark.req("B-010")
async def test_eight_mebibytes_pass_both_ways(kind: str, echo_http: HttpServer) -> None:
    size = 8 * 1024 * 1024
    up = size if kind.startswith(("fake", "stdio")) else 3 * 1024 * 1024  # the SDK's HTTP servers take at most 4 MiB
    with anyio.fail_after(60):
        async with opened(kind, echo_http) as srv:
            down = await srv.call_tool("big", {"n": size}, timeout_s=50)
            counted = await srv.call_tool("length", {"text": "y" * up}, timeout_s=50)
    assert down["content"] == [{"type": "text", "text": "x" * size}]
    assert counted["structuredContent"] == {"length": up}
