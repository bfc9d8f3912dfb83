"""The steps of one tool call, from the frame that arrives to the frame that leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.breakdowns.stopwatch import Spot, own_times
from bench.sampling import median
from bench.world import without_pool
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.bootstrap import Tenant

_PIPELINE = "moonpool.pipeline.pipeline:CallPipeline"
_RESOLVING = "moonpool.pipeline.resolving:Resolving"
_CALLS_OF = "moonpool.engine.tool_calls"
_OURS = f"{_CALLS_OF}:CallsOfExecution"
STEPS: Final[Mapping[str, tuple[Spot, ...]]] = {
    "channel: read, pipes drained, pace": (Spot("moonpool.sandboxes.link:GuestLink._on_channel"),),
    "channel: frames decoded": (Spot("moonpool_wire.channel:Channel.receive"),),
    "channel: message decoded into a frozen type": (Spot("moonpool.sandboxes.link:decode_guest"),),
    "call admitted, task made": (Spot(f"{_OURS}.start"),),
    "arguments decoded within bounds": (Spot(f"{_CALLS_OF}:parse_arguments"),),
    "resolve": (Spot(f"{_RESOLVING}.resolve"),),
    "validate against the schema, digest": (Spot(f"{_RESOLVING}.validate"),),
    "decide: policy": (Spot("moonpool.pipeline.pipeline:decide"),),
    "approve: standing answers, else a question": (Spot(f"{_PIPELINE}._approve"),),
    "intent on disk": (Spot(f"{_PIPELINE}._record_intent"),),
    "upstream: encode, server, decode": (Spot("moonpool.upstreams.supervisor:SupervisedUpstream.call_tool"),),
    "normalise": (Spot("moonpool.pipeline.call_result:read_result"),),
    "redact": (Spot("moonpool.redaction.redactor:Redactor.json_object"),),
    "result: size, digest, schema": (Spot(f"{_PIPELINE}._receive"),),
    "outcome on record": (Spot(f"{_PIPELINE}._record"),),
    "reply made": (Spot(f"{_CALLS_OF}:reply_of"),),
    "reply encoded and sent": (
        Spot("moonpool.sandboxes.link:GuestLink.send"),
        Spot(f"{_OURS}._reply"),
    ),
    "between the stages": (
        Spot(f"{_PIPELINE}.run"),
        Spot(f"{_PIPELINE}._answer"),
        Spot(f"{_PIPELINE}._call"),
        Spot(f"{_OURS}._call"),
    ),
}
GUEST: Final = "guest: wrapper, JSON, channel; waking host and guest"
TOTAL: Final = "as guest code sees it"
_CALLS = 50  # of one execution; its own two frames are a hundredth of what is counted
_CODE = """\
import time
from servers.bench import {tool} as tool
await tool(n=0)
started = time.perf_counter()
for n in range({count}):
    answer = await tool(n=n)
    assert answer["n"] == n + 1, answer
result = time.perf_counter() - started
"""


async def measure_calls(app: Tenant, tool: str, rounds: int) -> dict[str, float]:
    """Median ms of each step, of the means of `rounds` batches of calls."""
    samples: dict[str, list[float]] = {step: [] for step in (*STEPS, GUEST, TOTAL)}
    request = CodeRequest(code=_CODE.format(tool=tool, count=_CALLS).encode())
    with own_times(STEPS) as times:  # before the sandbox: its link registers its functions when it is made
        runtime = without_pool(app)
        session = runtime.session(app.caller_grant)
        try:
            await session.execute(request)
            for _ in range(rounds):
                times.take()
                envelope = await session.execute(request)
                assert envelope.error is None, envelope.error
                assert envelope.metrics["tool_calls"] == _CALLS + 1
                seconds: Any = envelope.data
                _note(samples, times.take(), seconds)
        finally:
            await runtime.close()
    return {step: median(found) for step, found in samples.items() if found}


def _note(samples: dict[str, list[float]], taken: dict[str, float], guest_s: float) -> None:
    host = {step: 1000 * seconds / (_CALLS + 1) for step, seconds in taken.items()}
    for step, elapsed in host.items():
        samples[step].append(elapsed)
    total = 1000 * guest_s / _CALLS
    samples[TOTAL].append(total)
    samples[GUEST].append(total - sum(host.values()))
