"""Those who wait for a sandbox: in which order they are served, how many there may be, and for how long.

The order is `admission.FairLine`'s; who is served by what is being opened already (`pool_queue`) stands in no line.

INVARIANT: whoever joins is settled, here or by the pool, with a sandbox, an error or a `BusyError`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.sandboxes.pool_admission import FairLine
from moonpool.sandboxes.pool_queue import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moonpool.sandboxes.base import SandboxSpec
    from moonpool.sandboxes.pool_limits import PoolLimits
    from moonpool.sandboxes.pool_queue import PoolQueue
    from moonpool.sandboxes.pool_refusals import Refusals


class WaitingRoom:
    """The waiters of one pool. `on_expired` is called when one has waited in vain."""

    def __init__(self, limits: PoolLimits, refusals: Refusals, on_expired: Callable[[], None]) -> None:
        self._limits, self._refusals, self._on_expired = limits, refusals, on_expired
        self._line: FairLine[Waiter] = FairLine()

    def __len__(self) -> int:
        """How many nobody opens a sandbox for yet."""
        return len(self._line)

    def scopes(self) -> Iterator[str]:
        """The scopes that wait, next turn first."""
        return self._line.scopes()

    def join(self, queue: PoolQueue, spec: SandboxSpec, now: float) -> Waiter:
        """Wait from `now` on; `make_way` was called before."""
        loop = asyncio.get_running_loop()
        waiter = Waiter(queue, spec, now, loop.create_future())
        if not queue.miss(waiter):
            self._line.join(spec.scope, waiter)
        waiter.timer = loop.call_later(self._limits.wait_s_max, self._expire, waiter)
        return waiter

    def make_way(self, scope: str) -> None:
        """See that there is room for one more of `scope`. Raises BusyError.

        Where the line is full, the newest of the scope that fills it is refused, or else the one who comes.
        """
        if len(self._line) < self._limits.waiting_max:
            return
        error = self._refusals.line_is_full(len(self._line))
        loser = self._line.newest_of_longest(scope)
        if loser is None:
            raise error
        self.drop(loser)
        loser.settle(error)

    def next(self, may_go: Callable[[str], bool]) -> Waiter | None:
        """Whom a sandbox should be opened for now; he keeps his place on the shelf and stands in the line no longer."""
        return self._line.next(may_go)

    def take_next(self, queue: PoolQueue) -> Waiter | None:
        """Take out the one who gets what came up for `pool_queue`."""
        waiter = queue.next_waiter()
        if waiter is not None:
            self._line.leave(queue.scope, waiter)
        return waiter

    def drop(self, waiter: Waiter) -> None:
        """He waits no longer; it is the caller's to settle him."""
        if waiter.timer is not None:
            waiter.timer.cancel()
        if waiter in waiter.queue.waiters:
            waiter.queue.waiters.remove(waiter)
        self._line.leave(waiter.queue.scope, waiter)
        self.cover(waiter.queue)

    def cover(self, queue: PoolQueue) -> None:
        """Those whom an opening under way will serve need not stand in the line."""
        for waiter in queue.covered():
            self._line.leave(queue.scope, waiter)

    def _expire(self, waiter: Waiter) -> None:
        if waiter in waiter.queue.covered():
            return  # its sandbox is being opened, and that has deadlines of its own
        self.drop(waiter)
        waiter.settle(self._refusals.waited_in_vain(waiter.queue.scope, len(self._line)))
        self._on_expired()
