"""Group `executions`: fresh with and without pool, next in a session, beside bubblewrap, Python and two kernels."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.peers.programs import importing_python, open_spawner, plain_python, seccomp_fd, walled_python
from bench.peers.venvs import PeerMissingError
from bench.sampling import Case, take_turns, with_skipped
from bench.world import ONE_PLUS_ONE, PACE_S, fill_pool, timed_execute, timed_run, without_pool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.peers.agents import Agent
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant
    from moonpool.sandboxes.base import ImageSpec


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(world.app(name)) for name in world.environments}
        cases = [case for name, app in apps.items() for case in await _cases(app, name, stack, sizes)]
        images = {name: app.runtime.sandbox_spec.image for name, app in apps.items()}
        cases += await _compared(images, world, stack, sizes)
        peers, missing = await _kernels(world, sizes)
        return with_skipped(
            await take_turns("executions", [*cases, *peers], rounds=sizes.rounds, warm_ups=sizes.warm_ups), missing
        )


async def _cases(app: Tenant, name: str, stack: AsyncExitStack, sizes: Sizes) -> list[Case]:
    unpooled = without_pool(app)
    session = unpooled.session(app.caller_grant)
    stack.push_async_callback(unpooled.close)

    async def pooled(count: int) -> list[float]:
        await fill_pool(app)
        samples: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            samples.append(await timed_run(app.runtime, app))
            await asyncio.sleep(max(0.0, PACE_S - (time.perf_counter() - began)))
        return samples

    async def fresh(count: int) -> list[float]:
        await fill_pool(app)  # or it would be filled at the same time
        samples: list[float] = []
        for _ in range(count):
            samples.append(await timed_run(unpooled, app))
            await asyncio.sleep(PACE_S / 2)  # the last one's end is not this one's time
        return samples

    async def live(count: int) -> list[float]:
        await fill_pool(app)
        return [await timed_execute(session, ONE_PLUS_ONE, 2) for _ in range(count)]

    return [
        Case(name=f"fresh.pooled.{name}", take=pooled, per_round=sizes.paced),
        Case(name=f"fresh.unpooled.{name}", take=fresh, per_round=sizes.fresh),
        Case(name=f"session.{name}", take=live, per_round=sizes.session),
    ]


async def _compared(images: dict[str, ImageSpec], world: World, stack: AsyncExitStack, sizes: Sizes) -> list[Case]:
    base = next(iter(images.values()))
    filter_fd = seccomp_fd()
    scratch = world.folder / "scratch"
    scratch.mkdir(mode=0o777)
    scratch.chmod(0o777)  # another uid writes its caches here
    spawner = await stack.enter_async_context(open_spawner(base.python, base.variables, fds=[filter_fd]))
    walled, plain = walled_python(base, filter_fd), plain_python(base)
    cases = [
        Case(name="bwrap.python", take=lambda count: spawner.times_ms(walled, count), per_round=sizes.compared),
        Case(name="python.plain", take=lambda count: spawner.times_ms(plain, count), per_round=sizes.compared),
    ]
    if "data" in images:
        imports = importing_python(images["data"], scratch)
        cases.append(Case(name="python.imports", take=lambda count: spawner.times_ms(imports, count)))
    return cases


async def _kernels(world: World, sizes: Sizes) -> tuple[list[Case], dict[str, str]]:
    """Warm kernels of others, which keep one process and no wall between executions."""
    cases: list[Case] = []
    missing: dict[str, str] = {}
    for name in ("ipybox", "jupyter"):
        try:
            agent = await world.peers.agent(name)
        except PeerMissingError as error:
            missing[f"{name}.execute"] = str(error)
            continue
        cases.append(Case(name=f"{name}.execute", take=_executing(agent), per_round=sizes.peers))
    return cases, missing


def _executing(agent: Agent) -> Callable[[int], Awaitable[list[float]]]:
    return lambda count: agent.times_ms("execute", count=count)
