"""Which zygote serves a spec, and how long a zygote lives.

The zygotes of one (scope, image) are a family. It starts with one, gets a second when forks wait for each other, and
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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.admission import BusyError
from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.statistics import ZygoteStatistics, ZygoteTotals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from moonpool.sandboxes.base import ImageSpec, SandboxSpec
    from moonpool.sandboxes.zygote_process import Zygote, ZygoteSandbox

_CROWDED = 2
"""A family grows when every member has so many forks under way: one is served, the other waits."""
_PAUSE_S = 0.25
_PAUSE_S_MAX = 30.0
_REMEMBERED_S = 60.0
"""A failure is forgotten so long after its pause, and the pauses start small again."""
_RETRY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygotePolicy:
    """How many zygotes there may be, and for how long. Settings of the same names have the reasons."""

    forks_max: int = 1000
    age_s_max: float = 600.0
    idle_s_max: float = 300.0
    count_max: int = 32
    per_image_max: int = 2


@dataclass(slots=True, eq=False)
class _Member:
    """One zygote of a family."""

    zygote: Zygote
    born_at: float
    used_at: float
    forks: int = 0
    forked: int = 0  # of these, the ones that succeeded
    forking: int = 0

    @property
    def idle(self) -> bool:
        return not self.forking and not self.zygote.sandbox_count


@dataclass(slots=True, eq=False)
class _Family:
    """The zygotes of one scope and image."""

    scope: str
    image: ImageSpec
    serving: list[_Member] = field(default_factory=list[_Member])
    retired: list[_Member] = field(default_factory=list[_Member])
    starting: asyncio.Task[_Member] | None = None
    failures: int = 0  # in a row
    resume_at: float = 0.0
    failure: SandboxStartError | None = None

    @property
    def members(self) -> list[_Member]:
        return [*self.serving, *self.retired]

    def failed(self, error: SandboxStartError, now: float) -> None:
        """One more did not come up, or died before it forked anything."""
        self.failures += 1
        self.failure = error
        pause = 0.0 if self.failures == 1 else min(_PAUSE_S_MAX, _PAUSE_S * 2 ** (min(self.failures, 20) - 2))
        self.resume_at = now + pause

    def refusal(self, now: float) -> SandboxStartError | None:
        """Why nothing is tried now, if the pause is not over."""
        if self.failure is None or now >= self.resume_at:
            return None
        pause = f"this failed {self.failures} times in a row and is tried again in {self.resume_at - now:.1f} s"
        return SandboxStartError(step=self.failure.step, reason=f"{self.failure.reason}; {pause}")


class Zygotes:
    """All zygotes of a backend. `start` brings one up, or raises SandboxStartError and leaves nothing."""

    def __init__(
        self,
        start: Callable[[str, ImageSpec], Awaitable[Zygote]],
        policy: ZygotePolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start, self._policy, self._clock = start, policy or ZygotePolicy(), clock
        self._families: OrderedDict[tuple[str, str], _Family] = OrderedDict()  # least recently used first
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._started = self._replaced = self._evicted = self._died = self._failures = self._forks = 0
        self._closed = False

    async def open_sandbox(self, spec: SandboxSpec) -> ZygoteSandbox:
        """Fork a sandbox from the zygote that has least to do. Raises SandboxStartError, BusyError."""
        family, member = await self._choose(spec.scope, spec.image)
        member.forks += 1
        member.forking += 1
        self._forks += 1
        try:
            sandbox = await member.zygote.spawn(spec)
            member.forked += 1
            if member.forked == 1:  # only now is it sure that it came up well
                family.failures, family.failure = 0, None
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

    async def _choose(self, scope: str, image: ImageSpec) -> tuple[_Family, _Member]:
        key = (scope, image.digest)
        while True:
            if self._closed:
                raise SandboxStartError(step="zygote", reason="the backend is closed")
            family = self._families.setdefault(key, _Family(scope, image))
            family.image = image
            self._families.move_to_end(key)
            self._bury_dead(family)
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

    def _renew(self, family: _Family, chosen: _Member) -> None:
        """Start a successor in the background, or one more where callers wait for forks."""
        if family.starting is not None or family.refusal(self._clock()) is not None:
            return
        crowded = chosen.forking >= _CROWDED and len(family.serving) < self._policy.per_image_max
        if self._worn(family) is not None or (crowded and self._has_place()):
            self._begin(family, first=False)

    def _worn(self, family: _Family) -> _Member | None:
        now, policy = self._clock(), self._policy
        worn = (m for m in family.serving if m.forks >= policy.forks_max or now - m.born_at >= policy.age_s_max)
        return next(worn, None)

    def _has_place(self) -> bool:
        """Whether one more may serve. A successor needs no place of its own; it takes the old one's."""
        serving = sum(len(family.serving) for family in self._families.values())
        firsts = sum(1 for f in self._families.values() if f.starting is not None and self._worn(f) is None)
        return serving + firsts < self._policy.count_max

    # --- beginning

    def _begin(self, family: _Family, *, first: bool) -> asyncio.Task[_Member]:
        if first:
            if (refusal := family.refusal(self._clock())) is not None:
                raise refusal
            if not self._has_place() and not self._evict_one():
                why = f"all {self._policy.count_max} zygotes serve other tenants or environments"
                raise BusyError(why, setting="zygotes_max", retry_after_s=_RETRY_S)
        family.starting = asyncio.ensure_future(self._bring_up(family))
        family.starting.add_done_callback(_retrieve)
        return family.starting

    async def _bring_up(self, family: _Family) -> _Member:
        try:
            zygote = await self._start(family.scope, family.image)
        except SandboxStartError as error:
            self._failures += 1
            family.failed(error, self._clock())
            self._wake_in(self._policy.idle_s_max)
            raise
        finally:
            family.starting = None
            self._drop_if_empty(family)
        self._families[family.scope, family.image.digest] = family
        now = self._clock()
        member = _Member(zygote, born_at=now, used_at=now)
        zygote.on_free = lambda: self._on_free(family, member)
        self._started += 1
        if (worn := self._worn(family)) is not None:
            self._replaced += 1
            self._retire(family, worn)
            self._on_free(family, worn)
        family.serving.append(member)
        self._wake_in(self._policy.idle_s_max)
        return member

    # --- ending

    def _on_free(self, family: _Family, member: _Member) -> None:
        """A fork or a sandbox of `member` has ended, or it is dead."""
        member.used_at = self._clock()
        if not member.zygote.alive:
            self._bury_dead(family)
        elif member.idle and member in family.retired:
            self._end(family, member)
        elif member.idle:
            self._wake_in(self._policy.idle_s_max)

    def _bury_dead(self, family: _Family) -> None:
        """Take dead ones out of service. Each ends with its last sandbox, which says of itself that it was lost."""
        for member in family.members:
            if member.zygote.alive:
                continue
            if member in family.serving:
                self._retire(family, member)
                member.zygote.kill()  # a wall whose zygote is silent is of no use
                self._died += 1
                if not member.forked:
                    error = SandboxStartError(step="zygote", reason="the zygote ended before it forked a sandbox")
                    family.failed(error, self._clock())
            if member.idle:
                self._end(family, member)

    @staticmethod
    def _retire(family: _Family, member: _Member) -> None:
        family.serving.remove(member)
        family.retired.append(member)

    def _end(self, family: _Family, member: _Member) -> None:
        (family.retired if member in family.retired else family.serving).remove(member)
        ending = asyncio.ensure_future(member.zygote.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        self._drop_if_empty(family)

    def _drop_if_empty(self, family: _Family) -> None:
        """Forget a family of which nothing is left to remember."""
        remembers = family.failure is not None and self._clock() < family.resume_at + _REMEMBERED_S
        if not family.members and family.starting is None and not remembers:
            self._families.pop((family.scope, family.image.digest), None)

    def _evict_one(self) -> bool:
        """End the idle zygote that was used longest ago."""
        idle = [(m.used_at, index, f, m) for index, (f, m) in enumerate(self._idle())]
        if not idle:
            return False
        _, _, family, member = min(idle, key=lambda one: one[:2])
        self._evicted += 1
        self._end(family, member)
        return True

    def _idle(self) -> Iterator[tuple[_Family, _Member]]:
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


def _retrieve(task: asyncio.Task[_Member]) -> None:
    """Nobody may be waiting for a successor; whoever asks next hears of its failure if it matters."""
    if (
        not task.cancelled()
        and isinstance(error := task.exception(), Exception)
        and not isinstance(error, MoonpoolError)
    ):
        raise error
