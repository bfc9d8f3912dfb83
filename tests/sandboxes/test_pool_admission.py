"""Who gets a sandbox when there are fewer than callers: a few at a time, tenants in turn, or a clear refusal."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.pool_admission import FairLine, Places
from moonpool.sandboxes.pool_limits import PoolLimits
from moonpool.sandboxes.pool_principals import PrincipalPlaces
from moonpool.sandboxes.pool_refusals import BusyError, PoolClosedError, Refusals
from sandboxes.pools import Clock, GatedBackend, gone, pool_of, served, settled, spec_of, until

if TYPE_CHECKING:
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.pool import SandboxPool

pytestmark = pytest.mark.anyio
A, B = spec_of("a"), spec_of("b")


def asked(pool: SandboxPool, spec, count: int, language: str = "python") -> list[asyncio.Task[Sandbox]]:
    tasks = [asyncio.ensure_future(pool.acquire(spec, language)) for _ in range(count)]
    for task in tasks:  # those that a test leaves waiting are told when the pool closes; no one need hear it
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return tasks


# --- places and the line, without a pool


def test_the_line_takes_scopes_in_turn_and_keeps_the_order_within_one() -> None:
    line: FairLine[str] = FairLine()
    for waiter in ("a1", "a2", "a3", "a4", "b1", "c1", "c2"):
        line.join(waiter[0], waiter)
    assert [line.next(lambda _: True) for _ in range(8)] == ["a1", "b1", "c1", "a2", "c2", "a3", "a4", None]


def test_a_scope_that_may_not_go_does_not_hold_the_others_up_and_loses_no_turn() -> None:
    line: FairLine[str] = FairLine()
    for waiter in ("a1", "a2", "b1", "b2"):
        line.join(waiter[0], waiter)
    taken = [line.next(lambda scope: scope != "a"), line.next(lambda _: True), line.next(lambda _: True)]
    assert taken == ["b1", "a1", "b2"]


def test_a_scope_that_comes_back_stands_behind_those_who_waited() -> None:
    line: FairLine[str] = FairLine()
    line.join("a", "a1")
    line.join("b", "b1")
    assert line.next(lambda _: True) == "a1"
    line.join("a", "a2")
    assert line.next(lambda _: True) == "b1"


def test_who_steps_out_is_gone_and_steps_out_once() -> None:
    line: FairLine[str] = FairLine()
    line.join("a", "a1")
    assert [line.leave("a", "a1"), line.leave("a", "a1"), line.next(lambda _: True), len(line)] == [
        True,
        False,
        None,
        0,
    ]


@pytest.mark.parametrize(
    ("per_scope", "alive", "expected"),
    [
        pytest.param(0, {"a": 8}, "sandboxes_max", id="alone: all of them"),
        pytest.param(0, {"a": 7}, None, id="alone: one is left"),
        pytest.param(0, {"a": 6, "b": 1}, "sandboxes_per_tenant_max", id="not alone: three quarters"),
        pytest.param(0, {"a": 5, "b": 1}, None, id="not alone: below three quarters"),
        pytest.param(2, {"a": 2}, "sandboxes_per_tenant_max", id="as set"),
        pytest.param(2, {"a": 1, "b": 7}, "sandboxes_max", id="others have the rest"),
        pytest.param(99, {"a": 8}, "sandboxes_max", id="set higher than all"),
    ],
)
def test_the_setting_that_keeps_a_scope_from_another_is_named(
    per_scope: int, alive: dict, expected: str | None
) -> None:
    places = Places(alive_max=8, alive_per_scope_max=per_scope)
    for scope, count in alive.items():
        for _ in range(count):
            places.take(scope)
    assert places.lacking("a") == expected


# --- a few at a time


async def test_200_callers_at_once_are_all_served_a_few_at_a_time() -> None:
    backend, order = GatedBackend(), []
    async with pool_of(backend, alive_max=16) as pool:
        with anyio.fail_after(20):
            await asyncio.gather(*(served(pool, A, order) for _ in range(200)))
        assert len(order) == len(backend.begun) == 200
        assert backend.opening_most == 4
        assert backend.alive_most <= 16
        await settled()
        assert (pool.statistics().alive, pool.statistics().waiting) == (0, 0)


async def test_no_more_than_the_limit_are_alive_whoever_waits() -> None:
    backend = GatedBackend()
    async with pool_of(backend, alive_max=3) as pool:
        tasks = asked(pool, A, 10)
        await until(lambda: len(backend.opened) == 3)
        await settled()
        assert len(backend.begun) == 3
        for number in range(7):
            await gone(backend.opened[number])
        await asyncio.gather(*tasks)
        assert backend.alive_most == 3


async def test_a_caller_takes_what_is_being_opened_ahead_instead_of_opening_another() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend, ready_low=1, ready_high=1) as pool:
        pool.fill(A)
        task = asked(pool, A, 1)[0]
        await settled()
        assert len(backend.begun) == 1
        backend.let(1)
        assert await task is backend.opened[0]


async def test_ahead_of_need_one_is_opened_at_a_time() -> None:
    backend = GatedBackend()
    async with pool_of(backend, ready_low=6, ready_high=6) as pool:
        pool.fill(A)
        await until(lambda: pool.statistics().ready == 6)
        assert backend.opening_most == 1


# --- principals of one tenant


async def test_a_principal_keeps_the_others_of_its_tenant_no_more_than_its_share() -> None:
    backend = GatedBackend()
    async with pool_of(backend, alive_max=4, wait_s_max=0.05) as pool:
        for _ in range(2):
            await pool.acquire(A, principal="a")
        other = await pool.acquire(A, principal="b")
        third = await pool.acquire(A, principal="a")  # of two principals each may have three of four
        assert pool.acquire_nowait(A, principal="a") is None
        with pytest.raises(BusyError, match=r"you had 3 sandboxes in use .* your share of your tenant's"):
            await pool.acquire(A, principal="a")
        waits = asyncio.ensure_future(pool.acquire(A, principal="a"))
        await settled()
        await gone(third)
        await waits
        await gone(other)
        await pool.acquire(A, principal="a")  # alone again, it may have all
        assert pool.statistics().alive == 4


async def test_a_principal_that_waits_with_many_leaves_room_in_the_line_for_others() -> None:
    async with pool_of(GatedBackend(), alive_max=2, waiting_max=8) as pool:
        for name in ("a", "b"):  # each has its share
            await pool.acquire(A, principal=name)
        waits = [asyncio.ensure_future(pool.acquire(A, principal=name)) for name in "baaaaaa"]
        await settled()
        with pytest.raises(BusyError, match="7 callers are waiting"):
            await pool.acquire(A, principal="a")  # three quarters of eight wait
        waits.append(asyncio.ensure_future(pool.acquire(A, principal="b")))
        await settled()
        assert pool.statistics().waiting == 8
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def test_a_caller_that_gives_up_its_turn_leaves_it_to_the_next() -> None:
    backend = GatedBackend()
    async with pool_of(backend, alive_max=2) as pool:
        held, _ = await pool.acquire(A, principal="a"), await pool.acquire(A, principal="b")
        first, second = (asyncio.ensure_future(pool.acquire(A, principal="a")) for _ in range(2))
        await settled()
        assert pool.statistics().waiting == 2
        first.cancel()
        await gone(held)
        assert not (await second).has_ended
        assert (pool.statistics().waiting, first.cancelled()) == (0, True)


async def test_a_turn_that_comes_when_the_wait_is_over_is_given_back() -> None:
    limits = PoolLimits(alive_max=4, wait_s_max=0.0)
    places = PrincipalPlaces(limits, Refusals(limits, Places(alive_max=4), Clock()))
    assert all(places.take_nowait("t", name) for name in "baaa")
    waits = asyncio.ensure_future(places.take("t", "a"))
    asyncio.get_running_loop().call_soon(places.give_back, "t", "a")  # before the end of the wait is acted on
    with pytest.raises(BusyError):
        await waits
    assert places.take_nowait("t", "a")


async def test_a_closed_tenant_or_pool_refuses_who_waits_for_a_share_and_keeps_no_place() -> None:
    backend = GatedBackend()
    async with pool_of(backend, alive_max=2) as pool:
        held = [await pool.acquire(A, principal=name) for name in ("a", "b")]
        waits = asyncio.ensure_future(pool.acquire(A, principal="a"))
        await settled()
        for sandbox in held:
            closing = asyncio.ensure_future(sandbox.close())
        await pool.close_scope("a")
        await closing
        with pytest.raises(PoolClosedError):
            await waits
        for sandbox in [await pool.acquire(A, principal="a") for _ in range(2)]:  # all places are free again
            await gone(sandbox)
        ended = await pool.acquire(A, principal="b")
        await ended.close()
        await settled()
        assert [await pool.acquire(A, principal="a") for _ in range(2)]


# --- tenants


async def test_two_callers_of_a_small_tenant_are_served_in_the_second_and_fourth_turn() -> None:
    backend, order = GatedBackend(), []
    async with pool_of(backend, alive_max=1, opening_max=1) as pool:
        storm = [asyncio.ensure_future(served(pool, A, order)) for _ in range(100)]
        await settled()
        small = [asyncio.ensure_future(served(pool, B, order)) for _ in range(2)]
        before = len(order)
        await asyncio.gather(*storm, *small)
        since = order[before:]
        assert [index for index, scope in enumerate(since) if scope == "b"][-1] <= 6


async def test_turns_of_a_scope_are_not_taken_by_its_other_languages_and_images() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend, opening_max=1) as pool:
        tasks = asked(pool, A, 3) + asked(pool, A, 3, "node") + asked(pool, spec_of("a", "data"), 3) + asked(pool, B, 3)
        await settled()
        for _ in tasks:
            backend.let(1)
            await settled()
        await asyncio.gather(*tasks)
        assert "".join(spec.scope for spec in backend.begun[:6]) == "aababa"  # the first was alone when it came


async def test_one_tenant_cannot_have_more_than_its_part() -> None:
    backend = GatedBackend()
    async with pool_of(backend, alive_max=10, alive_per_scope_max=2) as pool:
        many = asked(pool, A, 5)
        await until(lambda: backend.alive["a"] == 2)
        await asyncio.gather(*asked(pool, B, 2))
        await settled()
        assert (backend.alive["a"], backend.alive["b"]) == (2, 2)
        for number in range(5):
            await gone([box for box, spec in zip(backend.opened, backend.begun, strict=True) if spec is A][number])
        await asyncio.gather(*many)


async def test_a_tenant_with_all_places_gives_the_next_ones_that_end_to_the_newcomer() -> None:
    backend = GatedBackend()
    async with pool_of(backend, alive_max=4) as pool:
        first = await asyncio.gather(*asked(pool, A, 4))
        more, newcomer = asked(pool, A, 4), asked(pool, B, 1)[0]
        for sandbox in first[:2]:
            await gone(sandbox)
        assert (await newcomer) in backend.opened
        for sandbox in backend.opened:
            await gone(sandbox)
        await asyncio.gather(*more)


# --- refusals


async def test_a_full_line_refuses_whoever_comes_and_says_when_to_come_again() -> None:
    async with pool_of(GatedBackend(open_gate=False), opening_max=1, waiting_max=2) as pool:
        tasks = asked(pool, A, 3)
        await settled()
        with pytest.raises(BusyError, match=r"2 callers are waiting.*try again in 3 s.*waiting_max") as raised:
            await pool.acquire(A)
        assert raised.value.retryable
        assert (raised.value.setting, raised.value.retry_after_s, pool.statistics().refused) == ("waiting_max", 3, 1)
        assert not any(task.done() for task in tasks)


async def test_in_a_full_line_the_newest_of_the_longest_part_makes_way_for_another_tenant() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend, opening_max=1, waiting_max=3) as pool:
        storm = asked(pool, A, 4)
        await settled()
        small = asked(pool, B, 1)[0]
        await settled()
        assert isinstance(storm[3].exception(), BusyError)
        backend.let(9)
        await asyncio.gather(small, *storm[:3])


async def test_who_waits_too_long_for_a_place_hears_which_limit_it_was() -> None:
    async with pool_of(GatedBackend(), alive_max=1, wait_s_max=0.05) as pool:
        held = await pool.acquire(A)
        with anyio.fail_after(30), pytest.raises(BusyError, match=r"all 1 sandboxes stayed in use.*sandboxes_max"):
            await pool.acquire(A)
        await gone(held)
        assert await pool.acquire(A) is not held


async def test_who_waits_too_long_because_of_the_tenants_limit_hears_that() -> None:
    async with pool_of(GatedBackend(), alive_max=9, alive_per_scope_max=1, wait_s_max=0.05) as pool:
        held = await pool.acquire(A)
        with anyio.fail_after(30), pytest.raises(BusyError, match=r"tenant 'a'.*sandboxes_per_tenant_max"):
            await pool.acquire(A)
        assert not held.has_ended


async def test_who_is_being_served_is_not_refused_however_long_it_takes() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend, wait_s_max=0.01) as pool:
        task = asked(pool, A, 1)[0]
        await anyio.sleep(0.05)
        backend.let(1)
        assert await task is backend.opened[0]


# --- callers who leave


async def test_a_caller_who_leaves_the_line_leaves_no_trace() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend, opening_max=1) as pool:
        first, second, third = asked(pool, A, 3)
        await settled()
        second.cancel()
        await settled()
        assert pool.statistics().waiting == 2
        backend.let(3)
        await asyncio.gather(first, third)
        await settled()
        assert len(backend.begun) == 2


async def test_what_was_opened_for_one_who_left_goes_to_the_next() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend, opening_max=1) as pool:
        first, second = asked(pool, A, 2)
        await settled()
        first.cancel()
        await settled()
        backend.let(1)
        assert await second is backend.opened[0]
        assert len(backend.begun) == 1


async def test_what_was_opened_for_one_who_left_is_ended_when_nobody_wants_it() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend) as pool:
        task = asked(pool, A, 1)[0]
        await settled()
        task.cancel()
        backend.let(1)
        await until(lambda: backend.opened and not backend.alive.total())
        await settled()
        assert (pool.statistics().alive, pool.statistics().waiting) == (0, 0)


async def test_a_sandbox_handed_to_one_who_leaves_in_that_moment_goes_to_the_next() -> None:
    backend = GatedBackend(open_gate=False)
    async with pool_of(backend, alive_max=1) as pool:
        first, second = asked(pool, A, 2)
        await settled()
        hand_over = pool._hand_over

        def and_cancel(*given) -> None:
            hand_over(*given)
            first.cancel()

        pool._hand_over = and_cancel
        backend.let(1)
        assert await second is backend.opened[0]
        assert first.cancelled()


async def test_an_opening_that_fails_is_told_to_one_caller_and_the_others_go_on() -> None:
    backend = GatedBackend(open_gate=False, failure=SandboxStartError(step="spawn", reason="no"))
    async with pool_of(backend, opening_max=1) as pool:
        first, *others = asked(pool, A, 4)
        await settled()
        backend.let(1)
        await until(first.done)
        assert isinstance(first.exception(), SandboxStartError)
        backend.failure = None
        backend.let(3)
        assert len(set(map(id, await asyncio.gather(*others)))) == 3


# --- everything at once


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_callers_do_limits_hold_and_everybody_is_told(seed: int) -> None:
    """Callers of three tenants and three languages come, leave, hold and let go; opening fails now and then."""
    dice = random.Random(seed)  # noqa: S311
    backend = GatedBackend()
    inner = backend.open_sandbox

    async def unreliable(spec):
        if dice.random() < 0.1:
            raise SandboxStartError(step="spawn", reason="bad luck")
        for _ in range(dice.randrange(5)):
            await anyio.lowlevel.checkpoint()
        return await inner(spec)

    backend.open_sandbox = unreliable
    outcomes: list[str] = []

    async def caller(pool: SandboxPool) -> None:
        for _ in range(dice.randrange(30)):
            await anyio.lowlevel.checkpoint()
        spec = spec_of(dice.choice("aaab"), dice.choice(["base", "data"]))
        try:
            sandbox = await pool.acquire(spec, dice.choice(["python", "python", "node", "bash"]))
        except MoonpoolError as error:
            outcomes.append(error.code)
            return
        try:
            for _ in range(dice.randrange(20)):
                await anyio.lowlevel.checkpoint()
        finally:
            sandbox.kill()
        outcomes.append("served")

    limits = {"alive_max": 6, "alive_per_scope_max": 4, "waiting_max": 60, "ready_low": 1, "ready_high": 3}
    async with pool_of(backend, **limits) as pool:
        pool.fill(A)
        with anyio.fail_after(30):
            tasks = [asyncio.ensure_future(caller(pool)) for _ in range(150)]
            for task in dice.sample(tasks, 30):
                for _ in range(dice.randrange(5)):
                    await anyio.lowlevel.checkpoint()
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(end, asyncio.CancelledError) for end in ends) + len(outcomes) == 150
        assert set(outcomes) <= {"served", "sandbox_start_failed", "busy"}
        assert backend.opening_most <= 4
        assert backend.alive_most <= 6
        seen = pool.statistics()
        assert seen.waiting == 0
        assert sum(kind.in_use for kind in seen.kinds) <= 6
        await until(lambda: sum(kind.in_use for kind in pool.statistics().kinds) == 0)
        await until(lambda: backend.alive.total() == pool.statistics().alive)
