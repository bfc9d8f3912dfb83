"""One line of JSON for each request, when an operator asks for it, and the same form for all other log records.

SECURITY: a line holds no header, no query (`/message` has a session's id there), no token of a signed URL, no body, no
result and nothing that a caller wrote but the path and the name of a method, both bounded and within a set of
characters. Of an exception its type is told, since its text may quote what a server or a caller wrote.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.audit_records import time_stamp
from moonpool.server.http.admission import known_caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BLOBS_PATH: Final = "/v1/blobs/"
"""What stands behind it is a credential."""
REQUEST_ID_HEADER: Final = b"x-request-id"
_PATH_CHARS_MAX: Final = 160
_TEXT_CHARS_MAX: Final = 4000
_METHOD: Final = "moonpool.method"
_NAME: Final = re.compile(r"[A-Za-z_/]{1,64}", re.ASCII)
_UNSHOWN: Final = re.compile(r"[^A-Za-z0-9/._~:-]")


def keep_method(scope: Scope, method: object) -> None:
    """Let the line of this request name its method of MCP, if it is one."""
    scope[_METHOD] = method if isinstance(method, str) and _NAME.fullmatch(method) else None


class JsonLines(logging.Handler):
    """Log records as lines of JSON."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  an error in logging must not end the work that is logged
            text = "a line that cannot be shown"
        line = {"level": record.levelname.lower(), "logger": record.name, "message": text[:_TEXT_CHARS_MAX]}
        self._say(json_line({**line, **({} if kind is None else {"error": kind.__name__})}))


def shown_path(scope: Scope) -> str:
    """The path of a request as a log may hold it."""
    path: str = scope["path"]
    if path.startswith(BLOBS_PATH):
        return f"{BLOBS_PATH}..."
    return _UNSHOWN.sub("?", path[:_PATH_CHARS_MAX])


def json_line(members: dict[str, Any]) -> str:
    """One line, of ASCII characters that a terminal shows as they are."""
    return json.dumps({"at": time_stamp(datetime.now(UTC)), **members})


class RequestLog:
    """The application behind it, whose requests are told to `say` when they are answered."""

    def __init__(self, application: ASGIApp, say: Callable[[str], None]) -> None:
        self._application, self._say = application, say

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, request_id = time.perf_counter(), secrets.token_hex(8)
        status = received = sent = 0

        async def counted_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (REQUEST_ID_HEADER, request_id.encode())]}
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._application(scope, counted_receive, counted_send)
        finally:
            caller = known_caller(scope)
            told: dict[str, Any] = {
                "level": "info",
                "logger": "request",
                "request": request_id,
                "organisation": None if caller is None else caller.organisation,
                "principal": None if caller is None else caller.principal,
                "http": scope["method"][:16],
                "path": shown_path(scope),
                "method": scope.get(_METHOD),
                "status": status or None,  # None: the connection broke first
                "ms": round((time.perf_counter() - began) * 1000, 1),
                "bytes_in": received,
                "bytes_out": sent,
            }
            self._say(json_line(told))
