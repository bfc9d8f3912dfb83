"""What stands ready, for whom, and what happens to it. The backend is the fake: every step is the test's."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import SandboxStartError, TreeRef
from moonpool.sandboxes.pool import SandboxPool
from moonpool.sandboxes.pool_limits import PoolLimits
from moonpool.sandboxes.pool_refusals import BusyError, PoolClosedError
from sandboxes.pools import Clock, GatedBackend, gone, pool_of, settled, spec_of, until

if TYPE_CHECKING:
    from moonpool.sandboxes.pool_statistics import QueueStatistics

pytestmark = pytest.mark.anyio
SPEC = spec_of()


def kind(pool: SandboxPool, language: str = "python", scope: str = "a", image: str = "base") -> QueueStatistics:
    found = [one for one in pool.statistics().kinds if (one.scope, one.image, one.language) == (scope, image, language)]
    assert len(found) == 1, pool.statistics()
    return found[0]


async def test_a_filled_pool_keeps_the_low_mark_ready_before_anybody_asks() -> None:
    async with pool_of(GatedBackend(), ready_low=3, ready_high=8) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 3)
        await settled()
        assert (kind(pool).opened, kind(pool).opening) == (3, 0)


async def test_a_ready_one_is_taken_without_waiting_and_replaced() -> None:
    clock = Clock()
    async with pool_of(GatedBackend(), clock, ready_low=2, ready_high=8) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 2)
        first = pool.acquire_nowait(SPEC)
        assert first is not None
        clock.now += 1
        await until(lambda: kind(pool).ready == 2)
        assert (kind(pool).hits, kind(pool).misses, kind(pool).in_use) == (1, 0, 1)


async def test_while_code_was_just_started_nothing_is_opened_ahead() -> None:
    clock, backend = Clock(), GatedBackend()
    async with pool_of(backend, clock, ready_low=1, ready_high=1) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 1)
        assert pool.acquire_nowait(SPEC) is not None
        await anyio.sleep(0.03)  # the timer comes, but the clock of the pool stands still
        assert len(backend.begun) == 1
        clock.now += 1
        await until(lambda: kind(pool).ready == 1)


async def test_when_code_that_was_just_started_has_ended_the_next_one_is_opened_at_once() -> None:
    clock, backend = Clock(), GatedBackend()
    async with pool_of(backend, clock, ready_low=1, ready_high=1) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 1)
        taken = pool.acquire_nowait(SPEC)
        assert taken is not None
        await settled()
        assert len(backend.begun) == 1
        await taken.close()  # the clock of the pool stands still
        await until(lambda: kind(pool).ready == 1)


async def test_what_is_opened_ahead_shows_the_tools_of_that_moment_from_the_start() -> None:
    clock, backend, trees = Clock(), GatedBackend(), {"a": TreeRef(Path("/trees/1"), "sha256:1")}
    pool = SandboxPool(backend, PoolLimits(ready_low=1, ready_high=1), clock=clock, current_tree=trees.get)
    pool.fill(SPEC)
    await until(lambda: kind(pool).ready == 1)
    trees["a"] = TreeRef(Path("/trees/2"), "sha256:2")
    assert pool.acquire_nowait(replace(SPEC, tree=trees["a"])) is not None
    clock.now += 1
    await until(lambda: kind(pool).ready == 1)
    assert [spec.tree.digest for spec in backend.begun if spec.tree] == ["sha256:1", "sha256:2"]
    await pool.close()
    await backend.close()


async def test_no_sandbox_is_handed_out_twice() -> None:
    async with pool_of(GatedBackend(), ready_low=2, ready_high=4, alive_max=40) as pool:
        pool.fill(SPEC)
        sandboxes = [await pool.acquire(SPEC) for _ in range(30)]
        assert len(set(map(id, sandboxes))) == 30


async def test_another_image_or_language_has_none_ready_until_it_is_asked_for() -> None:
    backend = GatedBackend()
    async with pool_of(backend, ready_low=1, ready_high=4) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 1)
        assert pool.acquire_nowait(spec_of(image="data")) is None
        await pool.acquire(spec_of(image="data"))
        await until(lambda: kind(pool, image="data").ready == 1)


async def test_a_ready_one_of_another_language_has_that_kernel_started() -> None:
    backend = GatedBackend()
    async with pool_of(backend, ready_low=1, ready_high=4) as pool:
        await pool.acquire(SPEC, "node")
        await until(lambda: kind(pool, "node").ready == 1)
        assert backend.rehearsed == ["node"]


async def test_a_ready_python_one_serves_a_language_of_which_none_is_ready() -> None:
    async with pool_of(GatedBackend(), ready_low=1, ready_high=4) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 1)
        assert await pool.acquire(SPEC, "bash") is not None
        assert (kind(pool).substituted, kind(pool, "bash").misses) == (1, 0)
        await until(lambda: kind(pool, "bash").ready == 1)  # the next one finds it started


async def test_a_language_that_is_not_there_is_opened_plain_and_not_tried_ahead_again_and_again() -> None:
    clock, backend = Clock(), GatedBackend(lacks_language="node")
    async with pool_of(backend, clock, ready_low=1, ready_high=4) as pool:
        assert await pool.acquire(SPEC, "node") is not None
        clock.now += 0.5
        await until(lambda: kind(pool, "node").failures == 1)
        for _ in range(3):
            pool.tend()
            await settled()
        assert kind(pool, "node").failures == 1
        assert await pool.acquire(SPEC, "node") is not None


async def test_many_at_once_raise_the_number_up_to_the_high_mark_and_time_lowers_it() -> None:
    clock, backend = Clock(), GatedBackend()
    async with pool_of(backend, clock, ready_low=2, ready_high=5, alive_max=100) as pool:
        pool.fill(SPEC)
        await asyncio.gather(*(pool.acquire(SPEC) for _ in range(20)))
        clock.now += 1
        await until(lambda: kind(pool).ready == 5)
        clock.now += 600
        pool.tend()
        await until(lambda: kind(pool).ready == 2)
        assert kind(pool).discarded == 3
        await until(lambda: backend.alive.total() == 22)


async def test_a_kind_that_nobody_asks_for_any_more_is_forgotten() -> None:
    clock, backend = Clock(), GatedBackend()
    async with pool_of(backend, clock, ready_low=2, ready_high=5) as pool:
        await gone(await pool.acquire(spec_of(image="data")))
        clock.now += 1
        await until(lambda: kind(pool, image="data").ready == 1)
        clock.now += 600
        pool.tend()
        await until(lambda: not backend.alive.total())
        await settled()
        pool.tend()
        assert pool.statistics().kinds == ()


async def test_a_pool_with_high_mark_0_keeps_none() -> None:
    backend = GatedBackend()
    async with pool_of(backend) as pool:
        pool.fill(SPEC)
        await gone(await pool.acquire(SPEC))
        pool.tend()
        await settled()
        assert len(backend.begun) == 1
        assert not backend.rehearsed


async def test_a_hash_seed_that_was_asked_for_is_opened_on_demand_and_kept_for_nobody() -> None:
    backend = GatedBackend()
    async with pool_of(backend) as pool:
        await gone(await pool.acquire(replace(SPEC, hash_seed=7)))
        await settled()
        pool.tend()
        await settled()
        assert len(backend.begun) == 1


async def test_ready_ones_are_given_up_least_recently_used_first_when_another_kind_needs_their_place() -> None:
    clock, backend = Clock(), GatedBackend()
    old, new, other = spec_of(image="old"), spec_of(image="new"), spec_of(image="other")
    async with pool_of(backend, clock, ready_low=1, ready_high=1, alive_max=3) as pool:
        for spec in (old, new):
            clock.now += 1
            pool.fill(spec)
            await until(lambda spec=spec: kind(pool, image=spec.image.name).ready == 1)
            await gone(await pool.acquire(spec))
            clock.now += 1
            await until(lambda spec=spec: kind(pool, image=spec.image.name).ready == 1)
        kept = [await pool.acquire(other), await pool.acquire(other)]
        assert (kind(pool, image="old").ready, kind(pool, image="new").ready) == (0, 1)
        assert backend.alive_most == 3
        assert not any(sandbox.has_ended for sandbox in kept)


async def test_a_ready_one_that_ended_by_itself_is_replaced_and_never_handed_out() -> None:
    backend = GatedBackend()
    async with pool_of(backend, ready_low=2, ready_high=2) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 2)
        for sandbox in backend.opened:
            sandbox.kill()
        await until(lambda: all(sandbox.has_ended for sandbox in backend.opened))  # the pool has not heard of it yet
        taken = await pool.acquire(SPEC)
        assert not taken.has_ended
        await until(lambda: kind(pool).ready == 2 and kind(pool).discarded == 2)
        assert kind(pool).in_use == 1


async def test_whoever_asks_hears_why_none_could_be_opened() -> None:
    backend = GatedBackend(failure=SandboxStartError(step="outer sandbox", reason="no"))
    async with pool_of(backend) as pool:
        with pytest.raises(SandboxStartError, match="'outer sandbox': no"):
            await pool.acquire(SPEC)
        assert (pool.statistics().alive, kind(pool).failures) == (0, 1)
        backend.failure = None
        assert await pool.acquire(SPEC) is not None


async def test_opening_ahead_that_fails_pauses_and_is_tried_again() -> None:
    clock, backend = Clock(), GatedBackend(failure=SandboxStartError(step="outer sandbox", reason="no"))
    async with pool_of(backend, clock, ready_low=1, ready_high=1) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).failures == 1)
        pool.tend()
        await settled()
        assert len(backend.begun) == 1
        clock.now += 1.1
        pool.tend()
        await until(lambda: kind(pool).failures == 2)
        backend.failure = None
        clock.now += 1.1
        pool.tend()
        await settled()
        assert len(backend.begun) == 2  # the second pause is longer
        clock.now += 1.1
        pool.tend()
        await until(lambda: kind(pool).ready == 1)


async def test_what_only_ready_ones_hold_is_let_go_when_the_backend_has_no_room() -> None:
    """A backend that keeps one zygote: it is free again when no sandbox of the first image is left."""
    backend = GatedBackend()
    inner = backend.open_sandbox

    async def one_image(spec):
        if any(not box.has_ended for box, seen in opened if seen.image != spec.image):
            raise BusyError("one zygote only", setting="zygotes_max", retry_after_s=5)
        box = await inner(spec)
        opened.append((box, spec))
        return box

    opened: list = []
    backend.open_sandbox = one_image
    async with pool_of(backend, ready_low=2, ready_high=2) as pool:
        pool.fill(SPEC)
        await until(lambda: kind(pool).ready == 2)
        taken = await pool.acquire(spec_of(image="data"))
        assert kind(pool).ready == 0
        assert not taken.has_ended
        with pytest.raises(BusyError, match="one zygote only"):  # now one is in use
            await pool.acquire(spec_of(image="third"))


async def test_closing_ends_ready_ones_refuses_who_waits_and_leaves_the_used_ones() -> None:
    backend = GatedBackend()
    async with pool_of(backend, ready_low=2, ready_high=2) as pool:
        pool.fill(SPEC)
        used = await pool.acquire(SPEC)
        await until(lambda: kind(pool).ready == 2)
        backend.open_gate = False
        waiting = [asyncio.ensure_future(pool.acquire(spec_of("b"))) for _ in range(9)]
        await until(lambda: backend.opening)
        with anyio.fail_after(30):
            await pool.close()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {PoolClosedError}
        assert not used.has_ended
        assert (backend.alive.total(), backend.opening) == (1, 0)
        with pytest.raises(PoolClosedError):
            await pool.acquire(SPEC)
        assert pool.acquire_nowait(SPEC) is None


async def test_closing_ends_what_comes_up_although_its_opening_was_cancelled() -> None:
    backend = GatedBackend()
    opened: list[asyncio.Event] = []

    async def slow_to_give_up(sandbox, scope) -> None:
        opened.append(asyncio.Event())
        with contextlib.suppress(asyncio.CancelledError):
            await opened[-1].wait()

    pool = SandboxPool(backend, PoolLimits(opening_max=4, ready_low=3, ready_high=3), on_opened=slow_to_give_up)
    pool.fill(SPEC)
    for number in range(2):
        await until(lambda: len(opened) == number + 1)  # noqa: B023
        opened[number].set()
    await until(lambda: len(opened) == 3 and kind(pool).ready == 2)
    with anyio.fail_after(20):
        await pool.close()
    assert backend.alive.total() == 0


async def test_statistics_tell_what_happened() -> None:
    clock, backend = Clock(), GatedBackend(open_gate=False)
    async with pool_of(backend, clock, ready_low=0, ready_high=0, alive_max=2) as pool:
        tasks = [asyncio.ensure_future(pool.acquire(SPEC)) for _ in range(3)]
        await settled()
        seen = pool.statistics()
        assert (seen.alive, seen.alive_max, seen.opening, seen.waiting) == (2, 2, 2, 3)
        clock.now += 2
        backend.let(2)
        await until(lambda: kind(pool).in_use == 2)
        clock.now += 4
        await (await tasks[0]).close()
        backend.let(1)
        await asyncio.gather(*tasks)
        seen = kind(pool)
        assert (seen.hits, seen.misses, seen.opened, seen.waiting) == (0, 3, 3, 0)
        assert (seen.waits.count, seen.waits.p50_ms, seen.waits.p95_ms) == (3, 2000, 6000)
