"""Group `cold`: the first execution of a tenant whose zygote does not run yet. Each sample starts a new backend."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.sampling import Case, take_turns
from bench.world import timed_run
from moonpool.bootstrap import BACKENDS
from moonpool.sandboxes.pool import SandboxPool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import App


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(world.app(name)) for name in world.environments}
        cases = [Case(name=f"cold.{name}", take=_first(app, world)) for name, app in apps.items()]
        return await take_turns("cold", cases, rounds=sizes.slow_rounds)


def _first(app: App, world: World) -> Callable[[int], Awaitable[list[float]]]:
    async def take(count: int) -> list[float]:
        return [await _one(app, world) for _ in range(count)]

    return take


async def _one(app: App, world: World) -> float:
    folder = _new_folder(world.folder)
    backend = BACKENDS[app.settings.backend](folder)
    try:
        pool = SandboxPool(backend, ready_count=0, alive_count_max=1)
        runtime = replace(app.runtime, pool=pool)
        elapsed = await timed_run(runtime, app)
        await runtime.close()
    finally:
        await backend.close()
    return elapsed


def _new_folder(parent: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=parent))
    folder.chmod(0o755)  # sandbox uids pass through
    return folder
