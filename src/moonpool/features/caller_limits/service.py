"""Admits requests and executions of callers within their limits, before anything is opened for them.

Requests are counted in a bucket that holds a whole period and fills steadily; buckets and executions at once are of
one process. Quotas are counted where all replicas count.

Asked in this order: rate, executions at once, quota; so what is refused uses up no quota.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final

from moonpool.features.caller_limits.model import NO_LIMITS, LimitExceededError, charges
from moonpool.features.caller_limits.table import KEPT_S
from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.features.caller_limits.model import BoundName, CallerLimits, LimitedCaller, OwnerName
    from moonpool.features.caller_limits.table import QuotaStore

BUCKETS_MAX: Final = 20_000
_FORGET_EVERY_S: Final = 3600.0
_CONCURRENCY_RETRY_S: Final = 1.0
_Owner = tuple[str, str]
_log = logging.getLogger(__name__)


async def _none(organisation_id: str) -> CallerLimits:
    del organisation_id
    return NO_LIMITS


class Buckets:
    """For each owner when its bucket will be full again; one that is full is not kept.

    Bounded: above `BUCKETS_MAX` the one that was used longest ago is taken for full. Owners are authenticated, so
    nobody can make many.
    """

    def __init__(self) -> None:
        self._full_at: OrderedDict[_Owner, float] = OrderedDict()

    def wait_s(self, owner: _Owner, limits: CallerLimits, count: int, now: float) -> float:
        """How long until `count` more are allowed; 0: they are now."""
        if limits.rate is None or not limits.rate.count:
            return 0.0
        step = limits.rate.period_s / limits.rate.count
        full_at = max(now, self._full_at.get(owner, now)) + min(count, limits.rate.count) * step
        return max(0.0, full_at - now - limits.rate.period_s - 1e-9)

    def take(self, owner: _Owner, limits: CallerLimits, count: int, now: float) -> None:
        if limits.rate is None or not limits.rate.count:
            return
        step = limits.rate.period_s / limits.rate.count
        self._full_at[owner] = max(now, self._full_at.get(owner, now)) + count * step
        self._full_at.move_to_end(owner)
        for _ in range(2):  # so that it shrinks, and no request pays for all
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now:
                break
            del self._full_at[oldest]
        if len(self._full_at) > BUCKETS_MAX:
            self._full_at.popitem(last=False)


class CallerLimiter:
    """Of one process. Used on one event loop."""

    def __init__(
        self,
        quotas: QuotaStore,
        *,
        caller: CallerLimits,
        organisation: CallerLimits,
        limits_of: Callable[[str], Awaitable[CallerLimits]] | None = None,
        background: Callable[[str, str], int] = lambda _organisation, _principal: 0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`caller` and `organisation` are the limits of those that have none of their own, which `limits_of` finds for
        an organisation. `background` says how many executions of a principal, or of all of an organisation (empty), go
        on that no request waits for.
        """
        self._quotas, self._caller, self._organisation, self._limits_of = (
            quotas,
            caller,
            organisation,
            limits_of or _none,
        )
        self._background, self._clock, self._monotonic = background, clock, monotonic
        self._buckets = Buckets()
        self._held: Counter[_Owner] = Counter()
        self._forgot_at = float("-inf")
        self.refused: Counter[tuple[BoundName, OwnerName]] = Counter()

    @property
    def held(self) -> int:
        """Executions that requests began and that have not ended."""
        return sum(count for (_, principal), count in self._held.items() if not principal)

    async def take(self, caller: LimitedCaller, count: int = 1) -> None:
        """Admit `count` requests. Raises LimitExceededError, DatabaseError."""
        owned, now = await self._owned(caller), self._monotonic()
        for of, owner, limits in owned:
            if wait_s := self._buckets.wait_s(owner, limits, count, now):
                raise self._refusal("rate", of, str(limits.rate), wait_s)
        for _, owner, limits in owned:
            self._buckets.take(owner, limits, count, now)

    async def begin(self, caller: LimitedCaller, count: int = 1, *, charged: bool = True) -> Callable[[], None]:
        """Admit `count` executions; the result says that all have ended, and may be called again.

        `charged`: they count on quotas. Raises LimitExceededError, DatabaseError.
        """
        owned = await self._owned(caller)
        for of, owner, limits in owned:
            if limits.concurrency and self._held[owner] + self._background(*owner) + count > limits.concurrency:
                raise self._refusal("concurrency", of, str(limits.concurrency), _CONCURRENCY_RETRY_S)
        release = self._hold([owner for _, owner, _ in owned], count)
        if charged:
            try:
                await self._charge(caller, owned[0][2], owned[1][2], count)
            except BaseException:
                release()
                raise
        return release

    async def _charge(
        self, caller: LimitedCaller, limits: CallerLimits, organisation_limits: CallerLimits, count: int
    ) -> None:
        now = self._clock()
        due = list(charges(caller, limits, organisation_limits, count, now))
        if not due:
            return
        if self._monotonic() - self._forgot_at > _FORGET_EVERY_S:
            self._forgot_at = self._monotonic()
            try:
                await self._quotas.forget(now - KEPT_S)
            except DatabaseError as error:
                _log.warning("old counts of quotas cannot be removed: %s", error)
        if (used_up := await self._quotas.count(due)) is not None:
            ends = used_up.period_start + used_up.quota.period_s
            raise self._refusal("quota", used_up.owner, str(used_up.quota), ends - now)

    async def _owned(self, caller: LimitedCaller) -> tuple[tuple[OwnerName, _Owner, CallerLimits], ...]:
        own, shared = (caller.organisation, caller.principal), (caller.organisation, "")
        return (
            ("caller", own, caller.limits.over(self._caller)),
            ("organisation", shared, (await self._limits_of(caller.organisation)).over(self._organisation)),
        )

    def _hold(self, owners: list[_Owner], count: int) -> Callable[[], None]:
        for owner in owners:
            self._held[owner] += count
        is_held = True

        def release() -> None:
            nonlocal is_held
            if not is_held:
                return
            is_held = False
            for owner in owners:
                self._held[owner] -= count
                if not self._held[owner]:
                    del self._held[owner]

        return release

    def _refusal(self, bound: BoundName, of: OwnerName, limit: str, retry_s: float) -> LimitExceededError:
        self.refused[bound, of] += 1
        return LimitExceededError(bound, of, limit, retry_s=retry_s)
