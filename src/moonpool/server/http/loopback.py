"""A small HTTP/1.1 server for an ASGI application on loopback: one request per connection, everything bounded.

It runs beside a server on standard streams, so it handles no signals, starts no threads, writes nothing to stdout and
is idle between requests: uvicorn's protocol runs on our event loop, without uvicorn's server, which handles signals and
wakes up ten times a second. See docs/decisions/0053-what-a-library-does-is-the-librarys.md.

SECURITY: it binds loopback addresses only (`LoopbackAddress`), accepts heads of at most `HEAD_BYTES_MAX`, buffers at
most 64 KiB of an unread body, limits a connection to `REQUEST_S` from first byte to last, and drops connections above
`CONNECTIONS_MAX`. An application whose answers may take longer (`Patience`) limits what follows the head itself. Its
socket is close-on-exec: no upstream and no sandbox inherits it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.net.loopback_addresses import LoopbackAddress

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    import h11

    Application = Callable[[Any, Any, Any], Awaitable[None]]

CONNECTIONS_MAX: Final = 8
HEAD_BYTES_MAX: Final = 8 * 1024
REQUEST_S: Final = 10.0
_FED_BYTES: Final = 1024
_CLOSE_S: Final = 1.0
_requests_log = logging.getLogger(f"{__name__}.requests")
_requests_log.setLevel(logging.ERROR)  # our own bugs only; invalid requests must not fill the log


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Of an application whose answers wait for others: only heads meet the time limit."""

    connections_max: int
    message_bytes_max: int
    """Of a WebSocket."""


class ListenError(MoonpoolError):
    """The address cannot be bound. Nothing was started."""

    code = "listen_failed"
    fault = Fault.HOST


class Listener:
    """A bound socket that does not serve yet."""

    def __init__(self, address: LoopbackAddress) -> None:
        """Bind. Raises ListenError."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self.socket = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise ListenError(f"{address.netloc} cannot be listened at: {error.strerror}") from None
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((address.host, address.port))
            self.socket.listen(CONNECTIONS_MAX)
        except OSError as error:
            self.socket.close()
            why = error.strerror or error
            remedy = f"choose another port, or port 0 for one that is free ({LoopbackAddress(address.host, 0).netloc})"
            raise ListenError(f"{address.netloc} cannot be listened at: {why}; {remedy}") from None
        self.socket.setblocking(False)
        self.address = LoopbackAddress(address.host, self.socket.getsockname()[1])

    def close(self) -> None:
        self.socket.close()


@asynccontextmanager
async def serving(
    listener: Listener, application: Application, *, request_s: float = REQUEST_S, patience: Patience | None = None
) -> AsyncGenerator[None]:
    """Serve `application` inside the block; at its end all connections and the socket are closed.

    With `patience` it is served WebSockets, too.
    """

    async def answered(scope: Any, receive: Any, send: Any) -> None:
        with suppress(asyncio.CancelledError):  # at the end of `serving`; uvicorn would log it as a bug
            await application(scope, receive, send)

    config = Config(
        answered,
        http=H11Protocol,
        ws="none" if patience is None else "websockets-sansio",
        ws_max_size=0 if patience is None else patience.message_bytes_max,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    config.load()
    state = ServerState()
    state.default_headers = [(b"connection", b"close")]
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _OneRequest(config, state, request_s, patience), sock=listener.socket, backlog=CONNECTIONS_MAX
    )
    try:
        yield
    finally:
        server.close()
        for connection in tuple(state.connections):
            connection.transport.abort()
        for task in tuple(state.tasks):
            task.cancel()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=_CLOSE_S)
        listener.close()


class _OneRequest(H11Protocol):
    """One uvicorn connection, with limits on the number of connections and the time of each."""

    def __init__(self, config: Config, state: ServerState, request_s: float, patience: Patience | None) -> None:
        super().__init__(config, state, {})
        self.logger, self.access_log = _requests_log, False
        self._request_s, self._patience = request_s, patience
        self._connections_max = CONNECTIONS_MAX if patience is None else patience.connections_max
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._connections_max:
            transport.abort()
        else:  # SECURITY: also for a client that sends slowly, sends nothing or does not read
            self._end = self.loop.call_later(self._request_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        """A little at a time: h11 bounds only a head that is not whole yet, and one read may bring 256 KiB of it."""
        for start in range(0, len(data), _FED_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + _FED_BYTES])
        if self._patience is not None and cast("object", self.cycle) is not None:
            self._stop_clock()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on the connection is the WebSocket's."""
        self._stop_clock()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _stop_clock(self) -> None:
        if self._end is not None:
            self._end.cancel()
