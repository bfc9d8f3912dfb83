"""A server with a certificate of a test's own authority, and the host between it and clients, all on loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import h11
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from moonpool.network.rules import HeaderCredential
from moonpool.network.session_ca import SessionAuthority
from moonpool.network.session_network import ForwardSpec
from moonpool.network.tls_termination import forward_with_credential
from moonpool.redaction.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
    from pathlib import Path

    from moonpool.network.code_client import Dialled
    from moonpool.network.connections import Outcome, RefusedError

HOST: Final = "api.example.com"
SECRET: Final = "canary-0f3e9d/+token"
CREDENTIAL: Final = HeaderCredential("Authorization", f"Bearer {SECRET}")


@dataclass(frozen=True)
class Signer:
    """What signs the certificates of a test's servers, as a public authority does."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def roots(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def context(self, folder: Path, host: str = HOST, *, days: int = 1) -> ssl.SSLContext:
        """For a server of that name; its certificate has expired if `days` is negative."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _certificate(host, key, self.certificate.subject, self.key, days=days)
        chain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + leaf.public_bytes(Encoding.PEM)
        path = folder / f"{host}{days}.pem"
        path.write_bytes(chain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


@cache
def signer(name: str = "public") -> Signer:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return Signer(key, _certificate(None, key, subject, key, days=1))


def _certificate(
    host: str | None, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, issuer_key: Any, *, days: int
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(issuer if host is None else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if host is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


@dataclass
class Server:
    """A real TLS server. Each connection is `answer`ed request by request; heads and bodies are kept."""

    port: int = 0
    connections: int = 0
    requests: list[h11.Request] = field(default_factory=list[h11.Request])
    received: bytearray = field(default_factory=bytearray)  # every byte, decrypted

    def headers(self, at: int = -1) -> list[tuple[str, str]]:
        return [(name.decode(), value.decode()) for name, value in self.requests[at].headers.raw_items()]


class Talk:
    """One request as the server's side has it."""

    def __init__(self, server: Server, http: h11.Connection, reader: Any, writer: Any, request: h11.Request) -> None:
        self.server, self.request, self._http = server, request, http
        self._reader, self.writer = reader, writer

    @property
    def path(self) -> str:
        return self.request.target.decode()

    async def body(self) -> bytes:
        return b"".join([bytes(part) async for part in self.parts()])

    async def parts(self) -> AsyncIterator[bytes]:
        while not isinstance(event := await _event(self._http, self._reader, self.server), h11.EndOfMessage):
            assert isinstance(event, h11.Data), event
            yield bytes(event.data)

    async def interim(self, status: int) -> None:
        await self._send(h11.InformationalResponse(status_code=status, headers=[]))

    async def answer(self, body: bytes = b"", status: int = 200, **headers: str) -> None:
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        await self.head(status, [*named, ("Content-Length", str(len(body)))])
        await self.part(body)
        await self.end()

    async def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        await self._send(h11.Response(status_code=status, headers=headers))

    async def part(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def _send(self, event: Any) -> None:
        self.writer.write(self._http.send(event))
        await self.writer.drain()


async def _event(http: h11.Connection, reader: asyncio.StreamReader, server: Server) -> Any:
    while (event := http.next_event()) is h11.NEED_DATA:
        data = await reader.read(65536)
        server.received += data
        http.receive_data(data)
    return event


async def echo(talk: Talk) -> None:
    """The request as JSON."""
    body = await talk.body()
    headers = [[name.decode(), value.decode()] for name, value in talk.request.headers]
    said = {"method": talk.request.method.decode(), "path": talk.path, "headers": headers, "body": body.decode()}
    await talk.answer(json.dumps(said).encode(), Content_Type="application/json")


@asynccontextmanager
async def running(answer: Callable[[Talk], Any], context: ssl.SSLContext) -> AsyncGenerator[Server]:
    server, tasks = Server(), set[Any]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        server.connections += 1
        http = h11.Connection(h11.SERVER)
        with aborting(writer), suppress(OSError, h11.ProtocolError, AssertionError):
            while isinstance(request := await _event(http, reader, server), h11.Request):
                server.requests.append(request)
                await answer(Talk(server, http, reader, writer, request))
                if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                    break
                http.start_next_cycle()
            writer.close()
            await writer.wait_closed()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        await _end(listener, tasks)


def with_ends(request: str) -> bytes:
    """A request whose lines end as HTTP's do."""
    return request.replace("\r\n", "\n").replace("\n", "\r\n").encode()


@contextmanager
def aborting(writer: asyncio.StreamWriter) -> Generator[None]:
    """However it ends, no socket is left."""
    try:
        yield
    except asyncio.CancelledError:
        pass  # the callback of the listener would raise it
    finally:
        writer.transport.abort()


async def _end(listener: asyncio.Server, tasks: set[Any]) -> None:
    listener.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # the loop closes sockets a turn later


@dataclass
class Counted:
    """A `Counter` of one connection."""

    bytes_up: int = 0
    bytes_down: int = 0
    requests: int = 0
    refusals: list[str] = field(default_factory=list[str])
    on_record: list[str] = field(default_factory=list[str])

    def up(self, count: int) -> None:
        self.bytes_up += count

    def down(self, count: int) -> None:
        self.bytes_down += count

    def used_credential(self) -> None:
        self.requests += 1

    def refused(self, refusal: RefusedError) -> None:
        self.refusals.append(refusal.text)
        self.on_record.append(refusal.on_record)


@dataclass(frozen=True)
class Done:
    """What one connection came to."""

    requests: int
    outcome: Outcome


@dataclass
class Host:
    """Where a client in the sandbox arrives."""

    authority: SessionAuthority
    port: int = 0
    done: list[Done] = field(default_factory=list["Done"])
    meters: list[Counted] = field(default_factory=list[Counted])

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.bundle().decode())

    @asynccontextmanager
    async def client(
        self, name: str | None = HOST
    ) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        context = self.trust()
        if name is None:
            context.check_hostname = False
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=name or "")
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def ask(self, request: str | bytes) -> str:
        """Everything that comes back for these bytes, until the host closes the connection."""
        async with self.client() as (reader, writer):
            writer.write(request if isinstance(request, bytes) else with_ends(request))
            return (await reader.read()).decode()


@asynccontextmanager
async def hosted(
    connect: Callable[[], Awaitable[Dialled]],
    *,
    port: int = 443,
    credential: HeaderCredential = CREDENTIAL,
    roots: bytes | None = None,
) -> AsyncGenerator[Host]:
    host = Host(SessionAuthority([HOST], roots=signer().roots if roots is None else roots))
    tasks = set[Any]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        host.meters.append(meter := Counted())
        with aborting(writer):
            spec = ForwardSpec(
                client=(reader, writer),
                first=b"",
                host=HOST,
                port=port,
                credential=credential,
                connect=connect,
                meter=meter,
            )
            outcome = await forward_with_credential(spec, host.authority, Redactor.of_values)
            host.done.append(Done(meter.requests, outcome))

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    host.port = listener.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        await _end(listener, tasks)


def to(server: Server) -> Callable[[], Awaitable[Dialled]]:
    async def connect() -> Dialled:
        return await asyncio.open_connection("127.0.0.1", server.port)

    return connect
