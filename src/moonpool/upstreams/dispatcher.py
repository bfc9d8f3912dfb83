"""The SDK's dispatcher, with our answers to server requests.

The SDK's session would parse a server request into its models, drop unknown members and refuse with other codes than
the spec requires. Server requests are handled before they reach it; all else goes to the session.

SECURITY: an answer is a task until the server has read it. A server that asks and does not read gets no more answers.
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
"""Server requests of one connection whose answers are not sent yet."""


class AskingDispatcher(JSONRPCDispatcher):
    """A dispatcher whose peer's requests are answered by `server_requests`."""

    def __init__(self, reader: Any, writer: Any, server_requests: PendingServerRequests) -> None:
        super().__init__(reader, writer)
        self._server_requests, self._answering = server_requests, 0

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
            return await self._server_requests.answer(method, params)
        except ServerRequestRefusedError as refused:
            raise MCPError(code=refused.code, message=str(refused), data=refused.data) from None
