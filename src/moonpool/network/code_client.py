"""The code's end of a connection to the proxy: what it asks for is read, and it is told what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import h11

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.http_side import GONE, CountedSocket, HttpSide
from moonpool.network.relay import break_off

if TYPE_CHECKING:
    import socket
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncGenerator

    from moonpool.network.sni import ServerNameCheck

_CLOSE_S: Final = 5.0
_DRAIN_S: Final = 2.0
_HANDSHAKE: Final = b"\x16"
_PLAIN_REQUEST: Final = re.compile(rb"[A-Z]{3,16} [/*]")
_MAY_BE_PLAIN: Final = re.compile(rb"[A-Z]{1,16}|[A-Z]{3,16} ")  # what such a one may begin with
_UNRECOGNIZED_NAME: Final = bytes.fromhex("15030300020270")
"""A fatal alert in a record of its own, as a server sends it in the clear."""
_PIECE_BYTES: Final = 16 * 1024

Dialled: TypeAlias = "tuple[StreamReader, StreamWriter]"


class CodeClient:
    """An accepted connection: a request, then what its kind asks for."""

    def __init__(self, streams: Dialled) -> None:
        self.streams = streams
        self.side = HttpSide(h11.SERVER, CountedSocket(*streams))
        self._first = b""  # that came in the tunnel
        self._speaks_tls = False
        self._until = 0.0  # its first message is to be there

    @classmethod
    async def of(cls, accepted: socket.socket) -> Self:
        """The client behind an accepted socket."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        made: asyncio.Future[StreamWriter] = loop.create_future()
        protocol = asyncio.StreamReaderProtocol(reader, lambda _, writer: made.set_result(writer))
        await loop.connect_accepted_socket(lambda: protocol, accepted)
        return cls((reader, await made))

    async def request(self, within_s: float) -> h11.Request:
        """What it asks the proxy for. Raises RefusedError, or what `GONE` names."""
        try:
            async with asyncio.timeout(within_s):
                event = await self.side.next_event()
        except TimeoutError:
            raise RefusedError(408, Outcome.TIMED_OUT, "no whole request came") from None
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            raise RefusedError(status, Outcome.MALFORMED, "this is no request that a proxy takes") from None
        if not isinstance(event, h11.Request):
            raise ConnectionResetError
        return event

    async def tunnelled(self, within_s: float) -> h11.Request | None:
        """Answer a `CONNECT`. What comes then: a request over plain HTTP, or None, which is TLS as it seems.

        undici, which is Node's `fetch`, asks for `http://` addresses so. Raises RefusedError, or what `GONE` names.
        """
        head = h11.Response(status_code=200, reason=b"Connection established", headers=[])
        self.streams[1].write(self.side.http.send(head) or b"")
        self._first = self.side.http.trailing_data[0] or await self._piece(within_s)
        self._speaks_tls = self._first.startswith(_HANDSHAKE)
        while _MAY_BE_PLAIN.fullmatch(self._first):
            self._first += await self._piece(within_s)
        if _PLAIN_REQUEST.match(self._first) is None:
            return None
        self.side = HttpSide(h11.SERVER, CountedSocket(*self.streams, first=self._first))
        return await self.request(within_s)

    async def hello(self, check: ServerNameCheck, within_s: float) -> tuple[bytes, bytes]:
        """What it sent in a tunnel until it had named the host that was asked for, and what of it `check` has let pass.

        Raises RefusedError, ServerNameError, ConnectionError.
        """
        sent, passed = self._first, check.feed(self._first)
        while not check.admitted:
            piece = await self._piece(within_s)
            sent += piece
            passed = check.feed(piece)
        return sent, passed

    async def _piece(self, within_s: float) -> bytes:
        """The next bytes of a handshake, which all come `within_s` of the first wait."""
        loop = asyncio.get_running_loop()
        self._until = self._until or loop.time() + within_s
        try:
            async with asyncio.timeout_at(self._until):
                piece = await self.streams[0].read(_PIECE_BYTES)
        except TimeoutError:
            raise RefusedError(408, Outcome.TIMED_OUT, "the client said nothing for too long in its tunnel") from None
        if not piece:
            raise ConnectionResetError
        return piece

    async def refuse(self, error: RefusedError) -> bool:
        """Say that it is refused: with the reason where no answer has begun, by an alert where TLS is about to.

        Returns False where it cannot be said any more.
        """
        is_said = False
        with contextlib.suppress(*GONE, RuntimeError):  # TimeoutError, too; RuntimeError: its half was closed before
            async with asyncio.timeout(_DRAIN_S):
                is_said = await self.side.refuse(error)
            if not is_said and self._speaks_tls and error.outcome is Outcome.WRONG_NAME:
                self.streams[1].write(_UNRECOGNIZED_NAME)
                is_said = True
        if is_said:
            await self.drain()
        return is_said

    async def drain(self) -> None:
        """Take for a while what it still sends: it would lose its answer if the connection were closed at once."""
        with contextlib.suppress(OSError):  # TimeoutError, too
            async with asyncio.timeout(_DRAIN_S):
                self.streams[1].write_eof()
                while await self.streams[0].read(_PIECE_BYTES):
                    pass


@contextlib.asynccontextmanager
async def ending(writer: StreamWriter) -> AsyncGenerator[None]:
    """Close a stream when what is in it has gone out, but wait for that only for a while; break it off on an error."""
    try:
        yield
    except BaseException:
        break_off(writer)
        raise
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_S):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        pass
    finally:
        break_off(writer)
