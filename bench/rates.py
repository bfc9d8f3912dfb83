"""Group `rate`: fresh executions back to back, two in flight, beside as many bubblewraps.

The clock stops at the last answer. Every execution waits for the end of an earlier one, as at most four sandboxes may
be alive, so the work of ending them is inside the time.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.programs import open_spawner, seccomp_fd, walled_python
from bench.sampling import Case, take_turns
from bench.world import timed_run
from moonpool.sandboxes.pool import SandboxPool

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import App

_IN_FLIGHT = 2
_ALIVE_MAX = 4


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(world.app(name)) for name in world.environments}
        cases = [_case(app, name, sizes) for name, app in apps.items()]
        image = next(iter(apps.values())).runtime.sandbox_spec.image
        filter_fd = seccomp_fd()
        spawner = await stack.enter_async_context(open_spawner(image.python, image.variables, fds=[filter_fd]))
        program = walled_python(image, filter_fd)

        async def walls(count: int) -> list[float]:
            return [count / (await spawner.run(program, count, in_flight=_IN_FLIGHT))["total"]]

        cases.append(Case(name="rate.bwrap", take=walls, per_round=sizes.burst))
        return await take_turns("rate", cases, rounds=sizes.slow_rounds)


def _case(app: App, name: str, sizes: Sizes) -> Case:
    pool = SandboxPool(app.backend, ready_count=0, alive_count_max=_ALIVE_MAX)
    runtime = replace(app.runtime, pool=pool)

    async def burst(count: int) -> list[float]:
        left = iter(range(count))

        async def worker() -> int:
            done = 0
            for _ in left:
                await timed_run(runtime, app)
                done += 1
            return done

        started = time.perf_counter()
        done = await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))
        seconds = time.perf_counter() - started
        assert sum(done) == count
        return [count / seconds]

    return Case(name=f"rate.{name}", take=burst, per_round=sizes.burst)
