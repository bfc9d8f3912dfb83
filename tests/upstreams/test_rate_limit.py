"""How fast one server is called: turns, whose turn it is, and pauses that a server asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import pytest

from moonpool.upstreams.base import UpstreamError, UpstreamRateLimitedError, UpstreamThrottledError
from moonpool.upstreams.callers import calling_as
from moonpool.upstreams.http import pause_s
from moonpool.upstreams.rate_limit import CallRate
from upstreams.peers import HttpServer, command, upstream
from waiting import until


class Clock:
    """Time that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def pace(per_minute: float, burst: int = 1, clock: Clock | None = None) -> CallRate:
    return CallRate("srv", calls_per_minute=per_minute, burst=burst, clock=clock or anyio.current_time)


@pytest.mark.anyio
async def test_a_call_that_cannot_get_its_turn_in_time_is_told_when_to_come_again() -> None:
    clock = Clock()
    turns = pace(6, 2, clock)
    await turns.wait_turn(1)
    await turns.wait_turn(1)
    with pytest.raises(UpstreamThrottledError) as caught:
        await turns.wait_turn(9.9)
    clock.now += 10
    await turns.wait_turn(1)
    assert caught.value.retry_after_s == pytest.approx(10)
    assert "calls_per_minute" in caught.value.for_guest
    assert "try again after 10.0 s" in caught.value.for_guest


@pytest.mark.anyio
async def test_callers_take_turns_whoever_came_with_more() -> None:
    clock, order = Clock(), list[str]()
    turns = pace(60_000, clock=clock)

    async def call(name: str) -> None:
        with calling_as(name):
            await turns.wait_turn(30)
        order.append(name)

    with anyio.fail_after(30):
        await turns.wait_turn(1)
        async with anyio.create_task_group() as tasks:
            for name in ["a"] * 4 + ["b"] * 2 + ["c"]:
                tasks.start_soon(call, name)
            await anyio.wait_all_tasks_blocked()  # all wait; from here on there is one turn at a time
            while len(order) < 7:
                served, clock.now = len(order), clock.now + 0.002
                await until(lambda served=served: len(order) > served)
    assert order == ["a", "b", "c", "a", "b", "a", "a"]


@pytest.mark.anyio
async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    turns = pace(60_000)
    with anyio.fail_after(30):
        await turns.wait_turn(1)
        turns.hold(0.05)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turns.wait_turn, 30)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await turns.wait_turn(30)


@pytest.mark.anyio
async def test_a_pause_that_the_server_asked_for_is_kept_without_a_configured_limit() -> None:
    clock = Clock()
    turns = pace(0, 1, clock)
    turns.hold(7)
    with pytest.raises(UpstreamRateLimitedError) as caught:
        await turns.wait_turn(5)
    clock.now += 7
    await turns.wait_turn(5)
    assert caught.value.code == "upstream_rate_limited"
    assert caught.value.retry_after_s == 7


@pytest.mark.anyio
async def test_http_429_holds_back_the_calls_after_it(echo_http: HttpServer) -> None:
    with anyio.fail_after(30):
        async with upstream({"url": echo_http.url("/status/429"), "type": "http"}, clock=Clock()) as srv:
            codes: list[tuple[str, float | None]] = []
            for _ in range(2):
                with pytest.raises(UpstreamError) as caught:
                    await srv.call_tool("echo", {}, timeout_s=5)
                codes.append((caught.value.code, caught.value.retry_after_s))
    assert codes == [("upstream_rate_limited", 7.0)] * 2


@pytest.mark.anyio
async def test_a_configured_limit_reaches_the_caller() -> None:
    entry = command("echo.py", moonpool={"calls_per_minute": 1, "calls_burst": 2})
    with anyio.fail_after(30):
        async with upstream(entry, clock=Clock()) as srv:
            for _ in range(2):
                await srv.call_tool("echo", {}, timeout_s=20)
            with pytest.raises(UpstreamError) as caught:
                await srv.call_tool("echo", {}, timeout_s=20)
    assert (caught.value.code, caught.value.retryable) == ("upstream_throttled", True)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("", None), ("soon", None), ("-1", None), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)],
)
def test_a_retry_after_header_is_read(header: str, seconds: float | None) -> None:
    assert pause_s(header) == seconds


def test_a_retry_after_date_is_read() -> None:
    later = pause_s(format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True))
    assert later is not None
    assert 86_000 < later <= 86_400
