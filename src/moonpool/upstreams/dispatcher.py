"""The SDK's dispatcher, with our answers to server requests.

The SDK's session would parse a server request into its models, drop unknown members and refuse with other codes than
the spec requires. Server requests are handled before they reach it; all else goes to the session.

The SDK makes spans of its own and puts an application's trace and baggage into requests. Neither is wanted: a server
gets the place of our span and nothing else, and a span would quote the server's errors.

SECURITY: an answer is a task until the server has read it. A server that asks and does not read gets no more answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.types import JSONRPCRequest
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    NonRecordingSpan,
    ProxyTracerProvider,
    SpanContext,
    get_tracer_provider,
    set_span_in_context,
)

from moonpool.tracing.spans import TRACE_KEYS, TRACEPARENT
from moonpool.upstreams.server_requests import ServerRequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import TaskStatus
    from mcp.shared.dispatcher import CallOptions, DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.message import MessageMetadata
    from mcp.shared.transport_context import TransportContext
    from mcp.types import JSONRPCMessage, RequestId

    from moonpool.upstreams.server_requests import PendingServerRequests


OWN_TRACEPARENT: Final = "moonpool/traceparent"
"""The member of `_meta` that becomes `traceparent` when a request is written."""
_NOTHING: Final = Context()
_NOT_SAMPLED: Final = set_span_in_context(NonRecordingSpan(SpanContext(1, 1, is_remote=False)), Context())
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

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: RequestId | None = None,
    ) -> dict[str, Any]:
        # An application's provider drops the SDK's span as one of a trace that is not sampled.
        token = attach(_NOTHING if type(get_tracer_provider()) is ProxyTracerProvider else _NOT_SAMPLED)
        try:
            return await super().send_raw_request(method, params, opts, _related_request_id=_related_request_id)
        finally:
            detach(token)

    async def _write(self, message: JSONRPCMessage, metadata: MessageMetadata = None) -> None:
        if isinstance(message, JSONRPCRequest) and message.params is not None and "_meta" in message.params:
            message = _with_own_trace(message, message.params)
        await super()._write(message, metadata)

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


def _with_own_trace(request: JSONRPCRequest, params: dict[str, Any]) -> JSONRPCRequest:
    """INVARIANT: what a request says of a trace is ours, whatever the SDK found in the process."""
    meta: dict[str, Any] = params["_meta"]
    if not any(name in meta for name in (OWN_TRACEPARENT, *TRACE_KEYS)):
        return request
    kept = {name: value for name, value in meta.items() if name not in TRACE_KEYS}
    if (own := kept.pop(OWN_TRACEPARENT, None)) is not None:
        kept[TRACEPARENT] = own
    params = {name: value for name, value in params.items() if name != "_meta"} | ({"_meta": kept} if kept else {})
    given = {"params": params} if params else {}
    return JSONRPCRequest(jsonrpc="2.0", id=request.id, method=request.method, **given)
