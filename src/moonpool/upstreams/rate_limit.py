"""How fast one server is called: at most so many calls a minute, and not before the moment it asked for (HTTP 429).

A call waits for its turn within its own time limit; one that cannot get it in time fails at once with an error that
says when to come again, and has certainly not left. Waiting callers take turns, so that one session with a hundred
calls does not make another wait for all of them.

INVARIANT: a turn is taken once; a call that gives up after it got its turn gives it back.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.upstreams.base import UpstreamRateLimitedError, UpstreamThrottledError
from moonpool.upstreams.callers import caller

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING_COUNT_MAX: Final = 1024
HELD_S_MAX: Final = 3600.0
"""A server that asks to be left alone for longer is asked again after an hour."""


class CallRate:
    """A bucket of turns, filled evenly; `calls_per_minute` 0 means as many as one likes."""

    def __init__(
        self, server_id: str, *, calls_per_minute: float, burst: int, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self._server_id = server_id
        self._per_s = calls_per_minute / 60
        self._burst = burst
        self._clock = clock
        self._turns = float(burst)
        self._filled_at = -math.inf
        self._held_until = -math.inf
        self._waiting: OrderedDict[str, deque[anyio.Event]] = OrderedDict()

    def hold(self, seconds: float) -> None:
        """The server asked for a pause."""
        self._held_until = max(self._held_until, self._clock() + min(seconds, HELD_S_MAX))

    async def wait_turn(self, timeout_s: float) -> float:
        """Return when the call may leave: the seconds that took. Raises an UpstreamError that says when it may."""
        if not self._waiting and self._take():
            return 0.0
        began = anyio.current_time()
        name = caller()
        expected_s = self._expected_s(name)
        if expected_s > timeout_s or sum(map(len, self._waiting.values())) >= WAITING_COUNT_MAX:
            raise self._refusal(expected_s)
        turn = anyio.Event()
        self._waiting.setdefault(name, deque()).append(turn)
        taken = False
        try:
            with anyio.move_on_after(timeout_s):
                while not turn.is_set():
                    self._hand_out()
                    with anyio.move_on_after(self._next_s()):
                        await turn.wait()
            if not turn.is_set():
                raise self._refusal(self._expected_s(name))
            taken = True
            return anyio.current_time() - began
        finally:
            if not taken:
                self._give_up(name, turn)

    def _give_up(self, name: str, turn: anyio.Event) -> None:
        if turn.is_set():
            self._turns += 1
            return
        mine = self._waiting[name]
        mine.remove(turn)
        if not mine:
            del self._waiting[name]

    def _hand_out(self) -> None:
        """Give the turns there are to those who wait: one each, then from the front again."""
        while self._waiting and self._take():
            name, turns = next(iter(self._waiting.items()))
            turns.popleft().set()
            if turns:
                self._waiting.move_to_end(name)
            else:
                del self._waiting[name]

    def _take(self) -> bool:
        now = self._clock()
        if now < self._held_until:
            return False
        if not self._per_s:
            return True
        self._fill(now)
        if self._turns < 1:
            return False
        self._turns -= 1
        return True

    def _fill(self, now: float) -> None:
        gained = (now - self._filled_at) * self._per_s
        self._turns = min(float(self._burst), self._turns + gained)
        self._filled_at = now

    def _next_s(self) -> float:
        """Until there may be another turn."""
        return self._in_s(1)

    def _expected_s(self, name: str) -> float:
        """Until the turn of one more call of `name`, if nobody comes or goes."""
        mine = len(self._waiting.get(name, ()))
        others = sum(min(len(turns), mine + 1) for other, turns in self._waiting.items() if other != name)
        return self._in_s(mine + others + 1)

    def _in_s(self, turns: int) -> float:
        now = self._clock()
        held_s = max(0.0, self._held_until - now)
        if not self._per_s:
            return held_s
        self._fill(now)
        return max(held_s, (turns - self._turns) / self._per_s, 0.001)

    def _refusal(self, seconds: float) -> UpstreamRateLimitedError:
        if self._clock() < self._held_until:
            problem = f"asked for fewer requests (HTTP 429) and is left alone; try again after {seconds:.1f} s"
            return UpstreamRateLimitedError(self._server_id, problem, for_guest=problem, retry_after_s=seconds)
        problem = (
            f"is called as often as calls_per_minute allows; the call was not made, try again after {seconds:.1f} s"
        )
        return UpstreamThrottledError(self._server_id, problem, for_guest=problem, retry_after_s=seconds)
