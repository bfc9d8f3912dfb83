"""Tool calls that a program on the host makes, by the name of their server. In the runtime's thread.

Each server has processes of its own, started by the first call and ended by `close`. Calls go through the pipeline, so
what an operator denies or keeps for a person holds here, too.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from moonpool.core.calls import CallErrorType
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.ipybox.options import ExecutorOptions, package_roots
from moonpool.ipybox.registered_servers import find_server
from moonpool.sdk.approve_functions import EventTypes
from moonpool.sdk.events import approval_fields
from moonpool.sdk.hosted_session import HostedSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.json import JsonObject
    from moonpool.features.approvals.events import ApprovalQuestion
    from moonpool.ipybox.tool_exec.approval.server import ApprovalChannel
    from moonpool.sdk.runtime_thread import RuntimeThread

NO_EVENTS = EventTypes(object, object)


class HostTools:
    """The servers that were called, by name."""

    def __init__(self, thread: RuntimeThread, channel: ApprovalChannel, connect_timeout: float) -> None:
        """`channel` is asked about calls; where it requires no approval, about none but accepts what policy asks."""
        self._thread, self._channel, self._connect_timeout = thread, channel, connect_timeout
        self._sessions: dict[str, tuple[Mapping[str, Any], HostedSession]] = {}  # with the parameters of its server

    async def call(self, server_name: str, tool: str, arguments: JsonObject) -> ToolCallOutcome:
        """Call a tool. Raises ConfigError and the like when its server cannot be reached.

        Where the server is described differently by now, that one is called; calls of the one before end.
        """
        params = await asyncio.to_thread(find_server, server_name, package_roots(None, os.environ), os.environ)
        before, session = self._sessions.get(server_name, (None, None))
        if session is None or before != params:
            replaced, session = session, self._session(server_name, params)
            self._sessions[server_name] = params, session
            if replaced is not None:
                await replaced.close()
        answers = _Answers(self._thread, self._channel)
        try:
            return await session.call_tool(server_name, tool, arguments, answers.begin)
        finally:
            await answers.end()

    async def close(self) -> None:
        """End all servers, and calls under way. They start again at their next call."""
        sessions, self._sessions = self._sessions, {}
        await asyncio.gather(*(session.close() for _, session in sessions.values()))

    def _session(self, server_name: str, params: Mapping[str, Any]) -> HostedSession:
        channel = self._channel
        options = ExecutorOptions(
            environment="base",
            given={server_name: params},
            approval_timeout=channel.approval_timeout,
            connect_timeout=self._connect_timeout,
            asks=channel.approval_required,
            apart=object(),
        )
        return HostedSession(self._thread, options, NO_EVENTS)


class _Answers:
    """Has questions about one call answered by the channel."""

    def __init__(self, thread: RuntimeThread, channel: ApprovalChannel) -> None:
        self._thread, self._channel = thread, channel
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, question: ApprovalQuestion) -> None:
        self._tasks.add(asyncio.ensure_future(self._settle(question)))

    async def end(self) -> None:
        """The call is over: nobody need answer any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settle(self, question: ApprovalQuestion) -> None:
        with suppress(ApprovalAnswerError):  # it is over
            try:
                accepted = await self._asked(question)
            except TimeoutError:
                return  # the pipeline lets it expire as well
            except RuntimeError as error:
                await question.deny(str(error))
                return
            if accepted and question.request.human_only:
                await question.deny("policy wants a person to answer, whom a program cannot speak for")
            elif accepted:
                await question.approve()
            else:
                await question.deny()

    async def _asked(self, question: ApprovalQuestion) -> bool:
        request = question.request
        if request.human_only:
            return True  # and refused above, without a question that no answer can settle
        fields = approval_fields(question, self._thread)
        shown = fields["arguments"] if fields["arguments"] is not None else {"...": fields["shown"]}
        return await self._channel.request(request.server_id, request.tool_name, dict(shown))


def answer_of(outcome: ToolCallOutcome) -> JsonObject:
    """An outcome as ipybox has it: `{"result": ...}`, or `{"error": ..., "type": ...}`."""
    if (error := outcome.error) is not None:
        kinds = {CallErrorType.APPROVAL_REJECTED: "rejected", CallErrorType.APPROVAL_EXPIRED: "timeout"}
        return {"error": error.message, **({"type": kinds[error.type]} if error.type in kinds else {})}
    raw: Any = outcome.raw or {}
    if "structuredContent" in raw:
        return {"result": raw["structuredContent"]}
    texts = [block["text"] for block in raw.get("content") or () if isinstance(block.get("text"), str)]
    return {"result": "\n".join(texts) or None}
