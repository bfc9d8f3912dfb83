"""A deadline stands still while it is parked."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from moonpool.pipeline.deadline import Deadline

pytestmark = pytest.mark.anyio


async def test_it_expires_once() -> None:
    expired: list[int] = []
    gone = anyio.Event()

    def note() -> None:
        expired.append(1)
        gone.set()

    Deadline(0.01, note)
    with anyio.fail_after(30):
        await gone.wait()
    assert expired == [1]


@pytest.mark.req("I-040", "X-14")
async def test_parked_time_does_not_count_and_is_reported() -> None:
    gone = anyio.Event()
    deadline = Deadline(0.02, gone.set)
    with deadline.paused(), deadline.paused():
        with anyio.move_on_after(0.1):
            await gone.wait()
        paused = not gone.is_set()
    with anyio.fail_after(30):
        await gone.wait()
    assert paused
    assert deadline.paused_s > 0


@pytest.mark.parametrize(("patience_s", "stands_still"), [(60.0, True), (0.0, False)])
async def test_running_time_leaves_out_what_is_excused(patience_s: float, stands_still: bool) -> None:
    deadline = Deadline(60, lambda: None, paused_s_max=patience_s)
    with deadline.paused():
        before_s = deadline.running_s
        with anyio.move_on_after(0.01):
            await anyio.Event().wait()
        assert (deadline.running_s == before_s) is stands_still
    deadline.cancel()


async def test_the_clock_runs_on_when_the_waits_take_too_long_in_all() -> None:
    gone = anyio.Event()
    deadline = Deadline(0.01, gone.set, paused_s_max=0.02)
    with deadline.paused(), anyio.fail_after(30):
        await gone.wait()


async def test_patience_is_used_up_over_several_waits() -> None:
    gone = anyio.Event()
    deadline = Deadline(0.01, gone.set, paused_s_max=0.02)
    with anyio.fail_after(30):
        while not gone.is_set():
            with deadline.paused():
                await anyio.lowlevel.checkpoint()


@pytest.mark.req("I-040", "X-14")
async def test_what_was_approved_uses_up_no_patience_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, now = asyncio.get_running_loop(), [0.0]
    monkeypatch.setattr(loop, "time", lambda: now[0])
    deadline = Deadline(60, lambda: None)

    def wait_10_minutes(*, approved: bool) -> None:
        with deadline.paused() as pause, deadline.paused():
            now[0] += 600
            pause.approved = approved

    for _ in range(10):
        wait_10_minutes(approved=True)
    assert deadline.running_s == 0
    for _ in range(7):
        wait_10_minutes(approved=False)
    assert deadline.running_s == 600
    wait_10_minutes(approved=True)  # what is used up stays so
    assert deadline.running_s == 1200
    deadline.cancel()


async def test_a_cancelled_deadline_never_expires() -> None:
    gone = anyio.Event()
    deadline = Deadline(0.0, gone.set)
    deadline.cancel()
    with deadline.paused():
        pass
    with anyio.move_on_after(0.05):
        await gone.wait()
    assert not gone.is_set()
