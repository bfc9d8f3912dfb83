"""HTTP of profiles without any state: one POST is one request and its answer, a GET stream never says anything.

A client may send any revision that has a handshake in `MCP-Protocol-Version`, or none. One of 2026-07-28 asks
`server/discover` first and hears -32601 from it, so that it goes on with `initialize`.

A client that breaks its connection ends what it waits for: there is no session in which it could ask again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response

from moonpool.server.http.principal_servers import SSE_CONNECTIONS_MAX, ServiceBusyError
from moonpool.server.http.request_limits import ClientGoneError
from moonpool.server.http.responses import (
    STREAM,
    EventResponse,
    json_response,
    rpc_error,
    rpc_response,
    until_disconnect,
)
from moonpool.server.http.revisions import is_modern, member, request_id_of
from moonpool.server.mcp.messages import INVALID_REQUEST, Ignored, Invalid, Request, error_payload, read_message
from moonpool.server.mcp.protocol_gate import encoded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive

    from moonpool.server.http.principal_servers import PrincipalServer
    from moonpool.server.http.revisions import Accepted
    from moonpool.server.mcp.messages import Payload
    from moonpool.server.mcp.stateless import StatelessTools

KEEP_ALIVE_S: Final = 15.0
_ALLOWED: Final = {"allow": "POST, GET"}
_KEEP_ALIVE: Final = b": keep-alive\n\n"


def version_problem(version: str | None, value: object) -> Response | None:
    """The refusal of a revision that is not served."""
    if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    if is_modern(version) and member(value, "method") == "server/discover":
        return None
    supported = list(reversed(HANDSHAKE_PROTOCOL_VERSIONS))
    return rpc_error(
        400,
        f"Unsupported protocol version; use one of {', '.join(supported)}",
        code=UNSUPPORTED_PROTOCOL_VERSION,
        request_id=request_id_of(value),
        data={"supported": supported, "requested": version[:40]},
    )


async def answer(tools: StatelessTools, accepted: Accepted, value: object, receive: Receive) -> Response:
    """Answer one decoded message. Raises ClientGoneError."""
    if isinstance(value, list):
        return _invalid("batches are not taken; send one message at a time")
    match read_message(value):
        case Request() as request:
            body = encoded(await _answered(tools, request, receive))
        case Invalid() as problem:
            return rpc_response(error_payload(problem), 400)
        case Ignored(problem):
            return _invalid(problem)
        case _:
            return Response(status_code=202)
    if accepted.streams and not accepted.json:
        event = b"event: message\ndata: " + body.rstrip(b"\n") + b"\n\n"
        return Response(event, 200, {"cache-control": "no-store"}, STREAM)
    return json_response(body)


def listen(server: PrincipalServer) -> Response:
    """A stream that is kept alive and says nothing, since nothing ever changes. Raises ServiceBusyError."""
    if len(server.quiet_streams) >= SSE_CONNECTIONS_MAX:
        raise ServiceBusyError(f"{SSE_CONNECTIONS_MAX} streams of this caller are open; close some")
    over = asyncio.Event()
    server.quiet_streams.add(over)
    return EventResponse(_silence(over), lambda: server.quiet_streams.discard(over))


def no_method() -> Response:
    """The answer to DELETE and the like."""
    return rpc_error(405, "there are no sessions here; use POST, or GET for a stream", headers=_ALLOWED)


async def _answered(tools: StatelessTools, request: Request, receive: Receive) -> Payload:
    answers: list[Payload] = []

    async def work() -> None:
        answers.append(await tools.answer(request))

    await until_disconnect(work, receive)
    if not answers:
        raise ClientGoneError
    return answers[0]


async def _silence(over: asyncio.Event) -> AsyncGenerator[bytes]:
    yield _KEEP_ALIVE  # at once, so that the client knows that the stream is open
    while True:
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                await over.wait()
        except TimeoutError:
            yield _KEEP_ALIVE
        else:
            return


def _invalid(problem: str) -> Response:
    return rpc_response(error_payload(Invalid(INVALID_REQUEST, problem)), 400)
