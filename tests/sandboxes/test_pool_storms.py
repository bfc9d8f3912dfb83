"""Storms on real backends: everybody is served or told, whoever dies meanwhile, and nothing is left."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.base import SandboxClosedError, SandboxSpec
from moonpool.sandboxes.pool import SandboxPool
from moonpool.sandboxes.pool_limits import PoolLimits
from moonpool.sandboxes.zygote import ZygoteBackend
from process_tree import descendants
from sandboxes.probe import Probe, open_fds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.sandboxes.base import ImageSpec, Sandbox, SandboxBackend

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Watched:
    """A backend that counts how many are being opened at the same time, and keeps the order of their tenants."""

    def __init__(self, backend: SandboxBackend) -> None:
        self.backend = backend
        self.name = backend.name
        self.opening = self.opening_most = 0
        self.order: list[str] = []

    def missing_features(self) -> Any:
        return self.backend.missing_features()

    async def open_sandbox(self, spec: SandboxSpec) -> Sandbox:
        self.opening += 1
        self.opening_most = max(self.opening_most, self.opening)
        self.order.append(spec.scope)
        try:
            return await self.backend.open_sandbox(spec)
        finally:
            self.opening -= 1

    async def close(self) -> None:
        await self.backend.close()


@asynccontextmanager
async def pool_on(backend: Any, **limits: Any) -> AsyncGenerator[SandboxPool]:
    pool = SandboxPool(backend, PoolLimits(**{"opening_max": 4, **limits}))
    try:
        yield pool
    finally:
        with anyio.fail_after(30):
            await pool.close()


async def served(pool: SandboxPool, spec: SandboxSpec, number: int) -> int:
    """What a caller does: acquire, run, discard. Returns what the code handed over."""
    sandbox = await pool.acquire(spec)
    try:
        return (await Probe(sandbox).run(f"result = {number}")).result  # pyright: ignore[reportReturnType]
    finally:
        await sandbox.close()


async def test_200_callers_at_once_all_get_their_own_answer(real_backend: Any, image: ImageSpec) -> None:
    """None is lost, none is swapped, and only a few sandboxes open at the same time."""
    backend, spec = Watched(real_backend), SandboxSpec(image=image)
    count = 200 if isinstance(real_backend, ZygoteBackend) else 40  # an outer sandbox each takes longer
    async with pool_on(backend, alive_max=16, ready_low=2, ready_high=8, wait_s_max=600.0) as pool:
        pool.fill(spec)
        with anyio.fail_after(110):
            answers = await asyncio.gather(*(served(pool, spec, number) for number in range(count)))
        assert answers == list(range(count))
        assert backend.opening_most <= 4
        assert pool.statistics().waiting == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one uid, which serves one tenant")
async def test_a_storm_of_one_tenant_does_not_keep_another_waiting(image: ImageSpec, state_dir: Path) -> None:
    """Two callers of a small tenant come after eighty of a large one; what counts is the order of service."""
    backend = Watched(ZygoteBackend(state_dir))
    large, small = SandboxSpec(image=image, scope="large"), SandboxSpec(image=image, scope="small")
    async with pool_on(backend, alive_max=4, ready_low=0, ready_high=0, wait_s_max=600.0, opening_max=2) as pool:
        with anyio.fail_after(100):
            await served(pool, small, 1)  # its zygote is up: this is about turns, not about preloading
            storm = [asyncio.ensure_future(served(pool, large, 1)) for _ in range(80)]
            await asyncio.wait(storm, return_when=asyncio.FIRST_COMPLETED)
            before = len(backend.order)
            await asyncio.gather(*(served(pool, small, 1) for _ in range(2)))
            await asyncio.gather(*storm)
            since = backend.order[before:]
            first, second = (turn for turn, scope in enumerate(since) if scope == "small")
            assert first <= 4
            assert second <= 8
    await backend.close()


async def test_callers_survive_the_death_of_a_zygote_in_the_middle_of_a_storm(
    image: ImageSpec, state_dir: Path
) -> None:
    """Whoever is hit hears it as an error that may be tried again; nobody hangs; the others never notice."""
    backend, spec = ZygoteBackend(state_dir), SandboxSpec(image=image)
    outcomes: Counter[str] = Counter()

    async def caller(number: int) -> None:
        try:
            sandbox = await pool.acquire(spec)
            probe = Probe(sandbox)
            probe.start(f"result = {number}")
            run = await probe.until(lambda run: run.done or run.exit)
            await sandbox.close()
            outcomes["lost" if run.exit else "served"] += 1
        except SandboxClosedError:  # gone before it was told anything
            outcomes["lost"] += 1
        except MoonpoolError as error:
            outcomes["told" if error.retryable else error.code] += 1

    async with pool_on(backend, alive_max=16, ready_low=2, ready_high=4, wait_s_max=600.0) as pool:
        pool.fill(spec)
        with anyio.fail_after(100):
            tasks = [asyncio.ensure_future(caller(number)) for number in range(80)]
            for served_before in (10, 30):
                while outcomes["served"] < served_before:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
                (await backend.zygote(spec.scope, image)).kill()
            await asyncio.gather(*tasks)
            assert outcomes.total() == 80
            assert set(outcomes) <= {"served", "lost", "told"}
            assert backend.zygote_totals().died >= 2
            assert await served(pool, spec, 7) == 7
    await backend.close()


async def test_closing_in_the_middle_of_everything_tells_everybody_and_leaves_nothing(
    image: ImageSpec, state_dir: Path
) -> None:
    backend, spec = ZygoteBackend(state_dir), SandboxSpec(image=image)
    await (await backend.open_sandbox(spec)).close()
    outcomes: Counter[str] = Counter()

    async def caller(number: int) -> None:
        try:
            outcomes[str(await served(pool, spec, number) == number)] += 1
        except MoonpoolError as error:
            outcomes[error.code] += 1
        except AssertionError:  # the probe's: its sandbox ended under it
            outcomes["ended"] += 1

    pool = SandboxPool(backend, PoolLimits(alive_max=12, opening_max=4))
    pool.fill(spec)
    tasks = [asyncio.ensure_future(caller(number)) for number in range(60)]
    with anyio.fail_after(60):
        while not outcomes["True"]:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        await pool.close()
        await backend.close()
        await asyncio.gather(*tasks)
    assert outcomes.total() == 60
    assert outcomes["pool_closed"] > 0
    assert set(outcomes) <= {"True", "pool_closed", "sandbox_start_failed", "sandbox_closed", "ended"}
    assert list(state_dir.iterdir()) == []


async def test_a_pool_that_was_used_and_closed_leaves_no_process_and_no_descriptor(
    image: ImageSpec, state_dir: Path
) -> None:
    processes, fds = descendants(), open_fds()
    backend, spec = ZygoteBackend(state_dir), SandboxSpec(image=image)
    async with pool_on(backend, ready_low=2, ready_high=4) as pool:
        pool.fill(spec)
        with anyio.fail_after(60):
            await asyncio.gather(*(served(pool, spec, number) for number in range(12)))
    await backend.close()
    with anyio.fail_after(20):
        while not (descendants() <= processes and open_fds() <= fds):  # noqa: ASYNC110
            await anyio.sleep(0.02)
