"""HTTP/1.1 for the service: uvicorn's protocol on our event loop, everything bounded, and a drain at the end.

uvicorn's own server is not used: it handles signals, knows no limit for a head that arrives slowly or a client that
does not read, and waits without saying for what. See docs/decisions/0053-what-a-library-does-is-the-librarys.md.

SECURITY: a head is at most `HEAD_BYTES_MAX` and arrives within `HEAD_S`; a client that reads nothing for `STALLED_S` is
dropped. Above `connections_max()` connections the one that has waited longest without a request makes room, so that
nobody keeps others out by connecting only; where all have one, a new one gets 503. The socket is close-on-exec.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from moonpool.server.http.bounded_h11 import BoundedConnection
from moonpool.server.http.loopback import ListenError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONNECTIONS_MAX: Final = 1024
_SHARE: Final = 4
OPEN_FILES: Final = 2 * _SHARE * CONNECTIONS_MAX
"""The open files of a process that may have as many connections at an address and at its socket."""
HEAD_BYTES_MAX: Final = 32 * 1024
HEAD_S: Final = 10.0
KEEP_ALIVE_S: Final = 30
STALLED_S: Final = 30.0
DRAIN_S: Final = 10.0
_FED_BYTES: Final = 4096
_CLOSE_S: Final = 2.0
_BACKLOG: Final = 256
_POLL_S: Final = 0.02
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    b"content-length: 47\r\n\r\nthis service has as many connections as it may\n"
)
_requests_log = logging.getLogger(f"{__name__}.requests")
_requests_log.setLevel(logging.ERROR)  # our own bugs only; invalid requests must not fill the log


def connections_max() -> int:
    """Connections of one listener. SECURITY: nobody needs a credential for one, so all of them together leave most
    descriptors to sandboxes, servers and the database.
    """
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CONNECTIONS_MAX if open_files == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, open_files // _SHARE)


class ServiceListener:
    """A bound socket that does not serve yet. `host` is an IP address."""

    def __init__(self, host: str, port: int) -> None:
        """Bind. Raises ListenError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            # asyncio sets TCP_NODELAY only where it reads that this is TCP; without it answers wait 40 ms for an ACK.
            self.socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        except OSError as error:
            raise ListenError(f"{where} cannot be listened at: {error.strerror}") from None
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((host, port))
            self.socket.listen(_BACKLOG)
        except OSError as error:
            self.socket.close()
            why = error.strerror or error
            raise ListenError(f"{where} cannot be listened at: {why}; choose another address or --port 0") from None
        self.socket.setblocking(False)
        self.host, self.port = host, int(self.socket.getsockname()[1])

    @property
    def netloc(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def close(self) -> None:
        self.socket.close()


class Listener(Protocol):
    """Where connections come in: at an address (`ServiceListener`), or at a socket (`store.service_socket`)."""

    @property
    def socket(self) -> socket.socket: ...
    def close(self) -> None: ...


class HttpServer:
    """The connections of one listener."""

    def __init__(self, state: ServerState, server: asyncio.Server, listener: Listener) -> None:
        self._state, self._server, self._listener = state, server, listener

    def end_listening(self) -> None:
        """Accept nothing more."""
        self._server.close()
        self._listener.close()

    async def drain(self, seconds: float, *, busy: Callable[[], bool]) -> bool:
        """Accept nothing more and wait until every request is answered and nothing is `busy`; False: it took longer."""
        self.end_listening()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    for connection in tuple(self._state.connections):
                        connection.shutdown()  # when its request is answered
                    if not self._state.tasks and not busy():
                        return True
                    await asyncio.sleep(_POLL_S)
        return False

    async def close(self) -> None:
        """Break off what is left."""
        self._server.close()
        for connection in tuple(self._state.connections):
            if cast("_Connection", connection).is_answering:
                connection.transport.abort()
        for task in tuple(self._state.tasks):
            task.cancel()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=_CLOSE_S)


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


@asynccontextmanager
async def http_served(
    listener: Listener, application: ASGIApp, admits: Callable[[socket.socket], bool] = lambda _: True
) -> AsyncGenerator[HttpServer]:
    """Serve `application` inside the block; at its end all connections and the socket are closed.

    A connection that `admits` does not want is closed before anything is read of it.
    """

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        async def dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"date", _date(int(time.time())))]}
            await send(message)

        with suppress(asyncio.CancelledError):  # at the end; uvicorn would log it as a bug
            await application(scope, receive, dated)

    config = Config(
        answered,
        http=H11Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    config.load()
    state = ServerState()
    waiting: dict[_Connection, None] = {}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(config, state, waiting, admits), sock=listener.socket, backlog=_BACKLOG
    )
    served = HttpServer(state, server, listener)
    try:
        yield served
    finally:
        await served.close()
        listener.close()


class _Connection(H11Protocol):
    """One uvicorn connection, with limits on the number of connections and on the time of a head and of a stall."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        waiting: dict[_Connection, None],
        admits: Callable[[socket.socket], bool],
    ) -> None:
        """`waiting`: all connections without a request in progress, who waits longest first."""
        super().__init__(config, state, {})
        self.conn = BoundedConnection(HEAD_BYTES_MAX)
        self.logger, self.access_log = _requests_log, False
        self._waiting, self._admits = waiting, admits
        self._head_end: asyncio.TimerHandle | None = None
        self._stall_end: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        cycle = cast("Any", self.cycle)
        return cycle is not None and not cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._admits(transport.get_extra_info("socket")):
            transport.abort()
        elif len(self.connections) > connections_max() and not self._make_room():
            transport.write(_FULL)
            transport.close()
        else:
            self._waiting[self] = None
            self._head_end = self.loop.call_later(HEAD_S, transport.abort)

    def _make_room(self) -> bool:
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        del self._waiting[longest]
        longest.transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        """A head a little at a time: h11 bounds only one that is not whole yet, and a read may bring 256 KiB of it."""
        start = 0
        while start < len(data) and not self.transport.is_closing():
            end = start + _FED_BYTES if self.conn.their_state is h11.IDLE else len(data)
            super().data_received(data[start:end])
            start = end
        self._watch_head()
        if self.is_answering:
            self._waiting.pop(self, None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()
        if not self.is_answering and not self.transport.is_closing():
            self._waiting[self] = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  the connection knows better
        """Say what is wrong, if no answer has begun; else break the connection off. Nothing answers the request now."""
        if (cycle := cast("Any", self.cycle)) is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(self.conn.problem)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_end, self._stall_end):
            if timer is not None:
                timer.cancel()
        self._waiting.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_end = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stall_end is not None:
            self._stall_end.cancel()
        super().resume_writing()

    def _watch_head(self) -> None:
        """A clock runs while a head arrives, and while the rest of a body arrives whose request was answered."""
        in_head = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        in_rest = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if not in_head and not in_rest:
            if self._head_end is not None:
                self._head_end.cancel()
                self._head_end = None
        elif self._head_end is None:
            self._head_end = self.loop.call_later(HEAD_S, self.transport.abort)
