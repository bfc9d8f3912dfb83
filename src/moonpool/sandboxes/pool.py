"""Sandboxes for those who ask: ready ones at once, others in their turn, and a clear refusal instead of a collapse.

For each kind (scope, image, limits, language) some sandboxes stand ready, between a low and a high mark after recent
demand (`pool_demand`). A caller who finds none waits for one to be opened: only a few are opened at the same time,
because more would only slow each other down; scopes take turns (`pool_admission`); line and wait are bounded
(`pool_waiting`), and who comes in vain gets `BusyError`. There is no release: a used sandbox is discarded by whoever
used it, and its place is free when no process of it is left. When a caller needs a place, ready ones of other kinds are
given up, least recently used first (`pool_inventory`).

Every sandbox has one task here, from its opening to its end. Ahead of need a sandbox is opened only when nobody can be
served, and not in the first moments after code was started: the code goes first.

See docs/decisions/0011-few-at-a-time-tenants-in-turn.md.

INVARIANT: whoever waits is told: a sandbox, an error, or `BusyError`. Who leaves takes back what was meant for him.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.core.languages import PYTHON
from moonpool.sandboxes.pool_admission import Places
from moonpool.sandboxes.pool_inventory import PoolInventory
from moonpool.sandboxes.pool_principals import PrincipalPlaces
from moonpool.sandboxes.pool_refusals import BusyError, PoolClosedError, Refusals
from moonpool.sandboxes.pool_statistics import CountsZygotes, PoolStatistics
from moonpool.sandboxes.pool_waiting import WaitingRoom
from moonpool.sandboxes.pool_warming import Preparer
from moonpool.sandboxes.shielding import end_within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec, TreeRef
    from moonpool.sandboxes.pool_limits import PoolLimits
    from moonpool.sandboxes.pool_queue import PoolQueue, Waiter

_QUIET_S = 0.03  # the code that was just started goes first, until it ends; opening takes 10 ms of the same cores
_TEND_S = 1.0


class SandboxPool:
    """Hands out sandboxes that nobody used.

    Those opened ahead of need show `current_tree(scope)` from the start; `on_opened` sees each, with its scope, before
    anybody else.
    """

    def __init__(
        self,
        backend: SandboxBackend,
        limits: PoolLimits,
        *,
        current_tree: Callable[[str], TreeRef | None] = lambda _: None,
        on_opened: Callable[[Sandbox, str], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend, self._limits, self._clock = backend, limits, clock
        self._current_tree = current_tree
        self._preparer = Preparer(backend, on_opened)
        self._places = Places(alive_max=limits.alive_max, alive_per_scope_max=limits.alive_per_scope_max)
        self._refusals = Refusals(limits, self._places, clock)
        self._principals = PrincipalPlaces(limits, self._refusals)
        self._waiting = WaitingRoom(limits, self._refusals, on_expired=self._pump)
        self._inventory = PoolInventory(ready_high=limits.ready_high)
        self._ahead_max = max(1, limits.opening_max // 4)
        self._opening = 0
        self._lives: dict[asyncio.Task[None], str] = {}  # with the scope of each
        self._quiet_until = 0.0
        self._quiet_for: Sandbox | None = None  # whose code that is
        self._refill_timer: asyncio.TimerHandle | None = None
        self._tend_timer: asyncio.TimerHandle | None = None
        self._closed = False

    # --- asking

    async def acquire(self, spec: SandboxSpec, language: str = PYTHON, *, principal: str = "") -> Sandbox:
        """A READY sandbox that nobody used, for a principal of the tenant that is the spec's scope.

        Raises SandboxStartError, BusyError, PoolClosedError.
        """
        await self._principals.take(spec.scope, principal)
        try:
            sandbox = self._take_ready(spec, language) or await self._wait(spec, language)
        except BaseException:
            self._principals.give_back(spec.scope, principal)
            raise
        self._principals.hold(sandbox, spec.scope, principal)
        return sandbox

    def acquire_nowait(self, spec: SandboxSpec, language: str = PYTHON, *, principal: str = "") -> Sandbox | None:
        """A READY sandbox if one is at hand: with the kernel of `language` started, or else without."""
        if not self._principals.take_nowait(spec.scope, principal):
            return None
        sandbox = self._take_ready(spec, language)
        if sandbox is None:
            self._principals.give_back(spec.scope, principal)
        else:
            self._principals.hold(sandbox, spec.scope, principal)
        return sandbox

    async def _wait(self, spec: SandboxSpec, language: str) -> Sandbox:
        waiter = self._wait_for(spec, language)
        self._pump()
        try:
            return await waiter.sandbox
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def _take_ready(self, spec: SandboxSpec, language: str) -> Sandbox | None:
        if self._closed:
            return None
        now = self._clock()
        queue = self._inventory.queue(spec, language)
        sandbox = queue.take(now)
        if sandbox is None and language != PYTHON and (plain := self._inventory.find(spec, PYTHON)) is not None:
            sandbox = plain.take(now, substitute=True)
        if sandbox is not None:
            queue.demand.note(now)
            self._on_taken(sandbox, now)
        return sandbox

    def fill(self, spec: SandboxSpec, language: str = PYTHON) -> None:
        """Keep at least the low mark of this kind ready from now on, before anybody asks."""
        self._inventory.queue(spec, language).demand.ready_low = self._limits.ready_low
        self._pump()

    def statistics(self) -> PoolStatistics:
        """What there is and was."""
        now = self._clock()
        return PoolStatistics(
            alive=self._places.alive,
            alive_max=self._limits.alive_max,
            opening=self._opening,
            opening_max=self._limits.opening_max,
            waiting=len(self._principals) + sum(len(queue.waiters) for queue in self._inventory),
            refused=self._refusals.count,
            kinds=tuple(queue.statistics(now) for queue in self._inventory),
            zygotes=self._backend.zygote_totals() if isinstance(self._backend, CountsZygotes) else None,
        )

    # --- waiting

    def _wait_for(self, spec: SandboxSpec, language: str) -> Waiter:
        if self._closed:
            raise PoolClosedError
        self._waiting.make_way(spec.scope)
        now = self._clock()
        queue = self._inventory.queue(spec, language)
        queue.demand.note(now)
        waiter = self._waiting.join(queue, spec, now)
        self._tend_later()
        return waiter

    def _withdraw(self, waiter: Waiter) -> None:
        """The caller has gone."""
        handed = waiter.sandbox
        if handed.done() and not handed.cancelled() and handed.exception() is None:
            if not handed.result().has_ended:
                waiter.queue.in_use -= 1
                self._hand_over(waiter.queue, handed.result())
        else:
            self._waiting.drop(waiter)
        self._pump()

    # --- opening

    def _pump(self) -> None:
        """Open what may be opened now: for those who wait, then ahead of need."""
        if self._closed:
            return
        while self._opening < self._limits.opening_max:
            waiter = self._waiting.next(self._may_open)
            if waiter is None:
                self._make_room()
                self._refill()
                return
            self._begin(waiter.queue, waiter.spec, ahead=False)

    def _may_open(self, scope: str) -> bool:
        return self._places.lacking(scope) is None

    def _begin(self, queue: PoolQueue, spec: SandboxSpec, *, ahead: bool) -> None:
        self._places.take(queue.scope)
        queue.opening += 1
        self._opening += 1
        life = asyncio.ensure_future(self._live(queue, spec, ahead=ahead))
        self._lives[life] = queue.scope
        life.add_done_callback(self._lives.pop)

    async def _live(self, queue: PoolQueue, spec: SandboxSpec, *, ahead: bool) -> None:
        """A sandbox from its opening to its end; its place is taken all the time."""
        sandbox: Sandbox | None = None
        try:
            sandbox = await self._bring_up(queue, spec, ahead=ahead)
            if sandbox is not None:
                self._pump()
                await sandbox.wait_exited()
                self._on_ended(queue, sandbox)
        finally:
            if sandbox is not None:
                self._principals.ended(sandbox)  # also when the pool stops to watch it
            self._places.give_back(queue.scope)
            self._pump()

    async def _bring_up(self, queue: PoolQueue, spec: SandboxSpec, *, ahead: bool) -> Sandbox | None:
        """Open one and give it to whoever waits, or put it on its shelf."""
        try:
            sandbox = await self._open(queue, spec, ahead=ahead)
            if not queue.waiters and not self._closed:
                await self._preparer.make_warm(sandbox, queue)
        except Exception as error:
            self._opened_one(queue)
            queue.failed(self._clock())
            waiter = self._waiting.take_next(queue)
            if waiter is not None:
                waiter.settle(error)
            self._waiting.cover(queue)
            self._tend_later()
            if waiter is None and not isinstance(error, MoonpoolError):
                raise  # a bug that nobody would hear of
            return None
        except BaseException:
            self._opened_one(queue)
            raise
        self._opened_one(queue)
        queue.came_up()
        self._hand_over(queue, sandbox)
        return sandbox

    def _opened_one(self, queue: PoolQueue) -> None:
        queue.opening -= 1
        self._opening -= 1

    async def _open(self, queue: PoolQueue, spec: SandboxSpec, *, ahead: bool) -> Sandbox:
        try:
            return await self._preparer.open(spec)
        except BusyError:
            # The backend keeps a bounded number of something for each scope and image: let the one go that is only
            # held by ready sandboxes nobody uses.
            group = [] if ahead else self._inventory.oldest_unused_group(other_than=queue)
            if not group:
                raise
            await asyncio.gather(*(self._inventory.give_up(one) for one in group for _ in tuple(one.ready)))
            return await self._preparer.open(spec)

    def _hand_over(self, queue: PoolQueue, sandbox: Sandbox) -> None:
        now = self._clock()
        waiter = self._waiting.take_next(queue)
        if waiter is not None:
            waiter.settle(sandbox)
            queue.handed_over(now - waiter.since)
            self._on_taken(sandbox, now)
        else:
            queue.ready.append(sandbox)
            while queue.ready and (self._closed or queue.excess(now) > 0):
                self._inventory.give_up(queue)
        self._waiting.cover(queue)

    def _on_taken(self, sandbox: Sandbox, now: float) -> None:
        self._refusals.note_served(now)
        if self._quiet_until <= now:
            self._quiet_until, self._quiet_for = now + _QUIET_S, sandbox
        self._refill_later(now)
        self._tend_later()

    def _on_ended(self, queue: PoolQueue, sandbox: Sandbox) -> None:
        if sandbox is self._quiet_for:
            self._quiet_until, self._quiet_for = 0.0, None
        if not self._inventory.ended_unused(queue, sandbox):
            queue.in_use -= 1

    # --- ahead of need, and back

    def _refill_later(self, now: float) -> None:
        if self._refill_timer is None and self._limits.ready_high and not self._closed:
            delay_s = max(0.0, self._quiet_until - now)
            self._refill_timer = asyncio.get_running_loop().call_later(delay_s, self._on_quiet)

    def _on_quiet(self) -> None:
        self._refill_timer = None
        self._pump()

    def _refill(self) -> None:
        now = self._clock()
        while self._opening < self._ahead_max:
            queue = self._inventory.neediest(now, self._may_open)
            if queue is None:
                return
            if now < self._quiet_until:
                self._refill_later(now)
                return
            self._begin(queue, replace(queue.spec, tree=self._current_tree(queue.scope)), ahead=True)

    def _make_room(self) -> None:
        """Give up ready ones whose places are waited for."""
        for scope in self._waiting.scopes():
            if self._inventory.leaving >= min(len(self._waiting), self._limits.opening_max):
                return
            setting = self._places.lacking(scope)
            if setting is not None:
                queue = self._inventory.oldest_ready(None if setting == "sandboxes_max" else scope)
                if queue is not None:
                    self._inventory.give_up(queue)

    def _tend_later(self) -> None:
        if self._tend_timer is None and not self._closed:
            self._tend_timer = asyncio.get_running_loop().call_later(_TEND_S, self.tend)

    def tend(self) -> None:
        """Follow demand down, and try again what failed. Called by a timer while there is something to follow."""
        self._tend_timer = None
        now = self._clock()
        for queue in self._inventory:
            while queue.excess(now) > 0 and queue.ready:
                self._inventory.give_up(queue)
        self._inventory.forget_unused(now)
        self._pump()
        if not self._inventory.rests(now):
            self._tend_later()

    async def close_scope(self, scope: str) -> None:
        """End what is there for a scope that nobody uses any more: its ready sandboxes and those being opened.

        Its sandboxes in use are closed before. Whoever waits is refused.
        """
        self._principals.refuse(scope)
        for queue in self._inventory.drop(scope):
            self._clear(queue)
        ending = [life for life, of in self._lives.items() if of == scope]
        given_up = self._inventory.wait_gone()
        for life in ending:
            life.cancel()  # one that opens leaves nothing
        await end_within(f"a sandbox of scope {scope!r}", _all_ended(ending, given_up))
        await end_within(f"a zygote of scope {scope!r}", self._backend.close_scope(scope))

    async def close(self) -> None:
        """End the ready ones, refuse those who wait and stop opening. Sandboxes in use belong to their users."""
        self._closed = True
        for timer in (self._refill_timer, self._tend_timer):
            if timer is not None:
                timer.cancel()
        self._principals.refuse()
        for queue in self._inventory:
            self._clear(queue)
        given_up = self._inventory.wait_gone()
        for life in self._lives:
            life.cancel()  # one that opens leaves nothing
        await end_within("a sandbox that was ready", _all_ended(tuple(self._lives), given_up))
        await end_within("a sandbox that was ready", _all_ended((), self._inventory.wait_gone()))

    def _clear(self, queue: PoolQueue) -> None:
        while (waiter := self._waiting.take_next(queue)) is not None:
            waiter.settle(PoolClosedError())
        while queue.ready:
            self._inventory.give_up(queue)


async def _all_ended(lives: Iterable[asyncio.Future[None]], given_up: asyncio.Future[list[object]]) -> None:
    await asyncio.gather(*lives, return_exceptions=True)
    await given_up
