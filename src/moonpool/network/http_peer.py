"""One end of an HTTP/1.1 connection over TLS over asyncio's streams, counted."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import h11
from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from anyio.abc import ByteStream

from moonpool.network.plain_http import check_head, refusal_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.streams.tls import TLSStream

    from moonpool.network.connections import RefusedError

HEAD_BYTES_MAX: Final = 64 * 1024
GONE: Final = (EndOfStream, BrokenResourceError, ClosedResourceError, OSError, ssl.SSLError)
"""What a stream raises whose other side is gone."""
_CHUNK_BYTES: Final = 64 * 1024


class Counter(Protocol):
    """Takes note of what passes; may raise to end the connection."""

    def up(self, count: int) -> None:
        """Bytes came from the code."""
        ...

    def down(self, count: int) -> None:
        """Bytes came from the server."""
        ...

    def used_credential(self) -> None:
        """A request with the credential is about to be sent."""
        ...

    def refused(self, refusal: RefusedError, /) -> None:
        """The code is about to be told this instead of an answer."""
        ...


class HttpPeer:
    """One end of the HTTP connection, over TLS."""

    def __init__(self, stream: TLSStream, role: type[h11.CLIENT | h11.SERVER]) -> None:
        self._stream = stream
        self._http = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES_MAX)

    async def next_event(self) -> Any:
        """The next event. Raises h11.RemoteProtocolError, or what `GONE` names."""
        await asyncio.sleep(0)  # SECURITY: one piece may hold thousands of events; others have their turn between them
        check_head(self._http)
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await self.receive(eof=True)
            check_head(self._http)
        return event

    async def receive(self, *, eof: bool = False) -> None:
        """Take what comes next. Raises EndOfStream if nothing will, unless `eof` is asked for as an event."""
        try:
            data = await self._stream.receive(_CHUNK_BYTES)
        except EndOfStream:
            if not eof:
                raise
            data = b""
        self._http.receive_data(data)

    async def send(self, event: Any) -> None:
        """Send it, waiting while the other side does not read. Raises BrokenResourceError."""
        try:
            data = cast("bytes | None", self._http.send(event))
        except h11.LocalProtocolError:  # its text may hold a header
            raise BrokenResourceError from None
        if data:
            await self._stream.send(data)

    def next_cycle(self) -> bool:
        """Make ready for another request; whether there may be one."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def refuse(self, error: RefusedError) -> None:
        """Answer the request, unless its answer has begun."""
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        with suppress(*GONE):
            for event in refusal_events(error):
                await self.send(event)


class CountedSocket(ByteStream):
    """asyncio's two streams as anyio has them; `first` is what was read of them already.

    SECURITY: what is received is counted where it arrives, whether it is passed on or not. Reading raises what `count`
    raises.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        first: bytes = b"",
        count: Callable[[int], None],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._first, self._count = first, count

    async def receive(self, max_bytes: int = _CHUNK_BYTES) -> bytes:
        data, self._first = self._first, b""
        try:
            data = data or await self._reader.read(max_bytes)
        except OSError:
            raise BrokenResourceError from None
        if not data:
            raise EndOfStream
        self._count(len(data))
        return data

    async def send(self, item: bytes) -> None:
        try:
            self._writer.write(item)
            await self._writer.drain()
        except OSError:
            raise BrokenResourceError from None

    async def send_eof(self) -> None:
        self._writer.write_eof()

    async def aclose(self) -> None:
        self._writer.close()
