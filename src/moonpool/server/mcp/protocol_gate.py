"""The protocol gate: enforces JSON-RPC rules in front of the SDK's server, on stdio and over HTTP.

What the SDK does not do and this module does (REQUIREMENTS A-001 to A-017, A-022, A-029, A-063, X-20): answers
a line that is not JSON, an id that is null or a float, an id that is already in flight; answers batches in a 2025-03-26
session and refuses them elsewhere; answers `ping` itself, at once and before the handshake, without letting it decide
the protocol version; refuses requests before `initialize` and a second `initialize`; answers -32601 to unknown methods.

Every request gets our own id on its way in and its original id on its way out, so that `1` and `"1"` are two ids and an
answer after a cancellation is always dropped here.

INVARIANT: at most one answer per request is sent, none for a cancelled one; a batch's answers are sent together.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from moonpool.catalog.render import one_line
from moonpool.server.mcp.in_flight import Batch, InFlight, Reply
from moonpool.server.mcp.lines import LINE_BYTES_MAX, TooLong
from moonpool.server.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Ignored,
    Invalid,
    Message,
    Notification,
    Payload,
    Request,
    RequestId,
    Response,
    encode_line,
    error_payload,
    parse_line,
    read_message,
    result_payload,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BATCH_VERSION: Final = "2025-03-26"
BATCH_COUNT_MAX: Final = 100
IN_FLIGHT_MAX: Final = 256
_CANCELLED: Final = "notifications/cancelled"
_log = logging.getLogger(__name__)


class Gate:
    """One connection. Messages are sent in the order of the calls to `pass_out`.

    `take_line` has one caller; `take` may be called by several tasks, each with the reply for its own message.
    """

    def __init__(
        self,
        *,
        to_server: Callable[[SessionMessage], Awaitable[None]],
        to_client: Callable[[bytes], Awaitable[None]],
        serves: Callable[[str], bool],
    ) -> None:
        """`to_client` sends what belongs to no request; `take_line` answers there, too."""
        self._to_server, self._to_client, self._serves = to_server, to_client, serves
        self._lines = _ToClient(to_client)
        self._in_flight = InFlight()
        self._opened = False  # a request reached the server, so it has chosen a protocol version
        self._handshake: int | None = None  # the number of the `initialize` in progress
        self._settled = asyncio.Event()
        self.version = ""  # negotiated by the handshake
        self.idle = self._in_flight.idle

    # --- from the client

    async def take_line(self, line: bytes | TooLong) -> None:
        """Process one line of any content."""
        if isinstance(line, TooLong):
            problem = f"the line is longer than {LINE_BYTES_MAX // 1024**2} MiB and was thrown away"
            await self._lines.send(encode_line(error_payload(Invalid(PARSE_ERROR, problem))))
            return
        try:
            value = parse_line(line)
        except ValueError as error:
            await self._lines.send(encode_line(error_payload(Invalid(PARSE_ERROR, f"Parse error: {error}"))))
            return
        await self.take(value, self._lines)

    async def take(self, value: object, reply: Reply) -> None:
        """Process one decoded message or batch. `reply` is ended when nothing of it needs an answer any more."""
        if isinstance(value, list):
            await self._take_batch(value, reply)  # pyright: ignore[reportUnknownArgumentType]  decoded JSON
        else:
            await self._take(read_message(value), reply, None)

    async def _take_batch(self, values: list[object], reply: Reply) -> None:
        if self._handshake is not None:
            await self._settled.wait()
        messages = [read_message(value) for value in values]
        if problem := batch_problem(messages, self.version):
            await self._answer(reply, None, error_payload(Invalid(INVALID_REQUEST, problem)))
            return
        batch = Batch(reply)
        for message in messages:
            if isinstance(message, Request) and message.method == "initialize":
                message = Invalid(INVALID_REQUEST, "initialize must not be part of a batch", message.id)  # noqa: PLW2901
            await self._take(message, reply, batch)
        await self._settle(batch, None)

    async def _take(self, message: Message, reply: Reply, batch: Batch | None) -> None:
        match message:
            case Request():
                await self._take_request(message, reply, batch)
                return  # the reply ends with its answer
            case Notification():
                await self._take_notification(message)
            case Response(payload):
                await self._forward(payload)
            case Invalid():
                if batch is not None:
                    batch.open += 1
                await self._answer(reply, batch, error_payload(message))
                return
            case Ignored(problem):
                _log.info("ignored a message of the client: %s", problem)
        if batch is None:
            reply.end()

    async def _take_request(self, request: Request, reply: Reply, batch: Batch | None) -> None:
        if batch is not None:
            batch.open += 1
        if request.method == "ping" and not has_envelope(request):
            await self._answer(reply, batch, result_payload(request.id, {}))
            return
        if refusal := self._refusal(request):
            await self._answer(reply, batch, refusal)
            return
        number = self._in_flight.add(request, reply, batch)
        if request.method == "initialize" and not self._opened:
            self._handshake = number
        self._opened = True
        message = JSONRPCRequest(jsonrpc="2.0", id=number, method=request.method, params=request.params)
        about = None if reply.takes_requests else ServerMessageMetadata(can_send_request=False)
        await self._to_server(SessionMessage(message, about))

    def _refusal(self, request: Request) -> Payload | None:
        """The error to answer without the SDK's server, if any."""
        if request.id in self._in_flight:
            return error_to(request, INVALID_REQUEST, f"the id {json.dumps(request.id)} is in flight already")
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            return error_to(request, INTERNAL_ERROR, f"{IN_FLIGHT_MAX} requests wait already; await some first")
        if request.method == "initialize":
            return self._handshake_refusal(request)
        if self._opened or has_envelope(request):
            return None
        if self._serves(request.method) and request.method != "server/discover":
            return error_to(request, INVALID_REQUEST, f"send initialize before {request.method}")
        return error_to(request, METHOD_NOT_FOUND, f"Method not found: {request.method}")

    def _handshake_refusal(self, request: Request) -> Payload | None:
        if self.version or self._handshake is not None:
            return error_to(request, INVALID_REQUEST, "this session is initialized already")
        asked = (request.params or {}).get("protocolVersion")
        if isinstance(asked, str):
            return None
        data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": asked}
        return error_to(request, INVALID_PARAMS, "Unsupported protocol version", data)

    async def _take_notification(self, notification: Notification) -> None:
        if not self._opened:
            return
        if notification.method == _CANCELLED:
            await self._take_cancellation(notification.params or {})
        else:
            await self._notify(notification.method, notification.params)

    async def _take_cancellation(self, params: Payload) -> None:
        """Forward it under our number and forget the request: later answers of the SDK's server are dropped."""
        found = self._in_flight.find(params.get("requestId"))
        if found is None or found[0] == self._handshake:
            _log.info("ignored a cancellation of no request in progress")
            return
        number, waiting = found
        reason = one_line(str(params.get("reason") or "no reason given"), 200)
        _log.warning("the client cancelled %s: %s", waiting.method, reason)
        self._in_flight.remove(number)
        await self._notify(_CANCELLED, {**params, "requestId": number})
        if waiting.batch is not None:
            await self._settle(waiting.batch, None)
        else:
            waiting.reply.end()

    async def _notify(self, method: str, params: Payload | None) -> None:
        await self._to_server(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method, params=params)))

    async def _forward(self, payload: Payload) -> None:
        if not self._opened:
            return
        try:
            message = jsonrpc_message_adapter.validate_python(payload, by_name=False)
        except ValidationError:
            _log.info("ignored a malformed response of the client")
            return
        await self._to_server(SessionMessage(message))

    def abandon(self) -> None:
        """The server is gone: nothing that waits will be answered."""
        for waiting in self._in_flight.clear():
            waiting.reply.end()

    # --- from the server

    async def pass_out(self, message: SessionMessage) -> None:
        """Send one message of the SDK's server to the client."""
        match message.message:
            case JSONRPCResponse(id=number, result=result):
                await self._pass_answer(number, "result", result)
            case JSONRPCError(id=number, error=error):
                await self._pass_answer(number, "error", error.model_dump(by_alias=True, exclude_none=True))
            case JSONRPCRequest() | JSONRPCNotification() as call:
                payload = call.model_dump(by_alias=True, exclude_unset=True, mode="json")
                about = message.metadata
                number = about.related_request_id if isinstance(about, ServerMessageMetadata) else None
                reply = self._lines if number is None else self._in_flight.reply_to(number)
                if reply is None and call.method == _CANCELLED:  # a question is taken back after its request
                    reply = self._lines
                if reply is not None:  # else about a request that has its answer, or was cancelled
                    await reply.send(encode_line(payload))

    async def _pass_answer(self, number: RequestId | None, kind: str, body: Payload) -> None:
        entry = self._in_flight.remove(number)
        if entry is None:
            return
        if number == self._handshake:
            self._handshake = None
            self.version = str(body.get("protocolVersion", "")) if kind == "result" else ""
            self._settled.set()
        await self._answer(entry.reply, entry.batch, {"jsonrpc": "2.0", "id": entry.id, kind: body})

    async def _answer(self, reply: Reply, batch: Batch | None, payload: Payload) -> None:
        if batch is not None:
            await self._settle(batch, payload)
            return
        await reply.send(encoded(payload))
        reply.end()

    async def _settle(self, batch: Batch, payload: Payload | None) -> None:
        """One element of `batch` is done; after the last one the answers are sent, if any."""
        batch.open -= 1
        if payload is not None:
            batch.answers.append(payload)
        if batch.open == 0:
            if batch.answers:
                await batch.reply.send(encode_line(batch.answers))
            batch.reply.end()


