"""A proxy on a loopback socket, and servers on loopback that stand for the internet."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.network.connections import Connection, NetworkLimits
from moonpool.network.destinations import Destinations
from moonpool.network.proxy import NetworkProxy
from moonpool.network.rules import NetworkRules, parse_domain
from moonpool.network.session_network import SessionNetwork

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncGenerator, Awaitable, Callable

PUBLIC = "93.184.215.14"
SERVER_HELLO = bytes.fromhex("160303002a 02000026 0303") + b"r" * 32 + bytes.fromhex("00 1301 00")
"""What a TLS server answers, as far as the host reads it."""


@dataclass
class Internet:
    """What the host reaches: every name has a public address, behind which `serve` answers; port 80 without TLS."""

    serve: Callable[[StreamReader, StreamWriter], Awaitable[None]]
    tls: ssl.SSLContext | None = None
    address: str = PUBLIC
    dialled: list[tuple[str, int]] = field(default_factory=list)
    port: int = 0
    plain_port: int = 0

    async def resolve(self, _host: str, _port: int) -> list[str]:
        return [self.address]

    async def dial(self, address: str, port: int) -> tuple[StreamReader, StreamWriter]:
        self.dialled.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self.plain_port if port == 80 else self.port)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        open_now: set[asyncio.Task[None]] = set()

        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            open_now.add(task)
            try:
                await self.serve(reader, writer)
            except OSError:
                pass
            finally:
                open_now.discard(task)
                writer.close()

        servers = [await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) for context in (self.tls, None)]
        self.port, self.plain_port = (server.sockets[0].getsockname()[1] for server in servers)
        try:
            yield
        finally:
            for server in servers:
                server.close()
            for task in tuple(open_now):
                task.cancel()
            await asyncio.gather(*open_now, return_exceptions=True)


@dataclass
class Proxied:
    """A running proxy and what it put on record."""

    network: SessionNetwork
    proxy: NetworkProxy
    port: int
    records: list[Connection]

    @property
    def ended(self) -> list[Connection]:
        return [one for one in self.records if one.outcome != "open"]

    async def connect(self) -> tuple[StreamReader, StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes, *, more: bytes = b"", eof: bool = False) -> bytes:
        """All that is answered to `request`; `more` is sent once the first of it has come."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            if eof:
                writer.write_eof()
            answer = b""
            if more:
                answer = await reader.readuntil(b"\r\n\r\n")
                writer.write(more)
            async with asyncio.timeout(20):
                return answer + await reader.read(-1)
        except ConnectionError:
            return answer
        finally:
            writer.close()

    async def status(self, request: bytes, **options: bytes) -> int:
        return int((await self.ask(request, **options)).split(b" ", 2)[1])


@asynccontextmanager
async def proxied(internet: Internet, *domains: str, limits: NetworkLimits | None = None) -> AsyncGenerator[Proxied]:
    """A proxy for `domains` in front of `internet`."""
    records: list[Connection] = []

    async def record(connection: Connection) -> None:
        from dataclasses import replace

        records.append(replace(connection))

    network = SessionNetwork(
        rules=NetworkRules(tuple(map(parse_domain, domains))),
        record=record,
        limits=limits or NetworkLimits(),
        destinations=Destinations(resolve=internet.resolve, dial=internet.dial),
    )
    async with internet.running():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            proxy = NetworkProxy(network, listener)
            try:
                yield Proxied(network, proxy, listener.getsockname()[1], records)
            finally:
                await proxy.close()


async def echo(reader: StreamReader, writer: StreamWriter) -> None:
    """Answers every byte with itself, and TLS with a ServerHello first."""
    while piece := await reader.read(65536):
        writer.write(SERVER_HELLO + piece if piece.startswith(b"\x16\x03") else piece)
        await writer.drain()


def client_hello(name: str | None) -> bytes:
    """What Python's TLS sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    out = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("nobody answered")
