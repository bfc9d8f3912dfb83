"""The steps of one execution: moments on the clock that host and guest share, and the time from each to the next."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from bench.breakdowns.stopwatch import Spot, moments
from bench.sampling import median
from bench.world import PACE_S, fill_pool, without_pool
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope

_ZYGOTE = "moonpool.sandboxes.zygote_process"
SPOTS: Final[Mapping[str, tuple[Spot, str]]] = {
    "requested": (Spot(f"{_ZYGOTE}:Zygote._send_request"), "enter"),
    "forked": (Spot(f"{_ZYGOTE}:ZygoteSandbox.__init__"), "enter"),
    "ready": (Spot(f"{_ZYGOTE}:wait_ready"), "leave"),
    "ordered": (Spot("moonpool.engine.execution:Execution.run"), "enter"),
    "ended": (Spot("moonpool.engine.execution:Execution._finish"), "enter"),
}
_STEPS: Final = {
    ("began", "requested"): "host: session, slot, sockets, pipes, control group",
    ("requested", "forked"): "zygote: clone, and its word heard",
    ("forked", "ready"): "sandbox: at-fork hooks, confinement, kernel starts, heard",
    ("ready", "ordered"): "host: wrappers shown, start handed to the journal",
    ("began", "ordered"): "host: sandbox and tools at hand, start handed to the journal",
    ("ordered", "code"): "order sent, kernel wakes, reads and compiles it",
    ("code", "ended"): "code runs, result encoded, `done` heard",
    ("ended", "answered"): "host: result parsed, envelope, end on record",
}
_ALWAYS: Final = {"ordered", "ended"}
TOTAL: Final = "host call to outcome"
_CODE = CodeRequest(code=b"import time\nresult = time.monotonic()")


async def measure_executions(app: Tenant, kind: str, count: int) -> dict[str, float]:
    """Median ms of each step of `count` executions: `pooled`, `unpooled` or `next` (in a session)."""
    unpooled = without_pool(app)
    session = unpooled.session(app.caller_grant)

    async def pooled() -> Envelope:
        return await app.runtime.run(_CODE, app.caller_grant)

    async def fresh() -> Envelope:
        return await unpooled.run(_CODE, app.caller_grant)

    async def following() -> Envelope:
        return await session.execute(_CODE)

    execute = {"pooled": pooled, "unpooled": fresh, "next": following}[kind]
    samples: dict[str, list[float]] = {}
    try:
        await execute()
        for _ in range(count):
            if kind == "pooled":
                await fill_pool(app)
            elif kind == "unpooled":
                await asyncio.sleep(PACE_S / 2)
            for step, elapsed in (await _one(execute, opens=kind == "unpooled")).items():
                samples.setdefault(step, []).append(elapsed)
    finally:
        await unpooled.close()
    return {step: median(found) for step, found in samples.items()}


async def _one(execute: Callable[[], Awaitable[Envelope]], *, opens: bool) -> dict[str, float]:
    """`opens`: a sandbox is opened within; else what is opened meanwhile is the pool's and not on this road."""
    with moments({name: spot for name, spot in SPOTS.items() if opens or name in _ALWAYS}) as seen:
        began = time.monotonic()
        envelope = await execute()
        answered = time.monotonic()
    assert envelope.error is None, envelope.error
    code: Any = envelope.data
    marks = {"began": began, **seen, "code": code, "answered": answered}
    ordered = sorted((when, name) for name, when in marks.items())
    steps = {TOTAL: 1000 * (answered - began)}
    for (before, first), (after, then) in pairwise(ordered):
        steps[_STEPS[first, then]] = 1000 * (after - before)
    return steps
