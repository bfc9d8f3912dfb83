"""`GET /metrics` as an ASGI application. The text comes from `moonpool.server.http.figures`.

SECURITY: a web page in a browser on this machine can send requests to loopback under its own host name (DNS rebinding),
so a request whose `Host` is not one of ours gets no metrics. No part of a request appears in a response.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from moonpool.core.errors import MoonpoolError
from moonpool.server.http.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

PATH: Final = "/metrics"
MAKE_S: Final = 5.0
"""Time limit for rendering the text."""
_PLAIN: Final = "text/plain; charset=utf-8"
_log = logging.getLogger(__name__)


class TextSource(Protocol):
    """Renders the text (`moonpool.server.http.figures.Metrics`)."""

    async def text(self) -> str: ...


class MetricsApp:
    """The application. `hosts` are the accepted values of `Host`, in lower case; None: who calls this checks them."""

    def __init__(self, metrics: TextSource, *, hosts: Collection[str] | None) -> None:
        self._metrics, self._hosts = metrics, None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; its body is not read."""
        del receive
        if scope["type"] != "http":
            raise RuntimeError(f"there is nothing but HTTP here, and no {scope['type']}")
        status, content_type, body = await self._answer(scope)
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            *([(b"allow", b"GET, HEAD")] if status == 405 else []),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Message) -> tuple[int, str, bytes]:
        named = [value for name, value in scope["headers"] if name == b"host"]
        known = self._hosts is None or (len(named) == 1 and named[0].decode("latin-1").lower() in self._hosts)
        if not known:
            return (
                421,
                _PLAIN,
                b"this address is not served under that name; use the one that was printed at the start\n",
            )
        if scope["path"] != PATH:
            return 404, _PLAIN, b"there is /metrics here\n"
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, _PLAIN, b"use GET\n"
        try:
            async with asyncio.timeout(MAKE_S):
                return 200, CONTENT_TYPE, (await self._metrics.text()).encode()
        except (MoonpoolError, TimeoutError) as error:
            _log.error("the figures for /metrics cannot be read: %s", error or "it takes too long")
            return 503, _PLAIN, b"the figures cannot be read now; the log says why\n"