class _ToClient:
    """A reply on a connection that carries everything."""

    takes_requests = True

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send

    async def send(self, line: bytes, /) -> None:
        await self._send(line)

    def end(self) -> None:
        """The connection stays."""


def batch_problem(messages: list[Message], version: str) -> str:
    """Why these cannot be a batch in this revision; empty: they can."""
    if version != BATCH_VERSION:
        return f"batches are for sessions of revision {BATCH_VERSION}; send one message at a time"
    if not messages:
        return "a batch must not be empty"
    if len(messages) > BATCH_COUNT_MAX:
        return f"a batch of {len(messages)} messages; send at most {BATCH_COUNT_MAX} at a time"
    responses = sum(isinstance(message, Response) for message in messages)
    if responses and any(isinstance(message, Request | Notification) for message in messages):
        return "a batch holds either responses, or requests and notifications"
    return ""


def error_to(request: Request, code: int, problem: str, data: Any = None) -> Payload:
    """An error as the answer to `request`."""
    payload = error_payload(Invalid(code, problem, request.id))
    if data is not None:
        payload["error"]["data"] = data
    return payload


def encoded(payload: Payload) -> bytes:
    """An answer, whatever it holds."""
    try:
        return encode_line(payload)
    except ValueError:  # NaN or unlimited nesting: our bug, but the client must not wait for ever
        _log.exception("an answer could not be encoded")
        return encode_line(error_payload(Invalid(INTERNAL_ERROR, "the answer could not be encoded", payload["id"])))


def has_envelope(request: Request) -> bool:
    """Whether the request carries its protocol version itself, as from 2026-07-28 on."""
    meta = (request.params or {}).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
