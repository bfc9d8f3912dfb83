"""The legacy HTTP+SSE transport of revision 2024-11-05: one GET stream in, one POST per message out.

The SDK's own drops events above 1 MiB and loses HTTP statuses, so this one stands on `httpx2.EventSource` directly. As
with stdio there is no task between the wire and the dispatcher: its read loop awaits the next event itself, and a
request is posted by its caller's own task.

SECURITY: the `endpoint` that the server names must have the origin of the configured URL (B-027); otherwise the
configured headers would be sent to whatever a server likes, such as a cloud's metadata address.
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

import anyio
import httpx2
from mcp.shared.message import SessionMessage

from moonpool.net.message_limits import RESULT_BYTES_MAX
from moonpool.upstreams.base import UpstreamProtocolError
from moonpool.upstreams.frames import decode_frame, encode_frame
from moonpool.upstreams.http import EXCHANGE, ContainedClient, Exchange, contained_client
from moonpool.upstreams.message_rate import Intake
from moonpool.upstreams.streams import EndOfMessages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from mcp.types import JSONRPCMessage

    from moonpool.configuration.servers import ServerConfig
    from moonpool.oauth.credentials import Credentials

_ACCEPT: Final = {"accept": "text/event-stream", "cache-control": "no-store"}


class EventReader(EndOfMessages):
    """The dispatcher's read stream over the GET's events."""

    def __init__(self, events: AsyncIterator[httpx2.ServerSentEvent], intake: Intake) -> None:
        super().__init__()
        self._events, self._intake = events, intake
        self._decoded: deque[JSONRPCMessage] = deque()

    async def receive(self) -> SessionMessage:
        while not self._decoded:
            try:
                event = await anext(self._events)
            except (StopAsyncIteration, httpx2.HTTPError, httpx2.StreamError, httpx2.SSEError):
                self.ended.set()
                raise anyio.EndOfStream from None
            data = event.data.encode(errors="replace") if event.event == "message" else b""
            messages = decode_frame(data) if data else []
            self._decoded.extend(messages)
            await self._intake.took(messages, len(data))
        return SessionMessage(self._decoded.popleft())


class PostWriter:
    """The dispatcher's write stream: one POST per message."""

    def __init__(self, client: ContainedClient, endpoint: str, intake: Intake) -> None:
        self._client, self._endpoint, self._intake = client, endpoint, intake

    async def send(self, item: SessionMessage, /) -> None:
        self._intake.sent(item.message)
        request = self._client.build_request(
            "POST",
            self._endpoint,
            content=encode_frame(item.message),
            headers={"content-type": "application/json"},
        )
        response = await self._client.send(request)
        if response.status_code >= 300:
            raise anyio.BrokenResourceError  # the Exchange says why

    async def aclose(self) -> None:
        """Nothing to do: the connection ends with the GET."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


@asynccontextmanager
async def open_legacy_sse(
    config: ServerConfig, exchange: Exchange, credentials: Credentials | None = None
) -> AsyncGenerator[tuple[EventReader, PostWriter]]:
    """Enter: the GET stream is open and the server named its endpoint."""
    async with contained_client(config, credentials) as client:
        request = client.build_request("GET", config.url, headers=_ACCEPT)
        token = EXCHANGE.set(exchange)
        try:
            response = await client.send(request, stream=True)
        finally:
            EXCHANGE.reset(token)
        try:
            if response.status_code != 200:
                raise _refused(config, response.status_code, exchange)
            events = aiter(httpx2.EventSource(response, max_event_size=RESULT_BYTES_MAX))
            endpoint, intake = await _endpoint(config, events), Intake()
            yield EventReader(events, intake), PostWriter(client, endpoint, intake)
        finally:
            await response.aclose()


async def _endpoint(config: ServerConfig, events: AsyncIterator[httpx2.ServerSentEvent]) -> str:
    problem = "does not name an endpoint on its SSE stream; is the URL an MCP server's?"
    try:
        event = await anext(events)
        while event.event != "endpoint":
            event = await anext(events)
    except (StopAsyncIteration, httpx2.HTTPError, httpx2.StreamError, httpx2.SSEError):
        raise UpstreamProtocolError(config.server_id, problem) from None
    try:  # SECURITY: read by whoever will connect there, so that it is one address
        configured = httpx2.URL(config.url)
        endpoint = configured.join(event.data.strip())
    except (httpx2.InvalidURL, ValueError):
        raise UpstreamProtocolError(config.server_id, "names a message endpoint that is no address") from None
    foreign = endpoint.userinfo and endpoint.userinfo != configured.userinfo
    there = (endpoint.scheme, endpoint.host, endpoint.port)
    if foreign or there != (configured.scheme, configured.host, configured.port):
        raise UpstreamProtocolError(config.server_id, "names a message endpoint of another origin, which is refused")
    return str(endpoint)


def _refused(config: ServerConfig, status: int, exchange: Exchange) -> Exception:
    fault = exchange.fault(config)
    return fault or UpstreamProtocolError(
        config.server_id, f"answered its SSE stream with HTTP {status}; check the URL"
    )
