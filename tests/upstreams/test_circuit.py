"""The circuit breaker of one upstream: delays that grow, an open circuit, a single probe, and closed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.core.errors import ConfigError
from moonpool.upstreams.base import UpstreamError
from upstreams.peers import command, configure, raw, upstream

if TYPE_CHECKING:
    from moonpool.upstreams import Upstream

BLOCK = {"failures_max": 5, "rest_s": 40}


@dataclass
class Clock:
    """Time that the test moves."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


async def failure(srv: Upstream, tool: str = "crash") -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await srv.call_tool(tool, {}, timeout_s=20)
    return caught.value


async def break_down(srv: Upstream, clock: Clock) -> list[float]:
    """Kill the server five times, each as soon as it is tried again; the waits in between."""
    waits: list[float] = []
    while len(waits) < 5:
        assert (await failure(srv)).code == "upstream_died"
        resting = await failure(srv)  # the first failure is free, so this one is the second
        if resting.code == "upstream_died":
            waits.append(0.0)
            resting = await failure(srv)
        assert resting.retry_after_s is not None
        waits.append(resting.retry_after_s)
        clock.now += resting.retry_after_s if len(waits) < 5 else 0
    return waits


@pytest.mark.req("D-060")
@pytest.mark.anyio
async def test_five_deaths_in_a_row_open_the_circuit_and_one_success_closes_it() -> None:
    clock = Clock()
    with anyio.fail_after(60):
        async with upstream(command("echo.py", moonpool=BLOCK), clock=clock) as srv:
            waits = await break_down(srv, clock)
            opened = await failure(srv, "echo")
            clock.now += 40.1
            half_open = await failure(srv)
            again = await failure(srv, "echo")
            clock.now += 80.1
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
            closed = await failure(srv)  # the first failure is free again
            after = await srv.call_tool("echo", {"b": 2}, timeout_s=20)
    assert waits == [0.0, 0.25, 0.5, 1.0, 40.0]
    assert (opened.code, opened.retryable) == ("upstream_circuit_open", True)
    assert "its circuit is open; it is tried again in 40.0 s" in opened.for_guest
    assert "closed the connection" in str(opened)
    assert (half_open.code, again.code, again.retry_after_s) == ("upstream_died", "upstream_circuit_open", 80.0)
    assert (result["structuredContent"], after["structuredContent"]) == ({"a": 1}, {"b": 2})
    assert closed.code == "upstream_died"


@pytest.mark.req("D-060")
@pytest.mark.anyio
async def test_a_half_open_circuit_lets_one_call_through() -> None:
    clock, codes = Clock(), list[str]()

    async def call(srv: Upstream) -> None:
        codes.append((await failure(srv, "echo")).code)

    with anyio.fail_after(60):
        async with upstream({"command": "no-such-program", "moonpool": {"failures_max": 1}}, clock=clock) as srv:
            await failure(srv)
            clock.now += 30.1
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(call, srv)
    assert sorted(codes) == ["upstream_cannot_start", *["upstream_circuit_open"] * 4]


@pytest.mark.req("D-060")
@pytest.mark.anyio
async def test_many_calls_that_die_together_are_one_failure() -> None:
    codes: list[str] = []

    async def sleep(srv: Upstream) -> None:
        with pytest.raises(UpstreamError) as caught:
            await srv.call_tool("sleep", {"seconds": 60}, timeout_s=60)
        codes.append(caught.value.code)

    with anyio.fail_after(60):
        async with upstream(command("echo.py", moonpool=BLOCK), clock=Clock()) as srv:
            await srv.list_tools()
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(sleep, srv)
                await anyio.wait_all_tasks_blocked()
                await failure(srv)
            result = await srv.call_tool("echo", {"a": 1}, timeout_s=20)
    assert codes == ["upstream_died"] * 8
    assert result["structuredContent"] == {"a": 1}


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ({"failures_max": 0}, '"failures_max": must be from 1 to 1000'),
        ({"rest_s": 0}, '"rest_s": must be from 0.1 to 86400'),
        ({"calls_per_minute": -1}, '"calls_per_minute": must be 0 (no limit) or from 0.01'),
        ({"calls_burst": 3}, '"calls_burst": needs "calls_per_minute"'),
        ({"calls_burst": -3, "calls_per_minute": 1}, '"calls_burst": must be from 0'),
        ({"log_level": "loud"}, "log_level"),
    ],
)
def test_an_unusable_limit_is_refused(block: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure({"srv": raw("good", **block)})
    assert sentence in str(caught.value)
