"""Group `cold`: the first execution where no zygote runs yet, beside starts of other kernels.

Each sample opens a new application, with its own zygotes; only its first execution is timed. Each sample of a peer
starts another kernel.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.peers.venvs import PeerMissingError
from bench.sampling import Case, take_turns, with_skipped
from bench.world import timed_run, without_pool

if TYPE_CHECKING:
    from bench.peers.agents import Agent
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World


async def measure(world: World, sizes: Sizes) -> Measured:
    missing: dict[str, str] = {}
    cases = [Case(name=f"cold.{name}", take=partial(_first, world, name), per_round=2) for name in world.environments]
    for name in ("ipybox", "jupyter"):
        try:
            cases.append(Case(name=f"{name}.cold", take=partial(_start, await world.peers.agent(name))))
        except PeerMissingError as error:
            missing[f"{name}.cold"] = str(error)
    return with_skipped(await take_turns("cold", cases, rounds=sizes.start_rounds, warm_ups=0), missing)


async def _start(agent: Agent, _count: int) -> list[float]:
    return await agent.times_ms("cold")


async def _first(world: World, environment: str, count: int) -> list[float]:
    samples: list[float] = []
    for _ in range(count):
        async with world.app(environment) as app:
            await app.tool_registry.snapshot()  # tools belong to no tenant; here there are none
            runtime = without_pool(app)
            samples.append(await timed_run(runtime, app))
            await runtime.close()
    return samples
