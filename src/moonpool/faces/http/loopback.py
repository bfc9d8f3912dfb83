"""A small HTTP/1.1 server for one ASGI application on loopback: one request per connection, everything bounded.

It stands beside a server on standard streams, so it takes no signal, starts no thread, writes nothing to stdout and
does nothing while nobody asks. `h11` parses; see docs/decisions/0037-token-figures-and-metrics.md.

SECURITY: it binds loopback addresses only (`LoopbackAddress`), takes heads of `HEAD_BYTES_MAX` and no bodies, gives a
connection `REQUEST_S` from its first byte to its last, and drops what comes above `CONNECTIONS_MAX`. Its socket is
close-on-exec: no server and no sandbox inherits it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.listening import LoopbackAddress

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping

    import h11

    Message = MutableMapping[str, Any]
    Application = Callable[
        [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
    ]

CONNECTIONS_MAX: Final = 8
HEAD_BYTES_MAX: Final = 8 * 1024
REQUEST_S: Final = 10.0
_CLOSE_S: Final = 1.0
_log = logging.getLogger(__name__)


class ListenError(MoonpoolError):
    """An address cannot be listened at. Nothing was started."""

    code = "listen_failed"
    fault = Fault.HOST


class Listener:
    """A bound socket; nobody is served yet."""

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
            remedy = f"choose another port, or {LoopbackAddress(address.host, 0).netloc} for one that is free"
            raise ListenError(f"{address.netloc} cannot be listened at: {why}; {remedy}") from None
        self.socket.setblocking(False)
        self.address = LoopbackAddress(address.host, self.socket.getsockname()[1])

    def close(self) -> None:
        self.socket.close()


@asynccontextmanager
async def serving(
    listener: Listener, application: Application, *, request_s: float = REQUEST_S
) -> AsyncGenerator[None]:
    """Serve `application` inside the block; at its end every connection is closed, and the socket."""
    open_now: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(open_now) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        open_now.add(task)
        try:
            async with asyncio.timeout(request_s):
                await _Exchange(reader, writer).answer(application)
        except (TimeoutError, OSError, EOFError):
            pass
        except asyncio.CancelledError:  # `serving` ends; nobody else waits for this task
            pass
        except Exception:  # noqa: BLE001  one request is lost, the others are not
            _log.exception("a bug while answering a request for metrics")
        finally:
            open_now.discard(task)
            if writer.transport.get_write_buffer_size():  # somebody who does not read
                writer.transport.abort()
            writer.close()

    server = await asyncio.start_server(connected, sock=listener.socket, limit=HEAD_BYTES_MAX, backlog=CONNECTIONS_MAX)
    try:
        yield
    finally:
        server.close()
        for task in tuple(open_now):
            task.cancel()
        if open_now:
            await asyncio.wait(open_now, timeout=_CLOSE_S)
        listener.close()


class _Exchange:
    """One request and its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11  # noqa: PLC0415  only who listens needs it

        self._h11 = h11
        self._reader, self._writer = reader, writer
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)

    async def answer(self, application: Application) -> None:
        """Read a head, let the application answer, and end."""
        try:
            request = await self._request()
        except self._h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint)
            return
        if request is None:
            return
        await application(_scope(request), _nothing_more, self._send)
        await self._flush()

    async def _request(self) -> h11.Request | None:
        while True:
            event = self._connection.next_event()
            if isinstance(event, self._h11.Request):
                return event
            if event is not self._h11.NEED_DATA:
                return None
            if not (data := await self._reader.read(HEAD_BYTES_MAX)):
                return None
            self._connection.receive_data(data)

    async def _refuse(self, status: int) -> None:
        if (
            self._connection.our_state is not self._h11.IDLE
            and self._connection.our_state is not self._h11.SEND_RESPONSE
        ):
            return
        await self._send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await self._send({"type": "http.response.body"})
        await self._flush()

    async def _send(self, message: Message) -> None:
        events: list[h11.Event]
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"connection", b"close")]
            events = [self._h11.Response(status_code=message["status"], headers=headers)]
        else:
            body = message.get("body", b"")
            events = [*([self._h11.Data(data=body)] if body else [])]
            if not message.get("more_body", False):
                events.append(self._h11.EndOfMessage())
        for event in events:
            self._writer.write(self._connection.send(event) or b"")

    async def _flush(self) -> None:
        """Everything is with the kernel before the connection is closed, and the client's rest was taken."""
        await self._writer.drain()
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with suppress(OSError):
            async with asyncio.timeout(_CLOSE_S):
                await self._reader.read(HEAD_BYTES_MAX)  # unread bytes would reset the connection before it is read


def _scope(request: h11.Request) -> Message:
    target, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": request.http_version.decode("ascii"),
        "method": request.method.decode("ascii"),
        "scheme": "http",
        "path": unquote(target.decode("ascii")),
        "raw_path": target,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
    }


async def _nothing_more() -> dict[str, Any]:
    return {"type": "http.disconnect"}
