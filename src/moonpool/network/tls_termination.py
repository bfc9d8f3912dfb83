"""Connections to hosts with a credential: the host is the TLS server of the code and the TLS client of the server.

The code's client connects as if to the server and gets a certificate of the session's authority. Each of its requests
is read, checked, given the credential and sent to the server, whose certificate is verified against the trusted roots;
answers come back without the credential. Requests follow each other on both connections; when one side closes, the
other is closed. HTTP/1.1 only. What is passed on of a message: `credential_requests`.

SECURITY: the credential is sent over TLS to a server that has proved to be `host`, and nowhere else. It is not in what
is returned, raised or logged here. What is not covered: docs/how-to/network.md.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import h11
from anyio import BrokenResourceError, EndOfStream
from anyio.streams.tls import TLSStream

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.credential_requests import (
    incoming_response,
    outgoing_request,
    secret_values,
)
from moonpool.network.forwarding import INTERIM_MAX, too_many_interim
from moonpool.network.http_side import GONE, CountedSocket, HttpSide
from moonpool.network.roots import upstream_context

if TYPE_CHECKING:
    from moonpool.network.credential_requests import MakeRedaction, Redaction
    from moonpool.network.session_ca import SessionAuthority
    from moonpool.network.session_network import ForwardSpec

HANDSHAKE_S_MAX: Final = 30.0
IDLE_S_MAX: Final = 75.0
"""Between two requests."""
_CLOSING_S_MAX: Final = 2.0
_DISTRUST: Final = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN")  # in the name of a client's alert
_UNKNOWN_ISSUER: Final = frozenset({18, 19, 20, 21})  # X509_V_ERR_*: self-signed, or an authority that is not known


async def forward_with_credential(spec: ForwardSpec, authority: SessionAuthority, redaction: MakeRedaction) -> Outcome:
    """Serve what the code sends on one connection, until either side closes it.

    Returns how it ended: of the last request, if that was refused. Raises what `spec.meter` raises; the caller closes
    the client's connection.
    """
    forwarding = _Forwarding(spec, authority.roots)
    try:
        await forwarding.run(authority, redaction)
    finally:
        forwarding.close()
    return forwarding.outcome


class _Forwarding:
    """One connection of the code and the one to the server that belongs to it."""

    def __init__(self, spec: ForwardSpec, roots: bytes) -> None:
        self.outcome = Outcome.DONE
        self._spec, self._roots = spec, roots
        self._host, self._meter = spec.host, spec.meter
        self._writer: asyncio.StreamWriter | None = None
        self._upstream: HttpSide | None = None

    def close(self) -> None:
        """Close the connection to the server at once."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def run(self, authority: SessionAuthority, redaction: MakeRedaction) -> None:
        """The code's handshake, and its requests one after the other."""
        socket = CountedSocket(*self._spec.client, first=self._spec.first, count=self._meter.up)
        try:
            async with asyncio.timeout(HANDSHAKE_S_MAX):
                context = await asyncio.to_thread(authority.server_context, self._host)
                stream = await TLSStream.wrap(socket, server_side=True, ssl_context=context, standard_compatible=False)
        except GONE as error:  # TimeoutError, too
            self.outcome = Outcome.FAILED
            if isinstance(error, ssl.SSLError) and any(word in (error.reason or "") for word in _DISTRUST):
                self._meter.refused(RefusedError(HTTPStatus.BAD_GATEWAY, Outcome.FAILED, self._distrusted))
            return
        guest = HttpSide(h11.SERVER, stream)
        redactor = await asyncio.to_thread(redaction, secret_values(self._spec.credential))
        await self._serve(guest, redactor)
        with suppress(*GONE):
            async with asyncio.timeout(_CLOSING_S_MAX):
                with suppress(*GONE):
                    await stream.unwrap()
                while True:  # a client that still sends would lose the answer if the connection were closed at once
                    await socket.receive()

    async def _serve(self, guest: HttpSide, redactor: Redaction) -> None:
        try:
            while (request := await self._next_request(guest)) is not None:
                await self._exchange(guest, request, redactor)
                assert self._upstream is not None
                if not (guest.next_cycle() and self._upstream.next_cycle()):
                    return
        except RefusedError as refusal:
            await self._refuse(guest, refusal)
        except h11.RemoteProtocolError as error:
            text = f"what was sent to {self._host} is not HTTP/1.1"
            # SECURITY: its text has what was sent, which is for the code alone; what is noted goes on record.
            await self._refuse(guest, RefusedError(error.error_status_hint, Outcome.MALFORMED, text), f": {error}")
        except GONE:
            self.outcome = Outcome.FAILED

    async def _refuse(self, guest: HttpSide, refusal: RefusedError, detail: str = "") -> None:
        self.outcome = refusal.outcome
        self._meter.refused(refusal)
        await guest.refuse(RefusedError(refusal.status, refusal.outcome, refusal.text + detail))

    @property
    def _distrusted(self) -> str:
        return (
            f"the code's client does not trust the session's certificate authority, which stands in for {self._host}; "
            "it must read the file that SSL_CERT_FILE names"
        )

    async def _next_request(self, guest: HttpSide) -> h11.Request | None:
        """The next request; None when either side has closed its connection, or for too long nothing came."""
        waiting = [asyncio.ensure_future(guest.next_event())]
        if self._upstream is not None:
            waiting.append(asyncio.ensure_future(self._upstream.next_event()))  # a server that closes meanwhile
        try:
            done, _ = await asyncio.wait(waiting, timeout=IDLE_S_MAX, return_when=asyncio.FIRST_COMPLETED)
            event = waiting[0].result() if done == {waiting[0]} else None
        except GONE:
            return None
        finally:
            await _cancelled(*waiting)
        return event if isinstance(event, h11.Request) else None

    async def _exchange(self, guest: HttpSide, request: h11.Request, redactor: Redaction) -> None:
        """One request and its answer, whose bodies may pass at the same time."""
        outgoing = outgoing_request(request, self._host, self._spec.port, self._spec.credential)
        if self._upstream is None:
            self._upstream = await self._connected()
        upstream = self._upstream
        self._meter.used_credential()
        with suppress(*GONE):  # then the answer, if there is one, says why
            await upstream.send(outgoing)
        up = asyncio.ensure_future(_pass_body(guest, upstream))
        down = asyncio.ensure_future(self._pass_answer(guest, upstream, request.method, redactor))
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            if not down.done():
                up.result()  # raises if the code's client is gone
            await down
        finally:
            await _cancelled(up, down)

    async def _connected(self) -> HttpSide:
        """The server, which has proved to be `host`. Raises RefusedError."""
        try:
            async with asyncio.timeout(HANDSHAKE_S_MAX):
                context = await asyncio.to_thread(upstream_context, self._roots)
                reader, self._writer = await self._spec.connect()
                socket = CountedSocket(reader, self._writer, count=self._meter.down)
                stream = await TLSStream.wrap(
                    socket, server_side=False, hostname=self._host, ssl_context=context, standard_compatible=False
                )
        except ssl.SSLCertVerificationError as error:
            text = f"the certificate of {self._host} cannot be verified: {error.verify_message}"
            remedy = "the operator can trust its authority with MOONPOOL_NETWORK_CA_FILE"
            told = f"{text}; {remedy}" if error.verify_code in _UNKNOWN_ISSUER else text
            raise RefusedError(HTTPStatus.BAD_GATEWAY, Outcome.FAILED, text, on_record=told) from None
        except TimeoutError:
            text = f"{self._host} did not answer within {HANDSHAKE_S_MAX:.0f} seconds"
            raise RefusedError(HTTPStatus.GATEWAY_TIMEOUT, Outcome.UNREACHABLE, text) from None
        except GONE as error:
            why = f": {error.reason}" if isinstance(error, ssl.SSLError) else ""
            text = f"{self._host} cannot be reached over TLS{why}"
            raise RefusedError(HTTPStatus.BAD_GATEWAY, Outcome.UNREACHABLE, text) from None
        return HttpSide(h11.CLIENT, stream)

    async def _pass_answer(self, guest: HttpSide, upstream: HttpSide, method: bytes, redactor: Redaction) -> None:
        try:
            response = await self._final_response(guest, upstream)
            status = response.status_code
            body = method != b"HEAD" and status not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}
            incoming = incoming_response(response, redactor, body=body)
        except h11.ProtocolError:
            text = f"{self._host} did not answer with HTTP/1.1"
            raise RefusedError(HTTPStatus.BAD_GATEWAY, Outcome.FAILED, text) from None
        await guest.send(incoming)
        stream = redactor.stream()
        while isinstance(event := await _body_event(upstream), h11.Data):
            if shown := stream.feed(bytes(event.data)):
                await guest.send(h11.Data(data=shown))
        if rest := stream.finish():
            await guest.send(h11.Data(data=rest))
        await guest.send(h11.EndOfMessage())  # without trailers: nobody asked for them

    async def _final_response(self, guest: HttpSide, upstream: HttpSide) -> h11.Response:
        for _ in range(INTERIM_MAX + 1):
            try:
                event = await upstream.next_event()
            except GONE:
                event = None
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                text = f"{self._host} closed the connection without an answer"
                raise RefusedError(HTTPStatus.BAD_GATEWAY, Outcome.FAILED, text)
            if event.status_code == HTTPStatus.CONTINUE:  # nobody needs the others
                await guest.send(h11.InformationalResponse(status_code=event.status_code, headers=[]))
        raise too_many_interim()


async def _pass_body(guest: HttpSide, upstream: HttpSide) -> None:
    """Send the body on, then wait for what comes after it. Raises if the code's client is gone or sends no HTTP."""
    while isinstance(event := await guest.next_event(), h11.Data):
        try:
            await upstream.send(h11.Data(data=bytes(event.data)))
        except GONE:
            return  # a server may answer and close before it has read all
    if not isinstance(event, h11.EndOfMessage):
        raise EndOfStream
    with suppress(*GONE):
        await upstream.send(h11.EndOfMessage())
    await guest.receive()


async def _body_event(upstream: HttpSide) -> Any:
    """The next part of an answer's body. Raises BrokenResourceError if it ends too early."""
    try:
        event = await upstream.next_event()
    except h11.ProtocolError:
        raise BrokenResourceError from None
    if not isinstance(event, h11.Data | h11.EndOfMessage):
        raise BrokenResourceError
    return event


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
