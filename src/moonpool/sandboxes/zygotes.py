"""Which zygote serves a spec, and how long a zygote lives.

The zygotes of one (scope, image) are a family; so are those that were asked to have one hash seed, which end with
their last sandbox. It starts with one, gets a second when forks wait for each other, and
replaces a member after so many forks or so much time, because all sandboxes of a zygote share its hash seed and address
layout. The successor preloads in the background while the old one serves; the old one then forks no more and ends with
its last sandbox. A zygote without sandboxes ends after a while, and at once when its place is needed.

A zygote that does not come up is not tried again and again: after a second failure in a row callers get the reason
without another attempt until a growing pause is over. Callers whose fork was under way when a zygote died get
`SandboxStartError`; nothing was run for them.

INVARIANT: `count_max` bounds the zygotes that serve. A retired one is bounded by the sandboxes it still has.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.pool_refusals import BusyError
from moonpool.sandboxes.pool_statistics import ZygoteStatistics, ZygoteTotals
from moonpool.sandboxes.zygote_family import Family, Member, ZygotePolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from moonpool.sandboxes.base import ImageSpec, SandboxSpec
    from moonpool.sandboxes.zygote_process import Zygote, ZygoteSandbox

_OVERLAPS_MAX = 16
"""A family grows when forks have waited for each other so often: a storm does it at once, an accident does not."""
_RETRY_S = 5.0


class Zygotes:
    """All zygotes of a backend. `start` brings one up, or raises SandboxStartError and leaves nothing."""

    def __init__(
        self,
        start: Callable[[str, ImageSpec, int | None], Awaitable[Zygote]],
        policy: ZygotePolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start, self._policy, self._clock = start, policy or ZygotePolicy(), clock
        self._families: OrderedDict[tuple[str, str, int | None], Family] = OrderedDict()  # least recently used first
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._started = self._replaced = self._evicted = self._died = self._failures = self._forks = 0
        self._closed = False

    async def open_sandbox(self, spec: SandboxSpec) -> ZygoteSandbox:
        """Fork a sandbox from the zygote that has least to do. Raises SandboxStartError, BusyError."""
        family, member = await self._choose(spec.scope, spec.image, spec.hash_seed)
        member.forks += 1
        member.forking += 1
        self._forks += 1
        try:
            sandbox = await member.zygote.spawn(spec)
            member.forked += 1
            if member.forked == 1:  # only now is it sure that it came up well
                family.came_up_well()
            return sandbox
        finally:
            member.forking -= 1
            self._on_free(family, member)

    async def serving(self, scope: str, image: ImageSpec) -> Zygote:
        """A zygote of `scope` and `image`, started if need be. Raises SandboxStartError, BusyError."""
        return (await self._choose(scope, image))[1].zygote

    def statistics(self) -> ZygoteTotals:
        """What there is and was."""
        return ZygoteTotals(
            started=self._started,
            replaced=self._replaced,
            evicted=self._evicted,
            died=self._died,
            failures=self._failures,
            forks=self._forks,
            live=tuple(self._live()),
        )

    def _live(self) -> Iterator[ZygoteStatistics]:
        now = self._clock()
        for family in self._families.values():
            for member in family.members:
                yield ZygoteStatistics(
                    scope=family.scope,
                    image=family.image.name,
                    age_s=now - member.born_at,
                    forks=member.forks,
                    sandboxes=member.zygote.sandbox_count,
                    retired=member in family.retired,
                )

    # --- which one serves

    async def _choose(self, scope: str, image: ImageSpec, hash_seed: int | None = None) -> tuple[Family, Member]:
        key = (scope, image.digest, hash_seed)
        while True:
            if self._closed:
                raise SandboxStartError(step="zygote", reason="the backend is closed")
            if (seeded := self._by_chance(scope, image, hash_seed)) is not None:
                return seeded
            family = self._families.setdefault(key, Family(scope, image, hash_seed))
            family.image = image
            self._families.move_to_end(key)
            self._retire_dead(family)
            if family.serving:
                member = min(family.serving, key=lambda one: one.forking)
                self._renew(family, member)
                return family, member
            starting = family.starting or self._begin(family, first=True)
            try:
                await asyncio.shield(starting)
            except asyncio.CancelledError:
                if starting.cancelled():
                    raise SandboxStartError(step="zygote", reason="the backend is closed") from None
                raise
            except SandboxStartError as error:  # many callers may share one failure
                raise SandboxStartError(step=error.step, reason=error.reason) from error

    def _by_chance(self, scope: str, image: ImageSpec, hash_seed: int | None) -> tuple[Family, Member] | None:
        """An ordinary zygote that has the seed which is asked for, as in a replay soon after the run."""
        family = self._families.get((scope, image.digest, None))
        if hash_seed is None or family is None:
            return None
        fits = (one for one in family.serving if one.zygote.alive and one.zygote.hash_seed == hash_seed)
        member = next(fits, None)
        return None if member is None else (family, member)

    def _renew(self, family: Family, chosen: Member) -> None:
        """Start a successor in the background, or one more where callers wait for forks."""
        if family.starting is not None or family.refusal(self._clock()) is not None:
            return
        family.overlaps += chosen.forking
        crowded = family.overlaps >= _OVERLAPS_MAX and len(family.serving) < self._policy.per_image_max
        if family.worn(self._policy, self._clock()) is not None or (crowded and self._has_place()):
            self._begin(family, first=False)

    def _has_place(self) -> bool:
        """Whether one more may serve. A successor needs no place of its own; it takes the old one's."""
        now = self._clock()
        serving = sum(len(family.serving) for family in self._families.values())
        firsts = sum(1 for f in self._families.values() if f.starting is not None and f.worn(self._policy, now) is None)
        return serving + firsts < self._policy.count_max

    # --- beginning

    def _begin(self, family: Family, *, first: bool) -> asyncio.Task[Member]:
        if first:
            if (refusal := family.refusal(self._clock())) is not None:
                raise refusal
            if not self._has_place() and not self._evict_one():
                why = f"all {self._policy.count_max} zygotes serve other tenants or environments"
                raise BusyError(why, setting="zygotes_max", retry_after_s=_RETRY_S)
        family.overlaps = 0
        family.starting = asyncio.ensure_future(self._bring_up(family))
        family.starting.add_done_callback(_retrieve)
        return family.starting

    async def _bring_up(self, family: Family) -> Member:
        try:
            zygote = await self._start(family.scope, family.image, family.hash_seed)
        except SandboxStartError as error:
            self._failures += 1
            family.failed(error, self._clock())
            self._wake_in(self._policy.idle_s_max)
            raise
        finally:
            family.starting = None
            self._drop_if_empty(family)
        self._families[family.key] = family
        now = self._clock()
        member = Member(zygote, born_at=now, used_at=now)
        zygote.on_free = lambda: self._on_free(family, member)
        self._started += 1
        if (worn := family.worn(self._policy, now)) is not None:
            self._replaced += 1
            family.retire(worn)
            self._on_free(family, worn)
        family.serving.append(member)
        self._wake_in(self._policy.idle_s_max)
        return member

    # --- ending

    def _on_free(self, family: Family, member: Member) -> None:
        """A fork or a sandbox of `member` has ended, or it is dead."""
        member.used_at = self._clock()
        if not member.zygote.alive:
            self._retire_dead(family)
        elif member.idle and (member in family.retired or family.hash_seed is not None):
            self._end(family, member)  # who asks for a seed seldom asks for it again
        elif member.idle:
            self._wake_in(self._policy.idle_s_max)

    def _retire_dead(self, family: Family) -> None:
        """Take zygotes that ended out of service. Each is removed with its last sandbox, which reports that it was
        lost.
        """
        for member in family.members:
            if member.zygote.alive:
                continue
            if member in family.serving:
                family.retire(member)
                member.zygote.kill()  # an outer sandbox without its zygote is of no use
                self._died += 1
                if not member.forked:
                    error = SandboxStartError(step="zygote", reason="the zygote ended before it forked a sandbox")
                    family.failed(error, self._clock())
            if member.idle:
                self._end(family, member)

    def _end(self, family: Family, member: Member) -> None:
        (family.retired if member in family.retired else family.serving).remove(member)
        ending = asyncio.ensure_future(member.zygote.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        self._drop_if_empty(family)

    def _drop_if_empty(self, family: Family) -> None:
        """Forget a family of which nothing is left to remember."""
        if family.is_forgotten(self._clock()):
            self._families.pop(family.key, None)

    def _evict_one(self) -> bool:
        """End the idle zygote that was used longest ago."""
        idle = [(m.used_at, index, f, m) for index, (f, m) in enumerate(self._idle())]
        if not idle:
            return False
        _, _, family, member = min(idle, key=lambda one: one[:2])
        self._evicted += 1
        self._end(family, member)
        return True

    def _idle(self) -> Iterator[tuple[Family, Member]]:
        for family in tuple(self._families.values()):
            for member in tuple(family.serving):
                if member.idle:
                    yield family, member

    def _wake_in(self, delay_s: float) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.tend)

    def tend(self) -> None:
        """End what has been idle for too long, and come back for the rest. Called by a timer."""
        self._timer = None
        now = self._clock()
        longest_s = 0.0
        for family, member in self._idle():
            if (idle_s := now - member.used_at) >= self._policy.idle_s_max:
                self._evicted += 1
                self._end(family, member)
            else:
                longest_s = max(longest_s, idle_s)
        for family in tuple(self._families.values()):
            self._drop_if_empty(family)
        if self._families:
            self._wake_in(self._policy.idle_s_max - longest_s)

    async def close_scope(self, scope: str) -> None:
        """End those of one scope, and wait until they are gone."""
        families = [family for family in self._families.values() if family.scope == scope]
        starting = [family.starting for family in families if family.starting is not None]
        await asyncio.gather(*starting, return_exceptions=True)
        before = set(self._ending)
        for family in families:
            for member in family.members:
                self._end(family, member)
            self._families.pop(family.key, None)
        await asyncio.gather(*(self._ending - before))

    async def close(self) -> None:
        """End all of them, whatever they are doing."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        starting = [family.starting for family in self._families.values() if family.starting is not None]
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        for family in tuple(self._families.values()):
            for member in family.members:
                self._end(family, member)
        self._families.clear()
        await asyncio.gather(*self._ending)


def _retrieve(task: asyncio.Task[Member]) -> None:
    """Nobody may be waiting for a successor; whoever asks next hears of its failure if it matters."""
    if (
        not task.cancelled()
        and isinstance(error := task.exception(), Exception)
        and not isinstance(error, MoonpoolError)
    ):
        raise error
