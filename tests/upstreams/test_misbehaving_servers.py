"""Servers that break every rule: each costs one clear, typed error within the time limit, and nobody else anything."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.core.calls import CallErrorType
from moonpool.upstreams import UpstreamError
from upstreams.peers import SECRET, command, raw, upstream, upstreams
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio


async def failure(srv: Upstream, *, timeout_s: float = 20, **arguments: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await srv.call_tool("echo", arguments, timeout_s=timeout_s)
    return caught.value


@pytest.mark.req("D-061", "A-031", "A-037", "A-061", "G-024", "G-036")
@pytest.mark.parametrize(
    ("entry", "code", "retryable", "sentence"),
    [
        pytest.param(
            {"command": "no-such-program-here"},
            "upstream_cannot_start", False, "'no-such-program-here' was not found; install it, or give its full path",
            id="command not found",
        ),
        pytest.param(
            {"command": "/"}, "upstream_cannot_start", False, "may not be executed", id="not executable"
        ),
        pytest.param(
            {"command": sys.executable, "cwd": "/no/such/folder"},
            "upstream_cannot_start", False, "\"cwd\" '/no/such/folder' is not a folder",
            id="working directory missing",
        ),
        pytest.param(
            raw("close-at-once"),
            "upstream_closed_at_once", True, "(exit status 3); it last wrote to stderr: cannot open database | secret",
            id="closes at once",
        ),
        pytest.param(
            raw("never-answers", connect_timeout_s=0.6),
            "upstream_connect_timeout", True, 'within 0.6 s; raise "connect_timeout_s"',
            id="never answers",
        ),
        pytest.param(
            {
                "command": "sh",  # which prints long before its time is over; a Python may not on a busy machine
                "args": ["-c", "echo 'Welcome to the server!'; exec cat > /dev/null"],
                "moonpool": {"connect_timeout_s": 2},
            },
            "upstream_garbage", False, "prints to stdout something that is not MCP: 'Welcome to the server!'",
            id="prints garbage",
        ),
        pytest.param(
            {"command": sys.executable, "args": ["-c", "print('hello')"]},
            "upstream_garbage", False, "'hello'",
            id="prints something and exits",
        ),
        pytest.param(
            raw("future"), "upstream_protocol_error", False, "speaks MCP revision '2031-01-01'", id="unknown revision"
        ),
    ],
)  # fmt: skip
async def test_a_server_that_does_not_come_up(entry: Any, code: str, retryable: bool, sentence: str) -> None:
    with anyio.fail_after(30):
        async with upstream(entry) as srv:
            error = await failure(srv)
    assert (error.code, error.retryable) == (code, retryable)
    assert sentence in str(error)
    assert SECRET not in str(error)


@pytest.mark.req("D-063", "B-012")
@pytest.mark.parametrize("mode", ["banner", "unsolicited", "old", "deaf-to-probe"])
async def test_an_odd_server_works_all_the_same(mode: str) -> None:
    with anyio.fail_after(30):
        async with upstream(raw(mode, connect_timeout_s=3)) as srv:
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
    assert result["structuredContent"] == {"a": 1}


@pytest.mark.req("D-059")
async def test_a_server_that_speaks_before_it_is_spoken_to_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "log"
    caplog.set_level("INFO", "moonpool.upstreams.server_logging")
    with anyio.fail_after(30):
        async with upstream(raw("chatty", log)) as srv:
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
    assert result["structuredContent"] == {"a": 1}
    assert [
        json.loads(line).get("result") for line in log.read_text(encoding="utf-8").splitlines() if '"early"' in line
    ] == [{}]
    assert "server 'srv' says: starting" in caplog.text


@pytest.mark.req("D-063")
async def test_an_answer_that_drips_is_ended_by_the_calls_own_clock() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("drip")) as srv:
            await srv.list_tools()
            error = await failure(srv, timeout_s=0.5)
    assert error.code == "upstream_call_timeout"


@pytest.mark.req("A-008")
async def test_results_keep_unknown_blocks_and_members() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("good")) as srv:
            result = await srv.call_tool("echo", {}, timeout_s=20)
    assert result == {"content": [{"type": "hologram", "x": 1}], "structuredContent": {}, "extra": [None]}


@pytest.mark.req("G-043", "B-015")
async def test_death_in_a_call_fails_it_at_once_and_the_next_call_restarts(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with upstream(raw("dies-once", tmp_path / "log")) as srv:
            error = await failure(srv, timeout_s=25)
            result = await srv.call_tool("echo", {"again": 1}, timeout_s=20)
    assert (error.code, error.retryable, error.call_error_type) == (
        "upstream_died", True, CallErrorType.TRANSIENT_NETWORK,
    )  # fmt: skip
    assert "closed the connection while 'echo' ran (killed by SIGKILL)" in str(error)
    assert "about to die, token=[redacted]" in str(error)
    assert result["structuredContent"] == {"again": 1}


async def test_a_call_that_died_is_never_sent_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with upstream(raw("dies-mid-call", log)) as srv:
            await failure(srv)
    assert sum('"tools/call"' in line for line in log.read_text(encoding="utf-8").splitlines()) == 1


@pytest.mark.req("D-060")
async def test_a_server_that_keeps_dying_is_left_alone_for_a_while() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("dies-mid-call")) as srv:
            codes = [(await failure(srv)).code for _ in range(3)]
            error = await failure(srv)
    assert codes[:2] == ["upstream_died", "upstream_died"]
    assert "upstream_resting" in [*codes, error.code]


async def test_a_hanging_server_times_out_and_is_restarted_by_the_next_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with upstream(raw("hangs-on-call", log)) as srv:
            await srv.list_tools()
            first = await failure(srv, timeout_s=0.3)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(failure, srv, timeout_s=25))
                await until(lambda: log.read_text(encoding="utf-8").count('"tools/call"') == 2)
                tasks.cancel_scope.cancel()
    assert first.code == "upstream_call_timeout"
    assert log.read_text(encoding="utf-8").count('"initialize"') == 2


@pytest.mark.req("D-007", "D-054", "A-057", "A-069", "A-073")
async def test_a_call_that_times_out_is_cancelled_at_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with upstream(raw("late", log)) as srv:
            await srv.list_tools()
            error = await failure(srv, timeout_s=0.05)
            await srv.call_tool("echo", {}, timeout_s=20)
    lines = log.read_text(encoding="utf-8").splitlines()
    call = next(line for line in lines if '"tools/call"' in line)
    assert "did not answer 'echo' within 0.05 s" in str(error)
    request_id = call.partition('"id":')[2].partition(",")[0].rstrip("}")
    assert any('"notifications/cancelled"' in line and f'"requestId":{request_id}' in line for line in lines)


@pytest.mark.parametrize("kind", ["nan", "surrogate", "range"])
async def test_a_result_that_is_not_json_fails_its_call_at_once(kind: str) -> None:
    with anyio.fail_after(30):
        async with upstream(raw("bad-json-mid")) as srv:
            error = await failure(srv, kind=kind)
            await srv.list_tools()
    assert error.code == "upstream_result_unusable"
    assert "answered 'echo' with something that is not JSON" in str(error)


async def test_the_code_that_many_servers_use_for_any_error_is_no_end_of_the_connection() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("refuses")) as srv:
            error = await failure(srv, message="no such row")
            assert (error.code, "no such row" in str(error)) == ("upstream_protocol_error", True)


async def test_a_result_cut_short_fails_its_call_at_once() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("bad-json-mid")) as srv:
            assert (await failure(srv, kind="cut")).code == "upstream_result_unusable"


@pytest.mark.req("A-006")
@pytest.mark.parametrize(
    ("result", "code", "sentence"),
    [
        pytest.param({}, "upstream_result_unusable", 'without a list of "content"', id="nothing at all"),
        pytest.param({"content": "x"}, "upstream_result_unusable", 'without a list of "content"', id="content a text"),
        pytest.param({"content": ["x"]}, "upstream_result_unusable", "blocks", id="blocks that are texts"),
        pytest.param([1], "upstream_result_unusable", "neither a result object nor an error", id="a list"),
        pytest.param(
            {"resultType": "task", "content": []}, "upstream_result_unusable", "unknown type 'task'", id="a task"
        ),
        pytest.param(
            {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}},
            "upstream_needs_input", "needs more input to run 'echo' (elicitation/create)",
            id="input required",
        ),
    ],
)  # fmt: skip
async def test_results_that_are_none(result: Any, code: str, sentence: str) -> None:
    with anyio.fail_after(30):
        async with upstream(raw("odd-results")) as srv:
            error = await failure(srv, result=result)
    assert error.code == code
    assert sentence in str(error)


async def test_structured_content_alone_is_a_result() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("odd-results")) as srv:
            result = await srv.call_tool("echo", {"result": {"structuredContent": [1]}}, timeout_s=20)
    assert result == {"structuredContent": [1]}


# B-010
@pytest.mark.req("D-063", "B-010")
async def test_a_line_above_the_cap_fails_its_call_only() -> None:
    with anyio.fail_after(60):
        async with upstream(raw("huge-line")) as srv:
            error = await failure(srv, n=65 * 1024 * 1024, timeout_s=50)
            result = await srv.call_tool("echo", {"n": 10}, timeout_s=20)
    assert (error.code, error.call_error_type) == ("upstream_result_too_large", CallErrorType.OUTPUT_TOO_LARGE)
    assert result["content"] == [{"type": "text", "text": "x" * 10}]


@pytest.mark.req("L-022", "B-007")
async def test_a_hundred_megabytes_of_stderr_neither_block_nor_stay() -> None:
    with anyio.fail_after(60):
        async with upstream(raw("stderr-flood")) as srv:
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=50)
    assert result["structuredContent"] == {"a": 1}


async def test_arguments_that_are_no_json_are_refused_before_they_leave() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("good")) as srv:
            error = await failure(srv, value=float("nan"))
    assert "cannot be sent this request as JSON" in str(error)


async def test_requests_of_a_server_are_denied() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("asks")) as srv:
            result = await srv.call_tool("echo", {}, timeout_s=20)
    assert set(result["structuredContent"]) == {"sampling/createMessage", "elicitation/create", "roots/list"}  # pyright: ignore[reportArgumentType]
    assert all(isinstance(code, int) and code < 0 for code in result["structuredContent"].values())  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]


@pytest.mark.req("A-090")
async def test_one_dead_server_costs_the_others_nothing() -> None:
    servers = {"dead": raw("close-at-once"), "alive": command("echo.py")}
    with anyio.fail_after(30):
        async with upstreams(servers) as found:
            dead, alive = found.get("dead"), found.get("alive")
            assert dead is not None
            assert alive is not None
            await failure(dead)
            result = await alive.call_tool("echo", {"a": 1}, timeout_s=20)
    assert result["structuredContent"] == {"a": 1}
