"""A tool call that the application makes itself, without code in a sandbox.

It passes the same pipeline as every call, and is on record as an execution of its own that has no code.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from moonpool.core.calls import ToolCallSpec
from moonpool.core.envelope import ExecutionError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.run_records import RunRecords
from moonpool.engine.runs import CANCELLED
from moonpool.features.usage.model import TokenFigures
from moonpool.pipeline.caller_grant import RunFacts
from moonpool.pipeline.deadline import Deadline
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.json import JsonObject
    from moonpool.engine.runtime import Runtime
    from moonpool.pipeline.caller_grant import CallerGrant

_ENDLESS_S = 365 * 86_400.0  # the pipeline bounds the call itself


async def call_directly(
    runtime: Runtime,
    caller_grant: CallerGrant,
    server_id: str,
    tool: str,
    arguments: JsonObject,
    *,
    begun: Callable[[str], None],
) -> ToolCallOutcome:
    """Make a call; `begun` hears the id under which questions about it come. Raises JournalError, InputError.

    INVARIANT: its start is on record before the call enters the pipeline, its end before the outcome is returned.
    """
    runtime.check_open()
    records = RunRecords(runtime, caller_grant, "", CodeRequest(code=b""))
    with runtime.executing():
        tools = runtime.tool_registry.current or await runtime.tool_registry.snapshot()
        await records.start(tools, plan_id="")
        deadline = Deadline(_ENDLESS_S, lambda: None, paused_s_max=math.inf)
        context = caller_grant.make_context(
            RunFacts(
                identity=records.identity,
                snapshot=lambda: runtime.tool_registry.current or tools,
                deadline=deadline,
                counters=records.counters,
            )
        )
        run_id = records.identity.run_id
        begun(run_id)
        error: ExecutionError | None = CANCELLED
        try:
            spec = ToolCallSpec(run_id=run_id, call_id=1, server_id=server_id, tool=tool, arguments=arguments)
            outcome = await runtime.pipeline.run(spec, context)
            failure = outcome.error
            error = None if failure is None else ExecutionError(type=str(failure.type), message=failure.message)
            return outcome
        finally:
            context.end()
            deadline.cancel()
            await finish(records.end(records.envelope(error, tokens=TokenFigures()), output_bytes=0))
