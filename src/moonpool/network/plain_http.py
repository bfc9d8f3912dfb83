"""One request over plain HTTP, for whoever asks the proxy for an `http://` address: read, sent on, answered.

Both sides are spoken with h11, never copied through: so a request is for the host that was allowed, whatever its
headers say, and a second one hidden behind it is not sent.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import h11

from moonpool.network.connections import Outcome, RefusedError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Iterable, Sequence

    from moonpool.network.relay import Meter

HEADER_BYTES_MAX: Final = 16 * 1024
HEADERS_MAX: Final = 200
INTERIM_MAX: Final = 16
"""Answers before the answer."""
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_PIECE_BYTES: Final = 64 * 1024
_REASON_CHARS_MAX: Final = 300
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
     b"trailer", b"upgrade", b"host"}
)  # fmt: skip


_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class HttpSide:
    """One end of a connection that speaks HTTP/1.1."""

    def __init__(
        self, role: type[h11.CLIENT | h11.SERVER], reader: StreamReader, writer: StreamWriter, *, first: bytes = b""
    ) -> None:
        """`first` was read already."""
        self.http = h11.Connection(role, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._reader, self._writer = reader, writer
        self.received, self.sent = len(first), 0
        if first:
            self.http.receive_data(first)

    async def next_event(self) -> h11.Event | type[h11.PAUSED]:
        """What the other side says next. Raises h11.RemoteProtocolError, ConnectionError."""
        await asyncio.sleep(0)  # SECURITY: one piece may hold thousands of events; others have their turn between them
        check_head(self.http)
        while (event := self.http.next_event()) is h11.NEED_DATA:
            is_head = self.http.their_state in {h11.IDLE, h11.SEND_RESPONSE}
            # SECURITY: h11 refuses what is incomplete beyond its limit, not a head that comes whole
            size = max(1, HEADER_BYTES_MAX - len(self.http.trailing_data[0])) if is_head else _PIECE_BYTES
            piece = await self._reader.read(size)
            self.received += len(piece)
            self.http.receive_data(piece)
            check_head(self.http)
        return event  # pyright: ignore[reportReturnType]

    async def send(self, event: h11.Event) -> int:
        """Say something to the other side; return how many bytes that is. Raises ConnectionError."""
        data = self.http.send(event) or b""
        self._writer.write(data)
        await self._writer.drain()
        self.sent += len(data)
        return len(data)


def check_head(http: h11.Connection) -> None:
    """SECURITY: h11 takes long for each header, and thousands fit into a head. Raises h11.RemoteProtocolError."""
    if http.their_state in {h11.IDLE, h11.SEND_RESPONSE}:
        lines = _HEAD_END.split(http.trailing_data[0], 1)[0].count(b"\n")
        if lines > HEADERS_MAX:
            raise h11.RemoteProtocolError(f"more than {HEADERS_MAX} headers", error_status_hint=431)


def refusal_events(error: RefusedError) -> Sequence[h11.Event]:
    """The answer that gives the reason. Its status line has it, too: most clients show no more."""
    text = "".join(one if " " <= one <= "~" else "?" for one in f"Moonpool: {error.text}")
    headers = [("content-type", "text/plain"), ("content-length", str(len(text) + 1)), ("connection", "close")]
    head = h11.Response(status_code=error.status, reason=text[:_REASON_CHARS_MAX].encode(), headers=headers)
    return head, h11.Data(data=f"{text}\n".encode()), h11.EndOfMessage()


def check_framing(request: h11.Request) -> None:
    """Raise RefusedError where servers disagree on the end of the request."""
    if {name for name, _ in request.headers} >= _FRAMING:
        raise RefusedError(400, Outcome.MALFORMED, "a request with Content-Length and Transfer-Encoding")


async def forward_request(
    client: HttpSide, request: h11.Request, target: bytes, authority: bytes, server: HttpSide, meter: Meter
) -> None:
    """Send `request` for `target` on, and its answer back. Raises RefusedError, ConnectionError."""
    headers = [*_kept(request.headers), (b"host", authority), (b"connection", b"close")]
    sending = asyncio.ensure_future(_send_request(client, server, request.method, target, headers, meter))
    answering = asyncio.ensure_future(_send_answer(client, server, meter))
    ways = (sending, answering)
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and sending.exception() is None:  # else the answer is not to be waited for
            await asyncio.wait((answering,))
    finally:
        for way in ways:
            way.cancel()
        ended = await asyncio.gather(*ways, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _send_request(
    client: HttpSide,
    server: HttpSide,
    method: bytes,
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    meter: Meter,
) -> None:
    meter.up(await server.send(h11.Request(method=method, target=target, headers=headers)))
    try:
        while isinstance(event := await client.next_event(), h11.Data):
            meter.up(await server.send(h11.Data(data=event.data)))
    except h11.RemoteProtocolError:
        raise RefusedError(400, Outcome.MALFORMED, "the body of the request is not HTTP") from None
    if isinstance(event, h11.EndOfMessage):
        meter.up(await server.send(h11.EndOfMessage()))


async def _send_answer(client: HttpSide, server: HttpSide, meter: Meter) -> None:
    counted = interim = 0
    try:
        while True:
            event = await server.next_event()
            meter.down(server.received - counted)
            counted = server.received
            if isinstance(event, h11.InformationalResponse):
                interim += 1
                if interim > INTERIM_MAX:
                    why = f"the server sent more than {INTERIM_MAX} interim answers"
                    raise RefusedError(502, Outcome.FAILED, why)
                if event.status_code != 101:  # there is no upgrade through a proxy of requests
                    await client.send(h11.InformationalResponse(status_code=event.status_code, headers=[]))
            elif isinstance(event, h11.Response):
                headers = [*_kept(event.headers), (b"connection", b"close")]
                await client.send(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
            elif isinstance(event, h11.Data):
                await client.send(h11.Data(data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                await client.send(h11.EndOfMessage())
                return
            else:
                raise ConnectionResetError
    except h11.RemoteProtocolError:
        raise RefusedError(502, Outcome.FAILED, "the server's answer is not HTTP") from None


def _kept(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers that are for the other end, without those that a `Connection` header names."""
    named = {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}
    gone = _HOP_BY_HOP | (named - _FRAMING)
    kept = [(name, value) for name, value in headers if name not in gone]
    if {name for name, _ in kept} >= _FRAMING:  # of an answer: its chunks count
        kept = [pair for pair in kept if pair[0] != b"content-length"]
    return kept
