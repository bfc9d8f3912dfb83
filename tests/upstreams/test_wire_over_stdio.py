"""What a server on stdio hears from us: every line of it, in its order."""

from __future__ import annotations

import json
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from moonpool.upstreams import UpstreamError
from upstreams.peers import raw, upstream, upstreams

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio
OLD = {"srv": "2025-11-25"}
"""A revision that was negotiated before: the server is not asked whether it is of 2026-07-28."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def lines_of(log: Path) -> list[Any]:
    """Every line that the server heard; what it noted itself is a text."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) if line.startswith("{") else line for line in lines]


async def echo(srv: Upstream, timeout_s: float = 20) -> None:
    await srv.call_tool("echo", {}, timeout_s=timeout_s)


async def try_echo(srv: Upstream, timeout_s: float) -> None:
    try:
        await echo(srv, timeout_s)
    except UpstreamError:
        pass


@pytest.mark.req("A-023", "A-026", "A-027", "A-033", "A-034")
async def test_the_handshake_is_whole_before_anything_else_is_said(log: Path) -> None:
    with anyio.fail_after(30):
        async with upstream(raw("slow-handshake", log), known_versions=OLD) as srv, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(echo, srv)
    first, answered, second, *rest = lines_of(log)

    assert (first["method"], second["method"], answered) == ("initialize", "notifications/initialized", "ANSWERED")
    assert first["params"]["protocolVersion"] == HANDSHAKE_PROTOCOL_VERSIONS[-1]
    assert isinstance(first["params"]["capabilities"], dict)
    assert first["params"]["clientInfo"]["name"] == "moonpool"
    assert [line["method"] for line in rest] == ["tools/call"] * 3


@pytest.mark.req("A-001", "A-002", "A-004", "A-009", "A-079", "A-080", "B-005", "A-013", "A-091")
async def test_every_line_is_a_message_and_no_id_or_token_is_used_twice(
    log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "moonpool.upstreams.server_logging")  # somebody reads progress, so it is asked for
    with anyio.fail_after(60):
        async with upstream(raw("good", log)) as srv:
            for _ in range(3):
                async with anyio.create_task_group() as tasks:
                    for _ in range(100):
                        tasks.start_soon(echo, srv)
                    tasks.start_soon(srv.list_tools)
    heard = lines_of(log)
    requests = [line for line in heard if "id" in line]
    calls = [line for line in requests if line["method"] == "tools/call"]
    tokens = [line["params"]["_meta"]["progressToken"] for line in calls]

    assert {line["jsonrpc"] for line in heard} == {"2.0"}
    assert all(isinstance(line["id"], int | str) and not isinstance(line["id"], bool) for line in requests)
    assert len({json.dumps(line["id"]) for line in requests}) == len(requests)
    assert (len(calls), len(set(tokens))) == (300, 300)
    assert all(isinstance(token, int | str) for token in tokens)
    assert all(json.dumps(line).count("progressToken") == 1 for line in calls)
    assert all(line["method"].startswith("notifications/") for line in heard if "id" not in line)


@pytest.mark.req("A-030", "A-031")
async def test_a_handshake_that_takes_too_long_is_not_cancelled_but_left(log: Path) -> None:
    with anyio.fail_after(30):
        async with upstream(raw("never-answers", log, connect_timeout_s=2), known_versions=OLD) as srv:
            with pytest.raises(UpstreamError, match="within 2 s") as caught:
                await srv.list_tools()

    assert caught.value.code == "upstream_connect_timeout"
    assert [line["method"] for line in lines_of(log)] == ["initialize"]


@pytest.mark.req("A-069", "A-070", "A-074")
async def test_only_requests_of_ours_are_cancelled_and_each_once(log: Path) -> None:
    """The server answers after 0.2 s each, so some calls end by an answer, some by their time limit."""
    with anyio.fail_after(60):
        async with upstream(raw("slow", log), known_versions=OLD) as srv:
            await srv.list_tools()
            async with anyio.create_task_group() as tasks:
                for number in range(12):
                    tasks.start_soon(try_echo, srv, 0.1 * number)
            await echo(srv)
    heard = lines_of(log)
    asked = [line["id"] for line in heard if line.get("method") == "tools/call"]
    cancelled = [line["params"] for line in heard if line.get("method") == "notifications/cancelled"]

    assert cancelled
    assert {one["requestId"] for one in cancelled} <= {*asked}
    assert max(Counter(one["requestId"] for one in cancelled).values()) == 1
    assert all(isinstance(one.get("reason", ""), str) for one in cancelled)


@pytest.mark.req("A-038")
async def test_servers_of_two_revisions_work_side_by_side() -> None:
    with anyio.fail_after(30):
        async with upstreams({"old": raw("old"), "newer": raw("good")}) as found:
            for name in ("old", "newer", "old", "newer"):
                srv = found.get(name)
                assert srv is not None
                await echo(srv)
            told = [one.protocol_version for name in ("old", "newer") if (one := found.get(name)) is not None]

    assert told == ["2024-11-05", "2025-06-18"]


@pytest.mark.req("A-008", "A-040", "A-049")
async def test_members_that_no_revision_knows_are_taken_and_kept() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("extras")) as srv:
            listing = await srv.list_tools()
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)

    assert [tool.name for tool in listing.tools] == ["echo"]
    assert (result["structuredContent"], result["extra"]) == ({"a": 1}, [None])


@pytest.mark.req("A-043", "A-044", "A-047", "L-001")
async def test_a_server_that_declares_no_tools_has_none_and_is_not_asked_for_them(log: Path) -> None:
    with anyio.fail_after(30):
        async with upstream(raw("toolless", log)) as srv:
            listing = await srv.list_tools()
            with pytest.raises(UpstreamError, match="srv"):
                await echo(srv)

    assert listing.tools == ()
    assert {line["method"] for line in lines_of(log)}.isdisjoint({"tools/list", "tools/call"})


@pytest.mark.req("A-056", "A-061")
@pytest.mark.parametrize(
    "method", ["server/discover", pytest.param("tools/list", marks=pytest.mark.slow), "tools/call"]
)
async def test_no_request_waits_for_ever(log: Path, method: str) -> None:
    block = {"connect_timeout_s": 5, "timeout_s": 0.5}
    with anyio.fail_after(40):
        async with upstream(raw("silent", log, method, **block)) as srv:
            if method == "server/discover":  # a server that does not know it and says nothing is one of before
                assert (await srv.list_tools()).protocol_version == "2025-06-18"
            elif method == "tools/list":
                with pytest.raises(UpstreamError) as caught:
                    await srv.list_tools()
                assert caught.value.code == "upstream_call_timeout"
            else:
                await srv.list_tools()  # its start takes none of the call's time
                with pytest.raises(UpstreamError) as caught:
                    await echo(srv, 0.5)
                assert caught.value.code == "upstream_call_timeout"

    assert method in {line["method"] for line in lines_of(log)}


@pytest.mark.req("A-059", "A-060")
async def test_progress_does_not_give_a_call_more_time(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "moonpool.upstreams.server_logging")
    with anyio.fail_after(30):
        async with upstream(raw("progresses", log)) as srv:
            await srv.list_tools()
            with pytest.raises(UpstreamError) as caught:
                await echo(srv, 1.5)

    assert caught.value.code == "upstream_call_timeout"
    assert "echo: 1" in caplog.text
