"""The transport of revision 2024-11-05: `GET /sse` is the stream, `POST /message?sessionId=` takes messages.

Its successor is Streamable HTTP at `/mcp`; this is for clients that have nothing else. All revisions that have a
handshake are spoken here.

SECURITY: the id of a stream counts together with the caller who opened it; to anybody else it is unknown.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from moonpool.server.http.principal_servers import SSE_CONNECTIONS_MAX, ServiceBusyError
from moonpool.server.http.responses import EventResponse, rpc_error
from moonpool.server.mcp.gated_server import GatedServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp.server import Server

    from moonpool.server.http.principal_servers import PrincipalServer

MESSAGE_PATH: Final = "/message"
KEEP_ALIVE_S: Final = 15.0
_UNSENT_MAX: Final = 64
_log = logging.getLogger(__name__)


class SseConnection:
    """One stream. When it breaks, calls in progress go on to their end, which nobody hears."""

    takes_requests = True

    def __init__(self, server: Server[Any]) -> None:
        self.session_id = str(uuid.uuid4())
        self._server = GatedServer(server, to_client=self.send)
        self._unsent: asyncio.Queue[bytes | None] = asyncio.Queue(_UNSENT_MAX)
        self.left = False  # nobody reads any more

    @property
    def idle(self) -> asyncio.Event:
        return self._server.gate.idle

    async def take(self, value: object) -> None:
        """Take one decoded message or batch."""
        await self._server.gate.take(value, self)

    async def send(self, line: bytes, /) -> None:
        """A message of the server; waits while the client is slow."""
        if not self.left:
            await self._unsent.put(line)

    def end(self) -> None:
        """A reply has ended; the stream stays."""

    async def frames(self, path: str) -> AsyncGenerator[bytes]:
        """What the client is sent."""
        yield f"event: endpoint\ndata: {path}?sessionId={self.session_id}\n\n".encode()
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    line = await self._unsent.get()
            except TimeoutError:
                yield b": keep-alive\n\n"
                continue
            if line is None:
                return
            yield b"event: message\ndata: " + line.rstrip(b"\n") + b"\n\n"

    def leave(self) -> None:
        """The client is gone, or has to go. The stream ends; what runs goes on."""
        if self.left:
            return
        self.left = True
        while not self._unsent.empty():  # so that nobody waits for room
            self._unsent.get_nowait()
        self._unsent.put_nowait(None)

    async def wait_idle(self) -> None:
        """Wait until nothing runs, then end."""
        await self._server.gate.idle.wait()
        await self._server.close()

    async def close(self) -> None:
        """End its calls."""
        self.leave()
        await self._server.close()


def open_stream(servers: PrincipalServer, path: str) -> Response:
    """Answer `GET /sse`. Raises ServiceBusyError."""
    open_now = servers.sse_connections
    if len(open_now) >= SSE_CONNECTIONS_MAX:
        raise ServiceBusyError(f"{SSE_CONNECTIONS_MAX} streams of this caller are open; close some")
    connection = SseConnection(servers.make_server())
    open_now[connection.session_id] = connection
    _log.info("a client uses HTTP+SSE, which is deprecated; its successor is /mcp")
    return EventResponse(connection.frames(path), lambda: servers.end_sse(connection))


async def take_message(servers: PrincipalServer, session_id: str | None, value: object) -> Response:
    """Answer `POST /message`."""
    if not session_id:
        return rpc_error(400, "sessionId is missing; post to the address that the stream's first event names")
    connection = servers.sse_connections.get(session_id)
    if connection is None or connection.left:
        return rpc_error(404, "there is no such session here: its stream has ended, or was never open")
    await connection.take(value)
    return Response(status_code=202)
