"""Streamable HTTP: the SDK's transport over an HTTP client that contains failures and remembers statuses.

The SDK maps every refusal to the same JSON-RPC error, and a broken TCP connection under one request ends its whole
transport with all others. `ContainedClient` answers for a broken connection itself, so that one request fails and the
rest go on, caps JSON bodies, and writes what happened into the `Exchange` of the caller: the SDK sends each message in
its sender's context, which is how the two find each other.

SECURITY: configured headers go to the configured origin only; the SDK follows no redirect that leaves it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx2

from moonpool.broker.expansion import conceal
from moonpool.broker.upstreams.base import (
    RESULT_BYTES_MAX,
    UpstreamAuthError,
    UpstreamError,
    UpstreamRateLimitedError,
    UpstreamServerFaultError,
    UpstreamUnreachableError,
    said,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.broker.config import ServerConfig

CONNECT_S: Final = 10.0
_NO_SUCH_TRANSPORT: Final = frozenset({400, 404, 405})


@dataclass(slots=True)
class Exchange:
    """What HTTP said to one request of ours."""

    status: int = 0
    retry_after: str = ""
    broken: str = ""  # the connection failed: why
    too_large: bool = False

    @property
    def no_such_transport(self) -> bool:
        """The spec's sign that a URL speaks the other HTTP transport."""
        return self.status in _NO_SUCH_TRANSPORT

    def note(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.retry_after = response.headers.get("retry-after", "")[:64]

    def fault(self, config: ServerConfig) -> UpstreamError | None:
        """The typed error of this exchange, if HTTP itself was the problem."""
        server_id, address = config.server_id, config.address
        if self.broken:
            problem = f"cannot be reached at {address}: {conceal(self.broken, config.secrets)}; is it running?"
            return UpstreamUnreachableError(server_id, problem)
        if self.status in {401, 403}:
            problem = f'refused our credential (HTTP {self.status}); check the "headers" of its configuration'
            return UpstreamAuthError(server_id, problem)
        if self.status == 429:
            wait = f" after {self.retry_after} s" if self.retry_after.isdigit() else " later"
            problem = f"asks for fewer requests (HTTP 429); try again{wait}"
            return UpstreamRateLimitedError(server_id, problem, for_guest=problem)
        if self.status >= 500:
            problem = f"failed with HTTP {self.status}; try again later"
            return UpstreamServerFaultError(server_id, problem, for_guest=problem)
        return None


EXCHANGE: ContextVar[Exchange | None] = ContextVar("moonpool_upstream_exchange", default=None)


class ContainedClient(httpx2.AsyncClient):
    """An HTTP client whose `send` never raises for a broken connection and never buffers more than the cap."""

    async def send(self, request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
        exchange = EXCHANGE.get() or Exchange()
        try:
            response = await super().send(request, **kwargs)
            exchange.note(response)
            if kwargs.get("stream") and response.headers.get("content-type", "").startswith("application/json"):
                return await _buffered(response, exchange)
        except (httpx2.TransportError, httpx2.DecodingError, OSError) as exc:
            exchange.broken = said(f"{type(exc).__name__}: {exc}", 300)
            return httpx2.Response(503, request=request)
        return response


async def _buffered(response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
    """The same response with its body read, or 502 with an `Exchange` that says it was too large."""
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > RESULT_BYTES_MAX:
                exchange.too_large = True
                return httpx2.Response(502, request=response.request)
    finally:
        await response.aclose()
    coded = {"content-encoding", "content-length", "transfer-encoding"}
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in coded]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)


def contained_client(config: ServerConfig) -> ContainedClient:
    """No read timeout: every request has its caller's own time limit, and listen streams are silent for hours."""
    return ContainedClient(
        headers={"user-agent": "moonpool", **config.headers},
        timeout=httpx2.Timeout(CONNECT_S, read=None),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=config.concurrency_max + 4),
    )


@asynccontextmanager
async def open_streamable_http(config: ServerConfig) -> AsyncGenerator[tuple[Any, Any]]:
    """The stream pair of one Streamable HTTP connection; nothing is sent before the first message."""
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415  a second; only for HTTP upstreams

    async with (
        contained_client(config) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=RESULT_BYTES_MAX) as streams,
    ):
        yield streams
