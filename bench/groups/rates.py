"""Group `rate`: fresh executions back to back, by how many are in flight, beside as many bubblewraps.

The clock stops at the last answer. At most twice as many sandboxes as executions in flight may be alive, so every
execution waits for the end of an earlier one and the work of ending them is inside the time. How long each caller
waited for its answer is a row of its own.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.peers.programs import open_spawner, seccomp_fd, walled_python
from bench.sampling import Case, take_turns, with_rows
from bench.world import timed_run, without_pool

if TYPE_CHECKING:
    from bench.peers.programs import Program, Spawner
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant

_ROUNDS_MAX = 5  # each takes about ten seconds
_SETTLE_S = 0.2  # the last sandboxes of a burst have ended by then, and cost the next case nothing


async def measure(world: World, sizes: Sizes) -> Measured:
    waits: dict[str, list[list[float]]] = {}
    async with AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(world.app(name)) for name in world.environments}
        image = next(iter(apps.values())).runtime.sandbox_spec.image
        filter_fd = seccomp_fd()
        spawner = await stack.enter_async_context(open_spawner(image.python, image.variables, fds=[filter_fd]))
        program = walled_python(image, filter_fd)
        cases = [_case(app, name, count, sizes, waits) for name, app in apps.items() for count in sizes.concurrency]
        cases += [_walls(spawner, program, count, sizes) for count in sizes.concurrency]
        rounds = min(sizes.slow_rounds, _ROUNDS_MAX)
        measured = await take_turns("rate", cases, rounds=rounds, warm_ups=sizes.warm_ups)
    return with_rows(measured, {name: heard[sizes.warm_ups :] for name, heard in waits.items()})


def _walls(spawner: Spawner, program: Program, in_flight: int, sizes: Sizes) -> Case:
    async def burst(count: int) -> list[float]:
        return [count / (await spawner.run(program, count, in_flight=in_flight))["total"]]

    return Case(name=f"rate.bwrap.{in_flight}", take=burst, per_round=_burst(in_flight, sizes))


def _case(app: Tenant, name: str, in_flight: int, sizes: Sizes, waits: dict[str, list[list[float]]]) -> Case:
    runtime = without_pool(app, alive_max=2 * in_flight)
    heard = waits.setdefault(f"answer.{name}.{in_flight}", [])

    async def burst(count: int) -> list[float]:
        left = iter(range(count))
        samples: list[float] = []

        async def worker() -> None:
            for _ in left:
                samples.append(await timed_run(runtime, app))  # noqa: PERF401  workers share the list

        started = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(in_flight)))
        seconds = time.perf_counter() - started
        assert len(samples) == count
        heard.append(samples)
        await asyncio.sleep(_SETTLE_S)
        return [count / seconds]

    return Case(name=f"rate.{name}.{in_flight}", take=burst, per_round=_burst(in_flight, sizes))


def _burst(in_flight: int, sizes: Sizes) -> int:
    """Enough that everybody in flight has at least two turns."""
    return max(sizes.burst, 2 * in_flight)
