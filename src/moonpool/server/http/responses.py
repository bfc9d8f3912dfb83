"""Answers over HTTP: JSON-RPC in one body, errors in one body, and streams of server-sent events."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from moonpool.server.mcp.messages import INTERNAL_ERROR, INVALID_REQUEST, Invalid, encode_line, error_payload

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from moonpool.features.caller_limits.model import LimitExceededError
    from moonpool.server.http.callers import AuthenticationError
    from moonpool.server.mcp.messages import Payload, RequestId

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
LIMITED: Final = 429
"""The code of an answer with that status. Codes of ours are none that JSON-RPC keeps for itself (A-018)."""
_STREAM_HEADERS: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


def json_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, JSON)


def plain_error(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, data: object = None
) -> Response:
    """An error where no JSON-RPC is spoken."""
    told = {"error": code, "message": message, **({} if data is None else {"data": data})}
    return json_response(json.dumps(told, ensure_ascii=False).encode(), status, headers)


def unauthorized(error: AuthenticationError, challenge: str) -> Response:
    """401, the same body wherever it happens (J-038, X-18): clients compare it."""
    return plain_error(401, "unauthorized", str(error), {"www-authenticate": challenge})


def limit_error(error: LimitExceededError, *, rpc: bool, request_id: RequestId | None = None) -> Response:
    """429: what is used up, and when there is more."""
    headers = {"retry-after": str(error.retry_s)}
    if rpc:
        data = {"reason": error.code, **error.data}
        return rpc_error(429, str(error), code=LIMITED, request_id=request_id, data=data, headers=headers)
    return plain_error(429, error.code, str(error), headers, data=error.data)


def rpc_error(
    status: int,
    message: str,
    *,
    code: int | None = None,
    request_id: RequestId | None = None,
    data: object = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A JSON-RPC error for a request that no server saw."""
    code = code if code is not None else INTERNAL_ERROR if status >= 500 else INVALID_REQUEST
    payload = error_payload(Invalid(code, message, request_id))
    if data is not None:
        payload["error"]["data"] = data
    return rpc_response(payload, status, headers)


def rpc_response(
    payload: Payload | list[Payload], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return json_response(encode_line(payload), status, headers)


class EventResponse(Response):
    """A stream of events until `frames` end or the client disconnects; then `on_end` is called, however it ended."""

    def __init__(
        self, frames: AsyncGenerator[bytes], on_end: Callable[[], None], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, 200, {**_STREAM_HEADERS, **(headers or {})}, STREAM)
        del self.headers["content-length"]
        self._frames, self._on_end = frames, on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope

        async def pass_on() -> None:
            async with aclosing(self._frames) as frames:
                async for frame in frames:
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await until_disconnect(pass_on, receive)
        finally:
            self._on_end()


async def until_disconnect(work: Callable[[], Awaitable[None]], receive: Receive) -> bool:
    """Do `work`, which is cancelled when the client disconnects; returns whether it was done."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, watching = asyncio.ensure_future(work()), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        return working.done()
    finally:
        watching.cancel()
        working.cancel()
        await asyncio.wait({working, watching})
        if not working.cancelled() and (error := working.exception()) is not None:
            raise error
