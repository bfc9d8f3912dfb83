"""Group `endings`: from the order to kill a sandbox to the certainty that nothing of it runs any more.

One process that computes, and sixty: with control groups where this machine has them, and with rlimits alone.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.sampling import Case, take_turns
from moonpool.sandboxes.messages import Execute

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant

_MODES = {"auto": "groups", "rlimits": "rlimits"}
_COUNTS = (1, 60)
_STARTED_S = 30.0
_COMPUTING = """
import os
for _ in range({children}):
    if not os.fork(): break
print(".", end="", flush=True)
while True: pass
"""


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        cases: list[Case] = []
        for limits, name in _MODES.items():
            app = await stack.enter_async_context(world.app("base", limits=limits))
            if name == "groups" and str(app.engine.backend.limits_mode) == "rlimits-only":
                continue  # the other mode's rows say it all
            cases += [
                Case(name=f"kill.{name}.{count}", take=partial(_kill, app, count), per_round=max(1, sizes.fresh // 5))
                for count in _COUNTS
            ]
        return await take_turns("endings", cases, rounds=sizes.rounds, warm_ups=sizes.warm_ups)


async def _kill(app: Tenant, processes: int, count: int) -> list[float]:
    return [await _kill_one(app, processes) for _ in range(count)]


async def _kill_one(app: Tenant, processes: int) -> float:
    sandbox = await app.engine.backend.open_sandbox(app.runtime.sandbox_spec)
    try:
        heard = _Heard()
        sandbox.attach(heard)
        order = Execute(run="1", name="<code>", manifest="", final=True, result_bytes_max=1024)
        sandbox.send(order, _COMPUTING.format(children=processes - 1).encode())
        async with asyncio.timeout(_STARTED_S):
            while heard.count < processes:
                heard.news.clear()
                await heard.news.wait()
        started = time.perf_counter()
        sandbox.kill()
        await sandbox.wait_exited()
        return 1000 * (time.perf_counter() - started)
    finally:
        await sandbox.close()


class _Heard:
    """Counts what the processes print when they have started."""

    def __init__(self) -> None:
        self.count = 0
        self.news = asyncio.Event()

    def on_output(self, stream: Any, data: bytes) -> None:
        del stream
        self.count += len(data)
        self.news.set()

    def on_message(self, message: Any, body: bytes) -> None:
        raise AssertionError((message, body))

    def on_refused(self, message: Any) -> None:
        raise AssertionError(message)

    def on_exit(self, outcome: Any) -> None:
        del outcome
