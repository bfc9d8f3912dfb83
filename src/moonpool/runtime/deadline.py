"""A deadline that stands still while somebody is asked.

An execution that waits for a person's answer is parked: its wall clock stops (DESIGN §5). Several asks may be open at
once; the clock runs again when the last one is answered.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Deadline:
    """Calls `expired` once, `seconds` of running time from now."""

    def __init__(self, seconds: float, expired: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._expired = expired
        self._left_s = seconds
        self._started_at = self._loop.time()
        self._parked = 0
        self.parked_s = 0.0
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(seconds, expired)

    @contextmanager
    def parked(self) -> Generator[None]:
        """Stop the clock for the length of a `with` block."""
        self._parked += 1
        if self._parked == 1 and self._timer is not None:
            self._timer.cancel()
            self._left_s -= self._loop.time() - self._started_at
            self._started_at = self._loop.time()
        try:
            yield
        finally:
            self._parked -= 1
            if self._parked == 0:
                now = self._loop.time()
                self.parked_s += now - self._started_at
                self._started_at = now
                if self._timer is not None:
                    self._timer = self._loop.call_later(max(0.0, self._left_s), self._expired)

    def cancel(self) -> None:
        """Nothing expires any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
