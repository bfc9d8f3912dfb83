"""A tool call that the application or its client makes itself, without code in a sandbox.

It passes the same pipeline as every call, and is on record as an execution of its own that has no code.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moonpool.core.calls import ToolCallSpec
from moonpool.core.envelope import ExecutionError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.envelopes import internal_error
from moonpool.engine.run_records import RunRecords
from moonpool.engine.runs import CANCELLED
from moonpool.features.usage.model import TokenFigures
from moonpool.pipeline.caller_grant import RunFacts
from moonpool.pipeline.deadline import Deadline
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.calls import CallProgress, ToolCallOutcome
    from moonpool.core.json import JsonObject
    from moonpool.engine.runtime import Runtime
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.tools.snapshot import ToolSnapshot
    from moonpool.upstreams.open_call import CallingClient

_ENDLESS_S = 365 * 86_400.0  # the pipeline bounds the call itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCall:
    """A call that a client makes; it may use the servers in `ToolSnapshot.direct`."""

    client: CallingClient
    session_id: str  # whose subscriptions it makes and ends
    progress: Callable[[CallProgress], None] | None = None


async def call_directly(
    runtime: Runtime,
    caller_grant: CallerGrant,
    server_id: str,
    tool: str,
    arguments: JsonObject,
    *,
    begun: Callable[[str], None],
    by: ClientCall | None = None,
) -> ToolCallOutcome:
    """Make a call; `begun` hears the id under which questions about it come. Raises JournalError, InputError.

    Without `by`, the application itself makes it, and may use the servers that code may use.

    INVARIANT: its start is on record before the call enters the pipeline, its end before the outcome is returned.
    """
    runtime.check_open()
    records = RunRecords(runtime, caller_grant, by.session_id if by else "", CodeRequest(code=b""))
    with runtime.executing():
        first = runtime.tool_registry.current or await runtime.tool_registry.snapshot()

        def now() -> ToolSnapshot:
            tools = runtime.tool_registry.current or first
            return tools if by is None else replace(tools, manifest=tools.direct)

        tools = now()
        deadline = Deadline(_ENDLESS_S, lambda: None, paused_s_max=math.inf)
        context = caller_grant.make_context(
            RunFacts(
                identity=records.identity,
                snapshot=now,
                progress=by.progress if by else None,
                client=by.client if by else None,
                deadline=deadline,
                counters=records.counters,
                span=records.span,
            )
        )
        run_id = records.identity.run_id
        error: ExecutionError | None = CANCELLED
        started = records.start(tools, plan_id="")
        try:
            await asyncio.shield(started)
            begun(run_id)
            spec = ToolCallSpec(run_id=run_id, call_id=1, server_id=server_id, tool=tool, arguments=arguments)
            outcome = await runtime.pipeline.run(spec, context)
            failure = outcome.error
            error = None if failure is None else ExecutionError(type=str(failure.type), message=failure.message)
            return outcome
        except Exception as failure:
            error = internal_error(failure)
            raise
        finally:
            context.end()
            deadline.cancel()
            await finish(_end(records, started, error))


async def _end(records: RunRecords, started: asyncio.Future[None], error: ExecutionError | None) -> None:
    await started  # what has no start on record has no end
    await records.end(records.envelope(error, tokens=TokenFigures()), output_bytes=0)
