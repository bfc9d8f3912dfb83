"""Short blocking work: on the loop while it is short, on worker threads for a while after it was not.

A few system calls on folders of the Linux kernel's take 0.2 ms, and a thread that does them costs the loop a
millisecond: two hand-overs of the interpreter. But they wait for a lock that others on the machine may hold.

Work that took long without ever waiting was short of processor time, which a thread would be, too, and more so.
"""

from __future__ import annotations

import asyncio
import resource
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

SLOW_S: Final = 0.02
SLOW_FOR_S: Final = 10.0


def _waits() -> int:
    """How often this thread has waited for something so far, other than for a processor."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class ShortWork:
    """Decides where such work is done. One for work that waits for the same things."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, waits: Callable[[], int] = _waits) -> None:
        self._clock, self._waits = clock, waits
        self._slow_until = clock()

    @property
    def is_short(self) -> bool:
        """Whether it may be done on the loop now."""
        return self._clock() >= self._slow_until

    def now(self, work: Callable[[], _T]) -> _T:
        """Do it here. If it waits long, the next ones are for threads."""
        started, waits = self._clock(), self._waits()
        try:
            return work()
        finally:
            ended = self._clock()
            if ended - started > SLOW_S and self._waits() > waits:
                self._slow_until = ended + SLOW_FOR_S

    def soon(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Do it on a worker thread."""
        return asyncio.get_running_loop().run_in_executor(None, work)
