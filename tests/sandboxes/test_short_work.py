"""Short blocking work is done on the loop until it was not short; then on threads, for a while."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from moonpool.sandboxes.short_work import SLOW_FOR_S, SLOW_S, ShortWork
from sandboxes.pools import Clock

pytestmark = pytest.mark.anyio


def taking(clock: Clock, seconds: float) -> str:
    clock.now += seconds
    return threading.current_thread().name


def test_what_is_short_stays_on_the_loop() -> None:
    clock = Clock()
    work = ShortWork(clock, count().__next__)
    for _ in range(3):
        assert work.is_short
        assert work.now(lambda: taking(clock, SLOW_S / 2)) == threading.current_thread().name
    assert work.is_short


async def test_what_was_not_is_for_threads_until_some_time_has_passed() -> None:
    clock = Clock()
    work = ShortWork(clock, count().__next__)
    work.now(lambda: taking(clock, 2 * SLOW_S))
    assert not work.is_short
    assert await work.soon(lambda: taking(clock, 0)) != threading.current_thread().name
    clock.now += SLOW_FOR_S / 2
    assert not work.is_short
    clock.now += SLOW_FOR_S / 2
    assert work.is_short


def test_work_that_fails_slowly_counts_as_slow() -> None:
    clock = Clock()
    work = ShortWork(clock, count().__next__)

    def failing() -> None:
        clock.now += 2 * SLOW_S
        raise OSError("busy")

    with pytest.raises(OSError, match="busy"):
        work.now(failing)
    assert not work.is_short


def test_work_that_took_long_without_waiting_lacked_a_processor_and_stays_on_the_loop() -> None:
    clock = Clock()
    work = ShortWork(clock, lambda: 7)
    work.now(lambda: taking(clock, 2 * SLOW_S))
    assert work.is_short
