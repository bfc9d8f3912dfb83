"""Requests without a session in the revisions up to 2025-11-25: each POST is answered by one JSON body.

The client needs no handshake; the header names the revision. There is no way back to the client, so it cannot be asked,
hears no progress and cannot cancel; its connection may break without ending what runs.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.transport_context import TransportContext
from starlette.responses import Response

from moonpool.server.http.responses import json_response, rpc_response
from moonpool.server.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Ignored,
    Invalid,
    Request,
    error_payload,
    read_message,
    result_payload,
)
from moonpool.server.mcp.protocol_gate import batch_problem, encoded, error_to

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server import Server
    from mcp.shared.dispatcher import CallOptions

    from moonpool.server.mcp.messages import Message, Payload, RequestId

_TRANSPORT: Final = TransportContext(kind="streamable-http", can_send_request=False)
_log = logging.getLogger(__name__)


async def answer(server: Server[Any], version: str, value: Any) -> Response:
    """Answer one decoded message or batch."""
    if isinstance(value, list):
        messages = [read_message(one) for one in cast("list[object]", value)]
        return await _answer_batch(server, version, messages)
    match read_message(value):
        case Request() as request:
            payload = await _answer(server, version, request)
            return json_response(encoded(payload))
        case Invalid() as problem:
            return rpc_response(error_payload(problem), 400)
        case Ignored(problem):
            return rpc_response(error_payload(Invalid(INVALID_REQUEST, problem)), 400)
        case _:
            return Response(status_code=202)


async def _answer_batch(server: Server[Any], version: str, messages: list[Message]) -> Response:
    if problem := batch_problem(messages, version):
        return rpc_response(error_payload(Invalid(INVALID_REQUEST, problem)), 400)
    seen: set[tuple[type, RequestId]] = set()
    answers: list[Payload] = []
    asked: list[Request] = []
    for message in messages:
        match message:
            case Request(id=request_id, method=method):
                key = (type(request_id), request_id)
                if method == "initialize":
                    answers.append(error_to(message, INVALID_REQUEST, "initialize must not be part of a batch"))
                elif key in seen:
                    problem = f"the id {json.dumps(request_id)} is in this batch already"
                    answers.append(error_to(message, INVALID_REQUEST, problem))
                else:
                    asked.append(message)
                seen.add(key)
            case Invalid():
                answers.append(error_payload(message))
            case _:
                pass
    answers += await asyncio.gather(*(_answer(server, version, request) for request in asked))
    return rpc_response(answers) if answers else Response(status_code=202)


async def _answer(server: Server[Any], version: str, request: Request) -> Payload:
    if request.method == "ping":
        return result_payload(request.id, {})
    if server.get_request_handler(request.method) is None:
        return error_to(request, METHOD_NOT_FOUND, f"Method not found: {request.method}")
    context = _OneRequest(request.id)
    connection = Connection.from_envelope(version, None, None)
    try:
        result = await serve_one(
            server, context, request.method, request.params, connection=connection, lifespan_state={}
        )
    except Exception as error:  # noqa: BLE001  becomes the answer
        known = handler_exception_to_error_data(error)
        if known is None:
            _log.exception("a bug while answering %s", request.method)
            return error_to(request, INTERNAL_ERROR, "Internal error; the server's log says more")
        return error_to(request, known.code, known.message, known.data)
    return result_payload(request.id, result)


@dataclass(slots=True)
class _OneRequest:
    """The SDK's view of one request whose client hears nothing but the answer (`mcp.shared.dispatcher`)."""

    request_id: RequestId
    transport: TransportContext = _TRANSPORT
    message_metadata: None = None
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        del params, opts
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Nobody hears it."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Nobody hears it."""
