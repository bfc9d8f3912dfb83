"""One request over plain HTTP, for whoever asks the proxy for an `http://` address: read, sent on, answered.

Both sides are spoken with h11, never copied through: so a request is for the host that was allowed, whatever its
headers say, and a second one hidden behind it is not sent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import h11
from anyio import EndOfStream

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.forwarding import FRAMING, INTERIM_MAX, hop_by_hop, too_many_interim
from moonpool.network.http_side import GONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.network.http_side import HttpSide
    from moonpool.network.relay import Meter


async def forward_request(
    client: HttpSide, request: h11.Request, target: bytes, authority: bytes, server: HttpSide, meter: Meter
) -> None:
    """Send `request` for `target` on, and its answer back. Raises RefusedError, or what `GONE` names."""
    headers = [*_kept(request.headers), (b"host", authority), (b"connection", b"close")]
    outgoing = h11.Request(method=request.method, target=target, headers=headers)
    sending = asyncio.ensure_future(_send_request(client, server, outgoing, meter))
    answering = asyncio.ensure_future(_send_answer(client, server))
    try:
        await asyncio.wait((sending, answering), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            sending.result()  # raises if the code's client is gone
        await answering
    finally:
        for way in (sending, answering):
            way.cancel()
        await asyncio.gather(sending, answering, return_exceptions=True)


async def _send_request(client: HttpSide, server: HttpSide, outgoing: h11.Request, meter: Meter) -> None:
    async def send(event: h11.Event) -> bool:
        try:
            meter.up(await server.send(event))
        except GONE:
            return False  # a server may answer and close before it has read all; its answer is still to be read
        return True

    goes_on = await send(outgoing)
    while goes_on:
        try:
            event = await client.next_event()
        except h11.RemoteProtocolError:
            raise RefusedError(400, Outcome.MALFORMED, "the body of the request is not HTTP") from None
        if not isinstance(event, h11.Data | h11.EndOfMessage):
            raise EndOfStream
        is_data = isinstance(event, h11.Data)
        goes_on = await send(h11.Data(data=event.data) if is_data else h11.EndOfMessage()) and is_data


async def _send_answer(client: HttpSide, server: HttpSide) -> None:
    interim = 0
    while True:
        event = await _answered(server)
        if isinstance(event, h11.InformationalResponse):
            interim += 1
            if interim > INTERIM_MAX:
                raise too_many_interim()
            await client.send(h11.InformationalResponse(status_code=event.status_code, headers=[]))
        elif isinstance(event, h11.Response):
            headers = [*_kept(event.headers), (b"connection", b"close")]
            await client.send(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
        elif isinstance(event, h11.Data):
            await client.send(h11.Data(data=event.data))
        else:
            await client.send(h11.EndOfMessage())
            return


async def _answered(server: HttpSide) -> Any:
    """What the server says next. Raises RefusedError if that is no part of an answer."""
    try:
        event = await server.next_event()
    except GONE:
        raise RefusedError(502, Outcome.FAILED, "the server broke the connection off") from None
    except h11.RemoteProtocolError:
        raise RefusedError(502, Outcome.FAILED, "the server's answer is not HTTP") from None
    if not isinstance(event, h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage):
        raise RefusedError(502, Outcome.FAILED, "the server closed the connection without an answer")
    return event


def _kept(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers that are for the other end."""
    gone = hop_by_hop(headers) | {b"host"}
    kept = [(name, value) for name, value in headers if name not in gone]
    if {name for name, _ in kept} >= FRAMING:  # of an answer: its chunks count
        kept = [pair for pair in kept if pair[0] != b"content-length"]
    return kept
