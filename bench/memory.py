"""Group `memory`: private bytes of a session's kernel between executions, as the Linux kernel counts them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench.sampling import Case, take_turns
from bench.world import ONE_PLUS_ONE, timed_execute
from moonpool.sandboxes.pool import SandboxPool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import App
    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec


@dataclass(slots=True)
class _WatchedBackend:
    """A backend that remembers what it opened."""

    backend: SandboxBackend
    opened: list[Sandbox] = field(default_factory=list["Sandbox"])

    async def open_sandbox(self, spec: SandboxSpec) -> Sandbox:
        self.opened.append(await self.backend.open_sandbox(spec))
        return self.opened[-1]


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(world.app(name)) for name in world.environments}
        cases = [Case(name=f"memory.{name}", take=_idle(app), per_round=sizes.idle) for name, app in apps.items()]
        return await take_turns("memory", cases, rounds=min(2, sizes.rounds), warm_ups=0)


def _idle(app: App) -> Callable[[int], Awaitable[list[float]]]:
    async def take(count: int) -> list[float]:
        backend = _WatchedBackend(app.backend)
        pool = SandboxPool(cast("SandboxBackend", backend), ready_count=0, alive_count_max=count)
        runtime = replace(app.runtime, pool=pool)
        sessions = [runtime.session(app.ticket) for _ in range(count)]
        try:
            for session in sessions:
                for _ in range(3):
                    await timed_execute(session, ONE_PLUS_ONE, 2)
            pids = [getattr(sandbox, "host_pid", None) for sandbox in backend.opened]
            assert len(pids) == count
            return [private_megabytes(pid) for pid in pids if pid is not None]
        finally:
            await runtime.close()

    return take


def private_megabytes(pid: int) -> float:
    """Pages that no other process has, in 10^6 bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    kilobytes = [int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")]
    return sum(kilobytes[:2]) * 1024 / 1e6
