"""A deadline that is paused while a person is asked.

While an execution waits for a person's answer, its deadline is paused. Several questions may be open at once; the clock
continues when the last one is answered.

SECURITY: code may continue while one of its threads asks, so the deadline is paused for `paused_s_max` in all, however
often it asks; after that the clock also runs while it waits. Only the wait for a call that was approved does not use
that up: nobody can have one approved all the time but whoever trusts the code. Refusals do: a client may give one by
itself, again and again.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


PAUSED_S_MAX: Final = 3600.0


class Pause:
    """One of a deadline's pauses."""

    approved = False  # set when what was asked is allowed


class Deadline:
    """Calls `expired` once, `seconds` of running time from now."""

    def __init__(self, seconds: float, expired: Callable[[], None], *, paused_s_max: float = PAUSED_S_MAX) -> None:
        self._loop = asyncio.get_running_loop()
        self._expired = expired
        self._seconds, self._left_s = seconds, seconds
        self._patience_s = self._patience_s_max = paused_s_max
        self._started_at = self._loop.time()
        self._pauses = 0
        self.paused_s = 0.0
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(seconds, self._expire)

    @contextmanager
    def paused(self) -> Generator[Pause]:
        """Pause the clock during a `with` block."""
        pause, began = Pause(), self._loop.time()
        self._turn(1)
        try:
            yield pause
        finally:
            self._turn(-1)
            if pause.approved:
                self._patience_s = min(self._patience_s + self._started_at - began, self._patience_s_max)
                self._restart()

    def _turn(self, change: int) -> None:
        """One pause more or less, from now on."""
        lap_s = self._lap()
        if self._pauses:
            excused_s = min(lap_s, self._patience_s)
            self.paused_s += lap_s
            self._patience_s -= excused_s
            lap_s -= excused_s
        self._left_s -= lap_s
        self._pauses += change
        self._restart()

    @property
    def running_s(self) -> float:
        """Seconds that have counted so far."""
        lap_s = self._loop.time() - self._started_at
        counted_s = max(lap_s - self._patience_s, 0.0) if self._pauses else lap_s
        return self._seconds - self._left_s + counted_s

    def _lap(self) -> float:
        """Seconds since the last lap."""
        now = self._loop.time()
        lap_s, self._started_at = now - self._started_at, now
        return lap_s

    def _restart(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        seconds = self._left_s + (self._patience_s if self._pauses else 0.0)
        if seconds > 0:
            self._timer = self._loop.call_later(seconds, self._expire)
        else:
            self._expire()  # now: a timer could be restarted forever by asking again at once

    def _expire(self) -> None:
        self._timer = None
        self._loop.call_soon(self._expired)

    def cancel(self) -> None:
        """Cancel the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
