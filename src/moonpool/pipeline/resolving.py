"""The first stages of the pipeline: is the tool in this session's manifest, and do the arguments fit it?

What does not is refused with a sentence that teaches: near names, valid parameters, an example that would fit.

SECURITY: names and arguments are hostile data, and teaching costs time on the loop, so how often it is done for one
execution is bounded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from moonpool.core.calls import CallErrorType
from moonpool.core.phrases import offered_tool, unknown_tool
from moonpool.pipeline.call_state import Refusal
from moonpool.pipeline.execution_grant import UNKNOWN_SERVER
from moonpool.pipeline.failures import not_listed
from moonpool.pipeline.validation import LARGE_BYTES, check_arguments, encoded_size

if TYPE_CHECKING:
    from moonpool.core.manifest import ToolDefinition
    from moonpool.pipeline.call_examples import CallExamples
    from moonpool.pipeline.call_state import CallContext, CallState
    from moonpool.pipeline.validation import SchemaChecks


class Resolving:
    """Finds tools and checks arguments. Belongs to one pipeline; used on one event loop."""

    def __init__(self, checks: SchemaChecks) -> None:
        self._checks = checks
        self._examples: CallExamples | None = None

    async def resolve(self, call: CallState) -> None:
        """Find the tool. Raises Refusal."""
        spec, context = call.spec, call.context
        manifest, key = context.manifest(), (spec.server_id, spec.tool)
        if key in manifest.held and context.recheck is not None:
            await context.recheck()  # perhaps somebody accepted it in another process
            manifest = context.manifest()
        if spec.server_id not in manifest.server_ids and context.relist is not None:
            cause = await context.relist(spec.server_id)
            manifest = context.manifest()
            if cause is not None and spec.server_id not in manifest.server_ids:
                error = not_listed(call.name, cause)
                raise Refusal(error.type, error.message, retryable=error.retryable)
        tool = manifest.find(*key)
        if (paused := manifest.held.get(key)) is not None:  # SECURITY: the server offers something else by now
            call.tool_digest = tool.digest if tool is not None else ""
            raise Refusal(CallErrorType.TOOL_PAUSED, paused)
        if tool is None:
            counters, limits = context.counters, context.grant.limits
            counters.unknown += 1
            near = counters.unknown <= limits.near_names_max  # SECURITY: looking costs the loop 5 ms
            problem = unknown_tool(spec.server_id, spec.tool, manifest, near=near)
            raise Refusal(CallErrorType.UNKNOWN_TOOL, self._taught(problem, context, offered_tool(problem, manifest)))
        call.tool, call.tool_digest = tool, tool.digest
        call.trust = context.grant.trust.get(spec.server_id, UNKNOWN_SERVER)
        call.hints = call.trust.hints(tool)

    async def validate(self, call: CallState) -> None:
        """Check the arguments against the tool's schema. Raises Refusal."""
        tool, arguments = call.resolved, call.spec.arguments
        check = self._checks.arguments(tool)
        near = call.context.counters.unknown < call.context.grant.limits.near_names_max
        checking = partial(check_arguments, tool, arguments, check, near=near)
        if (encoded_size(arguments) or 0) < LARGE_BYTES:
            checked = checking()
        else:
            checked = await anyio.to_thread.run_sync(checking)
        call.arguments_json, call.arguments_digest = checked.encoded, checked.digest
        call.look_alikes = checked.look_alikes
        if check.warning:
            call.warnings.append(check.warning)
        if checked.problem:
            call.context.counters.unknown += 1
            raise Refusal(CallErrorType.VALIDATION_ERROR, self._taught(checked.problem, call.context, tool))

    def _taught(self, problem: str, context: CallContext, tool: ToolDefinition | None) -> str:
        """`problem`, and how the tool is called."""
        if tool is None or context.counters.examples >= context.grant.limits.examples_max:
            return problem
        context.counters.examples += 1
        if self._examples is None:
            # Here, because all that writes wrappers is imported with it.
            from moonpool.pipeline.call_examples import CallExamples  # noqa: PLC0415

            self._examples = CallExamples()
        return self._examples.after(problem, tool, context.manifest(), language=context.identity.language)
