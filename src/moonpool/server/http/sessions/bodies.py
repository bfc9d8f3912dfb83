"""Bodies of requests read within bounds and decoded into frozen types; answers encoded."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from moonpool.core.conversion import problem_of
from moonpool.core.errors import InputError
from moonpool.features.caller_limits.model import LimitExceededError
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.sessions.errors import RETRY_AFTER_S, BodyTooLargeError, error_body, status_of
from moonpool.server.http.sessions.messages import BODY_BYTES_MAX, ErrorAnswer
from moonpool_wire.jsonbounds import exceeded_bound

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from starlette.requests import Request

_T = TypeVar("_T")
BODY_S: Final = 30.0
"""How long a body of JSON may take to arrive."""
_encode: Final = msgspec.json.Encoder().encode
_LINE_ENDS: Final = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")
"""SECURITY: valid in JSON, but ends of lines to some readers; code chooses what it prints."""


async def body_of(request: Request, model: type[_T], *, bytes_max: int = BODY_BYTES_MAX) -> _T:
    """The body as a `model`; no body is an empty object. Raises InputError, BodyTooLargeError."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InputError(f"the body must be application/json, not {kind[:80]!r}")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise InputError("the body must not be compressed")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                data += piece
                if len(data) > bytes_max:
                    raise BodyTooLargeError(f"the body is larger than {bytes_max:,} bytes; put data into files")
    except TimeoutError:
        raise InputError(f"the body did not arrive within {BODY_S:g} s") from None
    return decoded(bytes(data) or b"{}", model)


def decoded(data: bytes, model: type[_T]) -> _T:
    """JSON as a `model`. Raises InputError, which names the member."""
    if (bound := exceeded_bound(data)) is not None:
        raise InputError(f"the body has {bound}")
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("the body is no JSON in UTF-8") from None
    return converted(raw, model, "the body")


def query_of(request: Request, model: type[_T]) -> _T:
    """The query as a `model`. Raises InputError."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise InputError(f"the query names {name[:80]!r} twice")
        given[name] = value
    return converted(given, model, "the query", strict=False)


def converted(raw: object, model: type[_T], where: str, *, strict: bool = True) -> _T:
    try:
        return msgspec.convert(raw, model, strict=strict)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {problem_of(error, raw, model)}") from None


async def while_client_waits(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """What `work` comes to; it is given up when its client has gone. The body must have been read.

    Raises ClientDisconnect then.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        gone.cancel()
        working.cancel()
        await finish(_both(working, gone))


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _both(*tasks: asyncio.Future[Any]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def json_line(line: object) -> bytes:
    """One line of newline-delimited JSON."""
    data = _encode(line) + b"\n"
    return data if data.isascii() else _LINE_ENDS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


def json_answer(answer: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that nobody stores."""
    return Response(
        _encode(answer), status, headers={"cache-control": "no-store", **(headers or {})}, media_type="application/json"
    )


def error_answer(
    error: Exception,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    whole: bool = False,
) -> Response:
    """The one form of every error but of Baponi's paths; `status` where it is not the error's own."""
    body = error_body(error, whole=whole)
    status = status or status_of(body)
    retry_s = error.retry_s if isinstance(error, LimitExceededError) else RETRY_AFTER_S
    retry = {"retry-after": str(retry_s)} if status in {429, 503} else {}
    return json_answer(ErrorAnswer(error=body), status, {**retry, **(headers or {})})
