"""Slows down a server that sends too much unasked: it is read later, so that its pipe or window fills.

Unasked messages (notifications, questions, garbage, unmatched answers) cost time of the event loop that all servers and
sandboxes share. Answers to our requests are free, so that requested data is never delayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from moonpool_wire.ratelimit import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

UNASKED_PER_SECOND_MAX: Final = 1_000
UNASKED_BURST_MAX: Final = 1_000
UNASKED_BYTES_EACH: Final = 16 * 1024
"""A larger message counts as several."""
PIECES_PER_SECOND_MAX: Final = 5_000
PIECES_BURST_MAX: Final = 10_000
"""Pieces of bodies: a server may send single bytes."""
_TURN: Final = 16


class Throttle:
    """One connection's allowance for one kind of message or piece."""

    def __init__(self, *, rate: float, burst: float, clock: Callable[[], float] = anyio.current_time) -> None:
        self._bucket, self._clock, self._since_turn = TokenBucket(rate=rate, burst=burst), clock, 0

    async def spend(self, units: float = 1) -> None:
        """Wait while the allowance is exhausted; also yields to other tasks from time to time."""
        wait_s = self._bucket.take(units, self._clock())
        self._since_turn += 1
        if wait_s or self._since_turn >= _TURN:
            self._since_turn = 0
            await anyio.sleep(wait_s)


def unasked() -> Throttle:
    """A throttle for messages that answer no request."""
    return Throttle(rate=UNASKED_PER_SECOND_MAX, burst=UNASKED_BURST_MAX)


def pieces() -> Throttle:
    """A throttle for pieces of bodies."""
    return Throttle(rate=PIECES_PER_SECOND_MAX, burst=PIECES_BURST_MAX)


def cost(size_bytes: int) -> float:
    """The cost of an unasked message of this size."""
    return 1 + size_bytes // UNASKED_BYTES_EACH
