"""The SDK's dispatcher, with our answers to what a server asks.

The SDK's session would parse a question into its models, drop what they do not know and refuse with other codes than
the spec asks for. Requests of the server are taken off before they reach it; all else goes to the session.

SECURITY: an answer is a task until the server has taken it. One that asks and does not read is not answered any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from moonpool.upstreams.server_requests import ServerRequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import TaskStatus
    from mcp.shared.dispatcher import DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.transport_context import TransportContext
    from mcp.types import JSONRPCRequest

    from moonpool.upstreams.server_requests import PendingServerRequests


ANSWERING_COUNT_MAX: Final = 64
"""Questions of one connection whose answers have not gone out."""


class AskingDispatcher(JSONRPCDispatcher):
    """A dispatcher whose peer's requests are answered by `server_requests`."""

    def __init__(self, reader: Any, writer: Any, questions: PendingServerRequests) -> None:
        super().__init__(reader, writer)
        self._questions, self._answering = questions, 0

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        del on_request
        await super().run(self._answer, on_notify, on_notify_intercept, task_status=task_status)

    async def _dispatch_request(
        self, req: JSONRPCRequest, metadata: Any, on_request: OnRequest, sender_ctx: Any
    ) -> None:
        if self._answering < ANSWERING_COUNT_MAX:
            self._answering += 1
            await super()._dispatch_request(req, metadata, on_request, sender_ctx)

    async def _handle_request(
        self, req: JSONRPCRequest, dctx: Any, scope: anyio.CancelScope, on_request: OnRequest
    ) -> None:
        try:
            await super()._handle_request(req, dctx, scope, on_request)
        finally:
            self._answering -= 1

    async def _answer(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        del context
        try:
            return await self._questions.answer(method, params)
        except ServerRequestRefusedError as refused:
            raise MCPError(code=refused.code, message=str(refused), data=refused.data) from None
