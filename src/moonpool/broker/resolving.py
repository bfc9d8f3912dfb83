"""The first stages of the pipeline: is the tool in this session's manifest, and do the arguments fit it?

What does not is refused with a sentence that teaches: near names, valid parameters, an example that would fit.

SECURITY: names and arguments are hostile data, and teaching costs time on the loop, so how often it is done for one
execution is bounded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from moonpool.broker.call_context import UNKNOWN_SERVER
from moonpool.broker.call_state import Refusal
from moonpool.broker.failures import not_listed
from moonpool.broker.phrases import offered_tool, unknown_tool
from moonpool.broker.validation import LARGE_BYTES, check_arguments, encoded_size
from moonpool.core.calls import CallErrorType

if TYPE_CHECKING:
    from moonpool.broker.call_context import CallContext
    from moonpool.broker.call_examples import CallExamples
    from moonpool.broker.call_state import CallState
    from moonpool.broker.validation import SchemaChecks
    from moonpool.core.manifest import ToolDefinition


class Resolving:
    """Finds tools and checks arguments. Belongs to one pipeline; used on one event loop."""

    def __init__(self, checks: SchemaChecks) -> None:
        self._checks = checks
        self._examples: CallExamples | None = None

    async def resolve(self, passage: CallState) -> None:
        """Find the tool. Raises Refusal."""
        spec, session = passage.spec, passage.session
        manifest, key = session.manifest(), (spec.server_id, spec.tool)
        if key in manifest.held and session.recheck is not None:
            await session.recheck()  # perhaps somebody accepted it in another process
            manifest = session.manifest()
        if spec.server_id not in manifest.server_ids and session.relist is not None:
            cause = await session.relist(spec.server_id)
            manifest = session.manifest()
            if cause is not None and spec.server_id not in manifest.server_ids:
                error = not_listed(passage.name, cause)
                raise Refusal(error.type, error.message, retryable=error.retryable)
        tool = manifest.find(*key)
        if (paused := manifest.held.get(key)) is not None:  # SECURITY: the server offers something else by now
            passage.tool_digest = tool.digest if tool is not None else ""
            raise Refusal(CallErrorType.TOOL_PAUSED, paused)
        if tool is None:
            session.unknown += 1
            near = session.unknown <= session.limits.near_names_max  # SECURITY: looking costs the loop 5 ms
            problem = unknown_tool(spec.server_id, spec.tool, manifest, near=near)
            raise Refusal(CallErrorType.UNKNOWN_TOOL, self._taught(problem, session, offered_tool(problem, manifest)))
        passage.tool, passage.tool_digest = tool, tool.digest
        passage.trust = session.trust.get(spec.server_id, UNKNOWN_SERVER)
        passage.hints = passage.trust.hints(tool)

    @staticmethod
    def still_offered(passage: CallState) -> None:
        """The tool was not paused while the call waited for an answer or its turn. Raises Refusal."""
        paused = passage.session.manifest().held.get((passage.spec.server_id, passage.spec.tool))
        if paused is not None:
            raise Refusal(CallErrorType.TOOL_PAUSED, paused)

    async def validate(self, passage: CallState) -> None:
        """Check the arguments against the tool's schema. Raises Refusal."""
        tool, arguments = passage.resolved, passage.spec.arguments
        check = self._checks.arguments(tool)
        near = passage.session.unknown < passage.session.limits.near_names_max
        checking = partial(check_arguments, tool, arguments, check, near=near)
        if (encoded_size(arguments) or 0) < LARGE_BYTES:
            checked = checking()
        else:
            checked = await anyio.to_thread.run_sync(checking)
        passage.arguments_json, passage.arguments_digest = checked.encoded, checked.digest
        passage.look_alikes = checked.look_alikes
        if check.warning:
            passage.warnings.append(check.warning)
        if checked.problem:
            passage.session.unknown += 1
            raise Refusal(CallErrorType.VALIDATION_ERROR, self._taught(checked.problem, passage.session, tool))

    def _taught(self, problem: str, session: CallContext, tool: ToolDefinition | None) -> str:
        """`problem`, and how the tool is called."""
        if tool is None or session.examples >= session.limits.examples_max:
            return problem
        session.examples += 1
        if self._examples is None:
            # Here, because all that writes wrappers is imported with it.
            from moonpool.broker.call_examples import CallExamples  # noqa: PLC0415

            self._examples = CallExamples()
        return self._examples.after(problem, tool, session.manifest(), language=session.language)
