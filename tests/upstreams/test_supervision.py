"""Lazy starts, concurrency, known eras, shutdown; and two published servers through the same code."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.upstreams import UpstreamError, supervisor
from moonpool.upstreams.backoff import DELAY_S_MAX, REST_S_MAX, STEADY_S, Backoff, Returning
from moonpool.upstreams.callers import calling_as
from moonpool.upstreams.resources_and_prompts import SUBSCRIBE
from upstreams.peers import command, raw, upstream, upstreams

if TYPE_CHECKING:
    from moonpool.upstreams import Upstream


@pytest.mark.anyio
async def test_nothing_is_started_before_its_first_use(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with upstreams({"a": raw("good", log), "b": {"command": "no-such-program"}}) as found:
            assert (found.ids, found.get("c"), found.protocol_versions()) == (("a", "b"), None, {})
    assert not log.exists()


@pytest.mark.anyio
async def test_eras_come_out_and_save_the_probe_when_given_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with upstreams({"srv": raw("good")}) as found:
            srv = found.get("srv")
            assert srv is not None
            await srv.list_tools()
            protocol_versions = found.protocol_versions()
        async with upstream(raw("good", log), known_versions=protocol_versions) as srv:
            await srv.list_tools()
    assert protocol_versions == {"srv": "2025-06-18"}
    assert "server/discover" not in log.read_text(encoding="utf-8")


@pytest.mark.anyio
async def test_a_known_era_that_is_wrong_fails_one_call_and_heals() -> None:
    with anyio.fail_after(30):
        async with upstream(raw("strict"), known_versions={"srv": "2026-07-28"}) as srv:
            with pytest.raises(UpstreamError, match="Not initialized"):
                await srv.call_tool("echo", {}, timeout_s=20)
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
            assert srv.protocol_version == "2025-06-18"
    assert result["structuredContent"] == {"a": 1}


@pytest.mark.anyio
async def test_no_more_calls_run_at_once_than_configured(tmp_path: Path) -> None:
    waiting: list[str] = []

    async def call(srv: Upstream, name: str, timeout_s: float) -> None:
        with pytest.raises(UpstreamError) as caught:
            await srv.call_tool("sleep", {"seconds": 30}, timeout_s=timeout_s)
        waiting.append(f"{name}: {caught.value.code}")

    with anyio.fail_after(30):
        async with upstream(command("echo.py", moonpool={"concurrency_max": 2})) as srv:
            await srv.list_tools()
            async with anyio.create_task_group() as tasks:
                for name, timeout_s in (("a", 2.0), ("b", 2.0), ("c", 0.3)):  # the third gives up before a slot is free
                    tasks.start_soon(call, srv, name, timeout_s)
    assert sorted(waiting) == [
        "a: upstream_call_timeout", "b: upstream_call_timeout", "c: upstream_connect_timeout",
    ]  # fmt: skip


@pytest.mark.anyio
async def test_a_call_under_way_fails_when_moonpool_shuts_down() -> None:
    codes: list[str] = []

    async def call(srv: Upstream) -> None:
        with pytest.raises(UpstreamError) as caught:
            await srv.call_tool("sleep", {"seconds": 60}, timeout_s=60)
        codes.append(caught.value.code)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            async with upstream(command("echo.py")) as srv:
                await srv.list_tools()
                tasks.start_soon(call, srv)
                await anyio.wait_all_tasks_blocked()
            with pytest.raises(UpstreamError, match="is being shut down"):
                await srv.call_tool("echo", {}, timeout_s=5)
    assert codes == ["upstream_closed"]


@pytest.mark.req("A-055")
@pytest.mark.anyio
async def test_leaving_while_a_server_is_still_starting_leaves_nothing() -> None:
    with anyio.fail_after(20):
        async with upstream(raw("never-answers")) as srv:
            with pytest.raises(UpstreamError, match=r"was not ready within 0\.3 s"):
                await srv.call_tool("echo", {}, timeout_s=0.3)


@pytest.mark.anyio
async def test_an_error_of_the_body_leaves_as_itself() -> None:
    async def body() -> None:
        async with upstream(command("echo.py")) as srv:
            await srv.list_tools()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), anyio.fail_after(20):
        await body()


def test_the_first_failure_is_free_and_delays_double_up_to_a_maximum() -> None:
    backoff, waits = Backoff(), []
    for _ in range(12):
        backoff.failed(now=100.0)
        waits.append(backoff.wait_s(now=100.0))
    assert waits[:7] == [0.0, 0.25, 0.5, 1.0, 30.0, 60.0, 120.0]
    assert waits[-1] == REST_S_MAX
    assert backoff.wait_s(now=100.0 + REST_S_MAX) == 0.0
    backoff.succeeded()
    assert backoff.wait_s(now=100.0) == 0.0


def test_a_connection_that_did_not_last_is_followed_at_once_and_further_ones_ever_later() -> None:
    returning = Returning()
    waits: list[float] = []
    for lived_s in (0.1, 0.1, 0.1, 5.0, *[0.1] * 8, STEADY_S, 0.1):
        returning.lived(lived_s)
        waits.append(returning.wait_s)
    assert waits[:4] == [0.0, 0.5, 1.0, 2.0]
    assert waits[-3:] == [DELAY_S_MAX, 0.0, 0.0]


@pytest.mark.anyio
async def test_a_server_that_comes_up_and_goes_again_is_not_started_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = anyio.Event()
    lived: list[float] = []

    class Noted(Returning):
        """Lets it come back once, then never."""

        def lived(self, seconds: float) -> None:
            lived.append(seconds)

        @property
        def wait_s(self) -> float:
            if len(lived) < 2:
                return 0.0
            asked.set()
            return math.inf

    monkeypatch.setattr(supervisor, "Returning", Noted)
    starts = tmp_path / "starts"
    with anyio.fail_after(30):
        async with upstream(raw("fleeting", starts)) as srv:
            with contextlib.suppress(UpstreamError), calling_as("somebody"):
                await srv.call_tool(SUBSCRIBE, {"uri": "w://a"}, timeout_s=10)
            await asked.wait()
    assert starts.read_text(encoding="utf-8").count("started") == 2


@pytest.mark.req("P-001")
def test_importing_the_room_does_not_import_the_sdk() -> None:
    code = "import sys, moonpool.upstreams, moonpool.configuration.servers; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "False\n"


def published(name: str) -> str:
    program = Path(sys.executable).parent / name
    if not program.exists():
        pytest.skip(f"{name} is not installed; install the `examples` extra")
    return str(program)


@pytest.mark.anyio
@pytest.mark.slow
async def test_mcp_server_time_answers() -> None:
    entry = {"command": published("mcp-server-time"), "args": ["--local-timezone=UTC"]}
    with anyio.fail_after(60):
        async with upstream(entry) as srv:
            listing = await srv.list_tools()
            result = await srv.call_tool("get_current_time", {"timezone": "UTC"}, timeout_s=30)
    assert [tool.name for tool in listing.tools] == ["get_current_time", "convert_time"]
    assert result["structuredContent"]["timezone"] == "UTC"  # pyright: ignore[reportCallIssue, reportArgumentType, reportIndexIssue, reportOptionalSubscript]


@pytest.mark.anyio
@pytest.mark.slow
async def test_mcp_server_git_answers(tmp_path: Path) -> None:
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    entry = {"command": published("mcp-server-git"), "args": ["--repository", str(tmp_path)]}
    with anyio.fail_after(60):
        async with upstream(entry) as srv:
            listing = await srv.list_tools()
            result = await srv.call_tool("git_status", {"repo_path": str(tmp_path)}, timeout_s=30)
    assert len(listing.tools) == 12
    assert "No commits yet" in str(result["content"])
