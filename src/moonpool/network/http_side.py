"""One end of an HTTP/1.1 connection, plain or over TLS, and the sockets below it, counted."""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import h11
from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from anyio.abc import ByteStream

from moonpool.network.forwarding import HEADERS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.network.connections import RefusedError

HEAD_BYTES_MAX: Final = 64 * 1024
GONE: Final = (EndOfStream, BrokenResourceError, ClosedResourceError, OSError, ssl.SSLError)
"""What a stream raises whose other side is gone."""
_CHUNK_BYTES: Final = 64 * 1024
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_REASON_CHARS_MAX: Final = 300


class HttpSide:
    """One end of an HTTP connection over `stream`."""

    def __init__(self, role: type[h11.CLIENT | h11.SERVER], stream: ByteStream) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._stream = stream

    async def next_event(self) -> Any:
        """What the other side says next. Raises h11.RemoteProtocolError, or what `GONE` names."""
        await asyncio.sleep(0)  # SECURITY: one piece may hold thousands of events; others have their turn between them
        self._check_head()
        while (event := self.http.next_event()) is h11.NEED_DATA:
            await self.receive(eof=True)
            self._check_head()
        return event

    async def receive(self, *, eof: bool = False) -> None:
        """Take what comes next. Raises EndOfStream if nothing will, unless `eof` is asked for as an event."""
        # SECURITY: h11 refuses what is incomplete beyond its limit, not a head that comes whole
        size = max(1, HEAD_BYTES_MAX - len(self.http.trailing_data[0])) if self._awaits_head else _CHUNK_BYTES
        try:
            data = await self._stream.receive(size)
        except EndOfStream:
            if not eof:
                raise
            data = b""
        self.http.receive_data(data)

    @property
    def _awaits_head(self) -> bool:
        return self.http.their_state in {h11.IDLE, h11.SEND_RESPONSE}

    def _check_head(self) -> None:
        """SECURITY: h11 takes long for each header, and thousands fit into a head. Raises h11.RemoteProtocolError."""
        if self._awaits_head:
            lines = _HEAD_END.split(self.http.trailing_data[0], 1)[0].count(b"\n")
            if lines > HEADERS_MAX:
                raise h11.RemoteProtocolError(f"more than {HEADERS_MAX} headers", error_status_hint=431)

    async def send(self, event: h11.Event) -> int:
        """Send it, waiting while the other side does not read; return its size in bytes. Raises what `GONE` names."""
        try:
            data = self.http.send(event) or b""
        except h11.LocalProtocolError:  # its text may hold a header
            raise BrokenResourceError from None
        if data:
            await self._stream.send(data)
        return len(data)

    def next_cycle(self) -> bool:
        """Make ready for another request; whether there may be one."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        return True

    async def refuse(self, error: RefusedError) -> bool:
        """Answer the request, unless its answer has begun; whether that was so."""
        if self.http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return False
        with suppress(*GONE):
            for event in _refusal_events(error):
                await self.send(event)
        return True


def _refusal_events(error: RefusedError) -> Sequence[h11.Event]:
    """The answer that gives the reason. Its status line has it, too: most clients show no more."""
    text = "".join(one if " " <= one <= "~" else "?" for one in f"Moonpool: {error.text}")
    headers = [("content-type", "text/plain"), ("content-length", str(len(text) + 1)), ("connection", "close")]
    head = h11.Response(status_code=error.status, reason=text[:_REASON_CHARS_MAX].encode(), headers=headers)
    return head, h11.Data(data=f"{text}\n".encode()), h11.EndOfMessage()


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
        count: Callable[[int], None] | None = None,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._first, self._count = first, count

    async def receive(self, max_bytes: int = _CHUNK_BYTES) -> bytes:
        data, self._first = self._first[:max_bytes], self._first[max_bytes:]
        try:
            data = data or await self._reader.read(max_bytes)
        except OSError:
            raise BrokenResourceError from None
        if not data:
            raise EndOfStream
        if self._count is not None:
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
