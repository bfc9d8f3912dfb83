"""Everything the pool knows about one kind of sandbox: the ready ones, those who wait for one, counts.

INVARIANT: of `waiters`, the first `opening` are served by what is being opened already; only the others stand in the
pool's line. So whatever comes up goes to the one who has waited longest, and nobody is counted twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from moonpool.sandboxes.pool_demand import Demand
from moonpool.sandboxes.pool_statistics import QueueStatistics, WaitStatistics

if TYPE_CHECKING:
    import asyncio

    from moonpool.sandboxes.base import Sandbox, SandboxLimits, SandboxSpec
    from moonpool.sandboxes.host_folders import HostFolders

_WAITS_KEPT = 1024
_PAUSE_S = 1.0
_PAUSE_S_MAX = 60.0


class SandboxKey(NamedTuple):
    """Sandboxes of one kind are interchangeable."""

    spec_key: tuple[str, str, SandboxLimits, int | None, HostFolders | None]
    language: str


@dataclass(slots=True, eq=False)
class Waiter:
    """A caller who waits for a sandbox."""

    queue: PoolQueue
    spec: SandboxSpec
    since: float
    sandbox: asyncio.Future[Sandbox]
    timer: asyncio.TimerHandle | None = None

    def settle(self, outcome: Sandbox | Exception) -> bool:
        """Tell the caller; False if it has gone."""
        if self.timer is not None:
            self.timer.cancel()
        if self.sandbox.done():
            return False
        if isinstance(outcome, Exception):
            self.sandbox.set_exception(outcome)
        else:
            self.sandbox.set_result(outcome)
        return True


class PoolQueue:
    """One kind of sandbox."""

    def __init__(self, kind: SandboxKey, spec: SandboxSpec, *, ready_low: int, ready_high: int) -> None:
        self.kind, self.spec = kind, replace(spec, tree=None)  # trees change: the pool asks for the current one
        self.demand = Demand(ready_low=ready_low, ready_high=ready_high)
        self.ready: deque[Sandbox] = deque()
        self.waiters: deque[Waiter] = deque()
        self.opening = 0
        self.in_use = 0
        self.used_at = 0.0
        self.retry_at = 0.0
        self._failed_in_a_row = 0
        self._hits = self._substituted = self._misses = 0
        self._opened = self._discarded = self._failures = 0
        self._waits: deque[float] = deque(maxlen=_WAITS_KEPT)

    @property
    def scope(self) -> str:
        return self.spec.scope

    @property
    def group(self) -> tuple[str, str]:
        """Scope and image: what shares its zygotes."""
        return self.kind.spec_key[:2]

    def take(self, now: float, *, substitute: bool = False) -> Sandbox | None:
        """A ready one, if there is any that has not ended by itself."""
        for sandbox in self.ready:
            if not sandbox.has_ended:  # one that has is taken off by the pool, which counts it
                self.ready.remove(sandbox)
                self.in_use += 1
                self.used_at = now
                self._hits += 1
                self._substituted += substitute
                self._waits.append(0.0)
                return sandbox
        return None

    def missing(self, now: float) -> int:
        """How many should be opened ahead of need."""
        return self.demand.target(now) - len(self.ready) - self.opening if now >= self.retry_at else 0

    def fullness(self, now: float) -> float:
        """How much of what should be ready is, or soon will be."""
        return (len(self.ready) + self.opening) / max(1, self.demand.target(now))

    def excess(self, now: float) -> int:
        """How many are ready beyond need."""
        return len(self.ready) - self.demand.target(now)

    def miss(self, waiter: Waiter) -> bool:
        """Somebody waits from now on. True: what is being opened already is enough for all who wait."""
        self.waiters.append(waiter)
        self.used_at = waiter.since
        self._misses += 1
        return len(self.waiters) <= self.opening

    def covered(self) -> list[Waiter]:
        """Those who are served by what is being opened already."""
        return list(islice(self.waiters, self.opening))

    def next_waiter(self) -> Waiter | None:
        """Take out the one who has waited longest and is still there."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.sandbox.done():
                return waiter
        return None

    def came_up(self) -> None:
        """One was opened."""
        self._opened += 1
        self._failed_in_a_row = 0

    def failed(self, now: float) -> None:
        """One could not be opened; opening ahead of need pauses, longer each time."""
        self._failures += 1
        self._failed_in_a_row += 1
        self.retry_at = now + min(_PAUSE_S_MAX, _PAUSE_S * 2 ** (min(self._failed_in_a_row, 10) - 1))

    def handed_over(self, waited_s: float) -> None:
        """One went to a waiter."""
        self.in_use += 1
        self._waits.append(waited_s)

    def discarded(self) -> None:
        """One ends unused."""
        self._discarded += 1

    def is_forgotten(self, now: float) -> bool:
        """Whether nothing would be lost without this shelf but its counts."""
        busy = self.ready or self.waiters or self.opening or self.in_use
        return not busy and not self.demand.ready_low and self.demand.rests(now)

    def statistics(self, now: float) -> QueueStatistics:
        return QueueStatistics(
            scope=self.scope,
            image=self.spec.image.name,
            language=self.kind.language,
            target=self.demand.target(now),
            ready=len(self.ready),
            opening=self.opening,
            in_use=self.in_use,
            waiting=len(self.waiters),
            hits=self._hits,
            substituted=self._substituted,
            misses=self._misses,
            opened=self._opened,
            discarded=self._discarded,
            failures=self._failures,
            waits=WaitStatistics.of(self._waits),
        )
