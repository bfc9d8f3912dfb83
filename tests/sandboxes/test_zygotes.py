"""Which zygote serves, and how long it lives. Zygotes here are fakes that fork when the test lets them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.pool_refusals import BusyError
from moonpool.sandboxes.zygote_family import ZygotePolicy
from moonpool.sandboxes.zygotes import Zygotes
from sandboxes.pools import Clock, settled, spec_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

pytestmark = pytest.mark.anyio
SPEC = spec_of()


class Forked:
    """A sandbox of a fake zygote."""

    def __init__(self, zygote: FakeZygote) -> None:
        self.zygote = zygote

    def end(self) -> None:
        self.zygote.sandbox_count -= 1
        self.zygote.tell()


class FakeZygote:
    """What `Zygotes` needs of a zygote."""

    def __init__(self, hash_seed: int = 1) -> None:
        self.hash_seed = hash_seed
        self.alive, self.closed, self.killed = True, False, False
        self.sandbox_count = 0
        self.on_free: Callable[[], None] | None = None
        self.gate = asyncio.Semaphore(1000)
        self.failure: Exception | None = None

    async def spawn(self, _spec: object) -> Forked:
        await self.gate.acquire()
        if self.failure is not None:
            raise self.failure
        if not self.alive:
            raise SandboxStartError(step="zygote", reason="the zygote has ended")
        self.sandbox_count += 1
        return Forked(self)

    def tell(self) -> None:
        if self.on_free is not None:
            self.on_free()

    def die(self) -> None:
        self.alive = False
        for _ in range(100):
            self.gate.release()
        self.tell()

    def kill(self) -> None:
        self.killed = True

    async def close(self) -> None:
        self.closed, self.alive = True, False


class Nursery:
    """Starts fake zygotes; the test may hold starts back or let them fail."""

    def __init__(self) -> None:
        self.started: list[FakeZygote] = []
        self.attempts = 0
        self.failure: SandboxStartError | None = None
        self.ready = asyncio.Event()
        self.ready.set()

    async def start(self, _scope: str, _image: object, hash_seed: int | None) -> Any:
        self.attempts += 1
        await self.ready.wait()
        if self.failure is not None:
            raise self.failure
        self.started.append(FakeZygote(hash_seed or len(self.started) + 1))
        return self.started[-1]

    @property
    def living(self) -> list[FakeZygote]:
        return [zygote for zygote in self.started if not zygote.closed]


@asynccontextmanager
async def zygotes_of(nursery: Nursery, clock: Clock | None = None, **policy: Any) -> AsyncGenerator[Zygotes]:
    zygotes = Zygotes(nursery.start, ZygotePolicy(**policy), clock=clock or Clock())
    yield zygotes
    with anyio.fail_after(30):
        await zygotes.close()
    assert nursery.living == []


async def test_a_hash_seed_that_is_asked_for_gets_a_zygote_which_ends_with_its_last_sandbox() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery) as zygotes:
        sandboxes = [await zygotes.open_sandbox(replace(SPEC, hash_seed=7)) for _ in range(2)]
        assert [zygote.hash_seed for zygote in nursery.living] == [7]
        for sandbox in sandboxes:
            sandbox.end()  # pyright: ignore[reportAttributeAccessIssue]
        await settled()
        assert nursery.living == []


async def test_a_hash_seed_that_a_zygote_has_by_chance_needs_no_other() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery) as zygotes:
        await zygotes.open_sandbox(SPEC)
        await zygotes.open_sandbox(replace(SPEC, hash_seed=nursery.started[0].hash_seed))
        assert len(nursery.started) == 1


async def test_one_zygote_serves_a_scope_and_image_and_callers_share_its_start() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery) as zygotes:
        nursery.ready.clear()
        tasks = [asyncio.ensure_future(zygotes.open_sandbox(SPEC)) for _ in range(5)]
        await settled()
        nursery.ready.set()
        assert {box.zygote for box in await asyncio.gather(*tasks)} == {nursery.started[0]}
        assert nursery.attempts == 1


async def test_other_scopes_and_images_have_zygotes_of_their_own() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery) as zygotes:
        specs = [SPEC, spec_of("b"), spec_of(image="data"), SPEC]
        boxes = [await zygotes.open_sandbox(spec) for spec in specs]
        assert len({box.zygote for box in boxes}) == 3


# --- replacement


async def test_after_so_many_forks_a_successor_preloads_while_the_old_one_serves() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, forks_max=3) as zygotes:
        boxes = [await zygotes.open_sandbox(SPEC) for _ in range(3)]
        nursery.ready.clear()
        boxes += [await zygotes.open_sandbox(SPEC) for _ in range(2)]
        await settled()
        assert ({box.zygote for box in boxes}, nursery.attempts) == ({nursery.started[0]}, 2)
        nursery.ready.set()
        await until(lambda: zygotes.statistics().replaced)
        assert (await zygotes.open_sandbox(SPEC)).zygote is nursery.started[1]


async def test_a_retired_zygote_ends_with_its_last_sandbox_and_not_before() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, forks_max=1) as zygotes:
        first, second = await zygotes.open_sandbox(SPEC), await zygotes.open_sandbox(SPEC)
        await until(lambda: zygotes.statistics().replaced)
        old = nursery.started[0]
        first.end()
        await settled()
        assert not old.closed
        assert [one.retired for one in zygotes.statistics().live] == [False, True]
        second.end()
        await until(lambda: old.closed)


async def test_a_zygote_is_replaced_after_so_long_when_it_is_used_again() -> None:
    nursery, clock = Nursery(), Clock()
    async with zygotes_of(nursery, clock, age_s_max=600) as zygotes:
        await zygotes.open_sandbox(SPEC)
        clock.now += 599
        await zygotes.open_sandbox(SPEC)
        await settled()
        assert nursery.attempts == 1
        clock.now += 1
        assert (await zygotes.open_sandbox(SPEC)).zygote is nursery.started[0]
        await until(lambda: zygotes.statistics().replaced)
        assert (await zygotes.open_sandbox(SPEC)).zygote is nursery.started[1]


async def test_when_no_successor_comes_up_the_old_one_goes_on_and_it_is_tried_again_later() -> None:
    nursery, clock = Nursery(), Clock()
    async with zygotes_of(nursery, clock, forks_max=1) as zygotes:
        await zygotes.open_sandbox(SPEC)
        nursery.failure = SandboxStartError(step="outer sandbox", reason="no memory")
        for _ in range(10):
            assert (await zygotes.open_sandbox(SPEC)).zygote is nursery.started[0]
            await settled()
        assert nursery.attempts == 3  # at once, once more, then a pause
        nursery.failure = None
        clock.now += 60
        await zygotes.open_sandbox(SPEC)
        await until(lambda: zygotes.statistics().replaced == 1)


# --- more than one


async def test_a_second_one_starts_when_forks_wait_for_each_other_and_takes_its_part() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, per_image_max=2) as zygotes:
        box = await zygotes.open_sandbox(SPEC)
        box.zygote.gate = asyncio.Semaphore(0)
        tasks = [asyncio.ensure_future(zygotes.open_sandbox(SPEC)) for _ in range(8)]
        await until(lambda: len(nursery.started) == 2)
        assert (await zygotes.open_sandbox(SPEC)).zygote is nursery.started[1]
        for _ in tasks:
            box.zygote.gate.release()
        await asyncio.gather(*tasks)


async def test_callers_one_after_the_other_need_no_second_one() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, per_image_max=2) as zygotes:
        for _ in range(20):
            (await zygotes.open_sandbox(SPEC)).end()
        assert len(nursery.started) == 1


async def test_two_that_meet_now_and_then_need_no_second_one() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, per_image_max=2) as zygotes:
        for _ in range(10):
            await asyncio.gather(zygotes.open_sandbox(SPEC), zygotes.open_sandbox(SPEC))
        assert len(nursery.started) == 1


async def test_there_are_no_more_than_the_limit_for_one_image() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, per_image_max=1) as zygotes:
        box = await zygotes.open_sandbox(SPEC)
        box.zygote.gate = asyncio.Semaphore(0)
        tasks = [asyncio.ensure_future(zygotes.open_sandbox(SPEC)) for _ in range(9)]
        await settled()
        assert nursery.attempts == 1
        box.zygote.die()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- idle ones, and the limit


async def test_an_idle_zygote_ends_after_a_while_and_a_used_one_does_not() -> None:
    nursery, clock = Nursery(), Clock()
    async with zygotes_of(nursery, clock, idle_s_max=300) as zygotes:
        await zygotes.open_sandbox(SPEC)
        (await zygotes.open_sandbox(spec_of("b"))).end()
        clock.now += 299
        zygotes.tend()
        await settled()
        assert len(nursery.living) == 2
        clock.now += 1
        zygotes.tend()
        await until(lambda: nursery.living == nursery.started[:1])
        assert zygotes.statistics().evicted == 1


async def test_where_the_limit_is_reached_the_idle_one_used_longest_ago_makes_way() -> None:
    nursery, clock = Nursery(), Clock()
    async with zygotes_of(nursery, clock, count_max=3) as zygotes:
        await zygotes.open_sandbox(spec_of("busy"))
        for scope in ("old", "new"):
            clock.now += 1
            (await zygotes.open_sandbox(spec_of(scope))).end()
        await zygotes.open_sandbox(spec_of("another"))
        assert [one.scope for one in zygotes.statistics().live] == ["busy", "new", "another"]


async def test_where_none_is_idle_the_caller_is_told_which_limit_it_is() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, count_max=1) as zygotes:
        box = await zygotes.open_sandbox(SPEC)
        with pytest.raises(BusyError, match="all 1 zygotes serve") as raised:
            await zygotes.open_sandbox(spec_of("b"))
        assert raised.value.setting == "zygotes_max"
        box.end()
        await zygotes.open_sandbox(spec_of("b"))


# --- failures


async def test_a_start_that_fails_is_told_to_all_who_wait_and_pauses_when_it_fails_again() -> None:
    nursery, clock = Nursery(), Clock()
    nursery.failure = SandboxStartError(step="outer sandbox", reason="no launcher")
    async with zygotes_of(nursery, clock) as zygotes:
        ends = await asyncio.gather(*(zygotes.open_sandbox(SPEC) for _ in range(4)), return_exceptions=True)
        assert (len({id(end) for end in ends}), nursery.attempts) == (4, 1)
        for _ in range(5):
            with pytest.raises(SandboxStartError, match="no launcher"):
                await zygotes.open_sandbox(SPEC)
        assert nursery.attempts == 2
        with pytest.raises(SandboxStartError, match=r"failed 2 times in a row and is tried again in 0\.2 s"):
            await zygotes.open_sandbox(SPEC)
        nursery.failure = None
        clock.now += 0.25
        await zygotes.open_sandbox(SPEC)
        assert zygotes.statistics().failures == 2


async def test_the_pause_grows_to_half_a_minute_and_no_further() -> None:
    nursery, clock = Nursery(), Clock()
    nursery.failure = SandboxStartError(step="outer sandbox", reason="no launcher")
    async with zygotes_of(nursery, clock) as zygotes:
        for attempt in range(1, 30):
            with pytest.raises(SandboxStartError):
                await zygotes.open_sandbox(SPEC)
            assert nursery.attempts == attempt
            clock.now += 30


async def test_when_a_zygote_dies_forks_under_way_fail_and_the_next_caller_gets_another() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery) as zygotes:
        box = await zygotes.open_sandbox(SPEC)
        box.zygote.gate = asyncio.Semaphore(0)
        tasks = [asyncio.ensure_future(zygotes.open_sandbox(SPEC)) for _ in range(2)]
        await settled()
        box.zygote.die()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} == {SandboxStartError}
        assert (await zygotes.open_sandbox(SPEC)).zygote is not box.zygote
        assert (zygotes.statistics().died, box.zygote.killed) == (1, True)
        assert not box.zygote.closed  # its sandbox has not said yet how it ended
        box.end()
        await until(lambda: box.zygote.closed)


async def test_one_that_dies_before_it_forked_anything_counts_as_a_start_that_failed() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery) as zygotes:
        for _ in range(2):
            (await zygotes.serving(SPEC.scope, SPEC.image)).die()
        with pytest.raises(SandboxStartError, match="ended before it forked a sandbox"):
            await zygotes.open_sandbox(SPEC)


async def test_a_caller_who_leaves_does_not_stop_the_start_for_the_others() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery) as zygotes:
        nursery.ready.clear()
        first, second = (asyncio.ensure_future(zygotes.open_sandbox(SPEC)) for _ in range(2))
        await settled()
        first.cancel()
        await settled()
        nursery.ready.set()
        assert (await second).zygote is nursery.started[0]


async def test_closing_ends_zygotes_that_serve_retire_or_start() -> None:
    nursery = Nursery()
    async with zygotes_of(nursery, forks_max=1) as zygotes:
        for _ in range(2):
            await zygotes.open_sandbox(SPEC)
        await until(lambda: zygotes.statistics().replaced)
        nursery.ready.clear()
        starting = asyncio.ensure_future(zygotes.open_sandbox(spec_of("b")))
        await settled()
        with anyio.fail_after(30):
            await zygotes.close()
            with pytest.raises(SandboxStartError, match="the backend is closed"):
                await starting
        await settled()
        assert nursery.living == []


async def test_scopes_that_are_gone_leave_nothing_to_remember() -> None:
    nursery, clock = Nursery(), Clock()
    async with zygotes_of(nursery, clock, count_max=2) as zygotes:
        for number in range(50):
            clock.now += 1
            (await zygotes.open_sandbox(spec_of(f"tenant-{number}"))).end()
        assert len(zygotes._families) == 2
