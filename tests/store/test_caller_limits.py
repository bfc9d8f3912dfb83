"""Limits of callers: quotas counted by several replicas on both databases, and what is admitted by a clock of ours."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from databases import database_address, opened
from moonpool.core.errors import InputError
from moonpool.features.caller_limits.model import NO_LIMITS, Allowance, CallerLimits, Charge, LimitExceededError
from moonpool.features.caller_limits.service import CallerLimiter
from moonpool.features.caller_limits.table import QuotasInMemory, QuotaTable
from moonpool.features.organisations.service import REMEMBERED_S, Organisations
from moonpool.store.database.opening import open_database

if TYPE_CHECKING:
    from moonpool.features.caller_limits.table import QuotaStore
    from moonpool.store.database.addresses import DatabaseAddress
    from moonpool.store.database.base import Database

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio


@dataclass
class Caller:
    """One key of acme."""

    limits: CallerLimits = NO_LIMITS
    principal: str = "key:1"
    organisation: str = "acme"


@dataclass
class Clock:
    now: float = 86400.0 * 20_000 + 100
    background: dict[tuple[str, str], int] = field(default_factory=dict)

    def limiter(self, quotas: QuotaStore | None = None, **more: CallerLimits) -> CallerLimiter:
        limits = {"caller": NO_LIMITS, "organisation": NO_LIMITS, **more}
        return CallerLimiter(
            quotas or QuotasInMemory(),
            **limits,
            background=lambda *owner: self.background.get(owner, 0),
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )


def limits(rate: str | None = None, concurrency: int | None = None, quota: str | None = None) -> CallerLimits:
    return CallerLimits.parse(rate=rate, concurrency=concurrency, quota=quota)


async def refused(limiter: CallerLimiter, caller: Caller, *, runs: bool = True) -> tuple[str, str, int]:
    with pytest.raises(LimitExceededError) as error:
        await (limiter.begin(caller) if runs else limiter.take(caller))
    return error.value.bound, error.value.of, error.value.retry_s


@pytest.mark.req("C-026", "F-024")
async def test_a_rate_lets_a_whole_period_pass_at_once_and_then_fills_steadily() -> None:
    clock = Clock()
    limiter, caller = clock.limiter(), Caller(limits(rate="3/min"))
    for _ in range(3):
        await limiter.take(caller)
    assert await refused(limiter, caller, runs=False) == ("rate", "caller", 20)
    await limiter.take(Caller(limits(rate="3/min"), principal="key:2"))  # another key has its own
    clock.now += 20
    await limiter.take(caller)
    assert (await refused(limiter, caller, runs=False))[0] == "rate"
    assert limiter.refused == {("rate", "caller"): 2}


async def test_callers_of_an_organisation_share_its_limits_and_a_callers_own_wins_over_the_settings() -> None:
    limiter = Clock().limiter(caller=limits(rate="1/min", concurrency=1), organisation=limits(concurrency=2))
    one, other = Caller(limits(rate="none", concurrency=0)), Caller(principal="key:2")
    for _ in range(5):
        await limiter.take(one)
    ended = await limiter.begin(one)
    await limiter.begin(other)
    assert await refused(limiter, one) == ("concurrency", "organisation", 1)
    assert (await refused(limiter, other))[:2] == ("concurrency", "caller")
    ended()
    ended()  # once is enough
    await limiter.begin(one)
    assert limiter.held == 2


async def test_what_goes_on_without_a_request_counts() -> None:
    clock = Clock(background={("acme", "key:1"): 1})
    limiter = clock.limiter()
    assert (await refused(limiter, Caller(limits(concurrency=1))))[0] == "concurrency"


async def test_what_is_refused_by_another_limit_uses_up_no_quota() -> None:
    limiter, caller = Clock().limiter(), Caller(limits(concurrency=1, quota="2/day"))
    ended = await limiter.begin(caller)
    for _ in range(5):
        assert (await refused(limiter, caller))[0] == "concurrency"
    ended()
    (await limiter.begin(caller))()
    assert await refused(limiter, caller) == ("quota", "caller", 86400 - 100)
    assert limiter.held == 0


async def test_a_state_that_comes_back_is_not_counted_again() -> None:
    limiter, caller = Clock().limiter(), Caller(limits(quota="1/day"))
    (await limiter.begin(caller))()
    (await limiter.begin(caller, charged=False))()


@pytest.mark.parametrize("text", ["", "5", "0/min", "-1/min", "1/week", "1e3/min", "5/min ", "99999999999/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="the rate limit must be none, or a number"):
        Allowance.parse(text, what="the rate limit")


@pytest.mark.req("C-026")
async def test_replicas_count_on_one_quota_and_never_above_it(database_address: DatabaseAddress) -> None:
    clock, caller = Clock(), Caller(limits(quota="30/h"))
    async with open_database(database_address) as one, open_database(database_address) as two:
        replicas = [clock.limiter(QuotaTable(one)), clock.limiter(QuotaTable(two))]

        async def admitted(number: int) -> bool:
            try:
                await replicas[number % 2].begin(caller)
            except LimitExceededError:
                return False
            return True

        assert sum(await asyncio.gather(*(admitted(number) for number in range(60)))) == 30
        clock.now += 3600
        assert await admitted(0)


async def test_both_stores_count_all_or_nothing(opened: Database) -> None:
    for store in (QuotaTable(opened), QuotasInMemory()):
        own, shared = (
            Charge(organisation_id="acme", principal=name, quota=Allowance(most, "day"), count=1, period_start=0)
            for name, most in (("key:1", 5), ("", 1))
        )
        assert await store.count([own, shared]) is None
        for _ in range(9):  # the organisation's is used up, so the key's stays at one
            assert await store.count([own, shared]) == shared
        for _ in range(4):
            assert await store.count([own]) is None
        assert await store.count([own]) == own
        await store.forget(1)
        assert await store.count([own, shared]) is None


async def test_a_clock_that_was_ahead_for_a_while_uses_up_no_quota_for_long(opened: Database) -> None:
    """As at the start of a machine whose clock is set later: counts of 2036 would else be in force until then."""
    for store in (QuotaTable(opened), QuotasInMemory()):
        clock, caller = Clock(now=86400.0 * 24_000), Caller(limits(quota="1/h"))
        limiter = clock.limiter(store)
        await limiter.begin(caller)
        clock.now -= 3600  # a replica whose clock is behind counts on
        await refused(limiter, caller)
        clock.now = 86400.0 * 20_000
        await limiter.begin(caller)
        await refused(limiter, caller)


async def test_an_organisations_limits_are_found_and_change_within_a_second(opened: Database) -> None:
    now = 0.0
    here = Organisations(opened, several=True)
    there = Organisations(opened, several=True, monotonic=lambda: now)
    await here.create("acme", limits=limits(quota="5/day"))
    assert (await there.limits_of("acme")).said() == {"quota": "5/day"}
    await here.limit("acme", limits(concurrency=2))
    now = REMEMBERED_S
    assert (await there.limits_of("acme")).said() == {"concurrency": 2}
    with pytest.raises(InputError, match="no organisation 'globex'"):
        await here.limit("globex", NO_LIMITS)
