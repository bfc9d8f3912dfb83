"""Group `live`: what it costs to open a session, to run in one, and to hold them all, with 1, 10, 100, 1,000 alive.

The sessions are opened one after the other and kept; at each count some more are opened and closed, and some of those
alive are used again. Where this machine allows fewer, the count reached is measured in place of the one wanted and the
note says what stopped it.
"""

from __future__ import annotations

import random
import resource
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.processes import resident_megabytes
from bench.sampling import Watch
from bench.world import ONE_PLUS_ONE, pool_of, timed_execute
from moonpool.core.errors import MoonpoolError

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.sessions import Session

_SPARE = 8
_BYTES_PER_SESSION = 8 * 10**6  # twice what one is budgeted to use: the machine must not begin to swap
_DESCRIPTORS_PER_SESSION = 8


async def measure(world: World, sizes: Sizes) -> Measured:
    watch = Watch("live")
    rounds: dict[str, list[list[float]]] = {}
    notes: dict[str, str] = {}
    most, why = _machine_limit(max(sizes.live))
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(world.app("base"))
        runtime = replace(app.runtime, pool=pool_of(app.engine.backend, alive_max=most + _SPARE))
        stack.push_async_callback(runtime.close)
        sessions: list[Session] = []
        for wanted in sizes.live:
            stopped = await _open_until(min(wanted, most), sessions, runtime, app)
            if len(sessions) < wanted:
                notes[f"live.open.{wanted}"] = f"with {len(sessions)} sessions, not {wanted:,}: {stopped or why}"
            rounds[f"live.open.{wanted}"] = [await _opening(runtime, app, sizes.live_samples)]
            rounds[f"live.next.{wanted}"] = [await _using(sessions, sizes.live_samples)]
            rounds[f"live.host.{wanted}"] = [[resident_megabytes()]]
            if len(sessions) < wanted:
                break
    return watch.measured(rounds, notes=notes)


def _machine_limit(wanted: int) -> tuple[int, str]:
    """How many sessions this machine can hold, as far as can be told beforehand, and what limits them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    by_files = (hard if hard != resource.RLIM_INFINITY else 2**20) // _DESCRIPTORS_PER_SESSION
    by_memory = _available_bytes() // _BYTES_PER_SESSION
    least = min(wanted, by_files, by_memory)
    why = "the limit of open files" if by_files <= by_memory else "the memory that is free"
    return max(1, least), f"{why} allows no more"


def _available_bytes() -> int:
    with open("/proc/meminfo", encoding="utf-8") as lines:  # noqa: PTH123
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


async def _open_until(count: int, sessions: list[Session], runtime: Runtime, app: Tenant) -> str:
    """Open sessions until `count` are alive; returns what stopped it, if anything."""
    while len(sessions) < count:
        session = runtime.session(app.caller_grant)
        try:
            envelope = await session.execute(ONE_PLUS_ONE)
        except MoonpoolError as error:
            return str(error)
        if envelope.error is not None:
            return envelope.error.message
        assert envelope.data == 2
        sessions.append(session)
    return ""


async def _opening(runtime: Runtime, app: Tenant, count: int) -> list[float]:
    """From no session to its first answer."""
    samples: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        session = runtime.session(app.caller_grant)
        await timed_execute(session, ONE_PLUS_ONE, 2)
        samples.append(1000 * (time.perf_counter() - started))
        await session.close()
    return samples


async def _using(sessions: list[Session], count: int) -> list[float]:
    """The next execution in sessions that rested since they were opened."""
    chosen = random.choices(sessions, k=count)  # noqa: S311
    return [await timed_execute(session, ONE_PLUS_ONE, 2) for session in chosen]
