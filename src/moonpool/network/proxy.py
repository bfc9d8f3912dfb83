"""The host's HTTP proxy for one sandbox, on the listening socket that the sandbox handed over before any code ran.

It takes `CONNECT host:port`, for TLS, and requests for `http://` addresses. For each connection: the rules of the
session as they are now, then `destinations`, then a tunnel whose TLS must name the same host, or one request
(`plain_http`), or, for a domain with a credential, TLS that the host itself ends (`Forward`).

SECURITY: what comes out of the sandbox is hostile. Headers, time, connections and bytes are bounded, nothing of it is
evaluated or logged, and no name is resolved that no rule allows. What the rules no longer allow is ended at once.
INVARIANT: a connection is on record before anything is dialled for it, and again when it has ended, by whatever.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import h11

from moonpool.core.errors import MoonpoolError
from moonpool.network.connections import Connection, NetworkLimits, Outcome, Places, RefusedError
from moonpool.network.destinations import Destinations
from moonpool.network.plain_http import HttpSide, forward_request
from moonpool.network.relay import Allowance, Meter, relay
from moonpool.network.rules import NetworkRules, address_literal, host_name
from moonpool.network.sni import ServerNameCheck, ServerNameError
from moonpool_wire.ratelimit import TokenBucket

if TYPE_CHECKING:
    import socket
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from moonpool.network.rules import DomainRule, HeaderCredential

_CONNECTIONS_PER_SECOND: Final = 50.0
_CONNECTIONS_BURST: Final = 200.0
_PORT_BYTES_MAX: Final = 5
_CLOSE_S: Final = 5.0
_PIECE_BYTES: Final = 16 * 1024

Dialled: TypeAlias = "tuple[StreamReader, StreamWriter]"
Connect: TypeAlias = "Callable[[str, int], Awaitable[Dialled]]"


class Forward(Protocol):
    """Ends TLS for a domain with a credential; the client has been answered 200. Raises what `meter` raises."""

    async def __call__(
        self,
        client: Dialled,
        first: bytes,
        where: tuple[str, int],
        credential: HeaderCredential,
        connect: Connect,
        meter: Meter,
    ) -> Outcome:
        """`first` was read from the client already; `where` is host and port; `connect` connects to them."""
        ...


@dataclass(slots=True, kw_only=True)
class SessionNetwork:
    """What one session may reach, whatever sandboxes it has: its rules as they are now, and what it used."""

    rules: NetworkRules
    record: Callable[[Connection], Awaitable[None]]  # see `NetworkProxy`
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    destinations: Destinations = field(default_factory=Destinations)
    places: Places = field(default_factory=Places)
    forward: Forward | None = None  # None: no domain with a credential can be reached
    allowance: Allowance = field(init=False)
    connections: int = field(default=0, init=False)
    total: int = field(default=0, init=False)
    proxies: set[NetworkProxy] = field(default_factory=set["NetworkProxy"], init=False)

    def __post_init__(self) -> None:
        self.allowance = Allowance(self.limits.bytes_max)

    def check_total(self) -> None:
        """Count one more connection that is allowed. Raises RefusedError."""
        self.total += 1
        if self.total > self.limits.connections_total_max:
            why = f"this session has made the {self.limits.connections_total_max:,} connections that it may"
            raise RefusedError(403, Outcome.TOO_MANY, why)

    def change(self, rules: NetworkRules) -> None:
        """Other rules from now on; connections that they do not allow are ended."""
        self.rules = rules
        for proxy in self.proxies:
            proxy.end_disallowed()

    def serve(self, listener: socket.socket) -> NetworkProxy:
        """A proxy on `listener`, which stays its owner's. Raises OSError."""
        return NetworkProxy(self, listener)


class NetworkProxy:
    """Accepts and serves the connections of one sandbox until it is closed."""

    def __init__(self, network: SessionNetwork, listener: socket.socket) -> None:
        self._network, self._listener = network, listener.dup()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._open: dict[asyncio.Task[None], tuple[Connection, DomainRule | None]] = {}
        self._accepting = asyncio.ensure_future(self._accept())
        network.proxies.add(self)

    async def close(self) -> None:
        """End all connections; return when each is on record. Idempotent."""
        self._network.proxies.discard(self)
        self._accepting.cancel()
        for task in self._open:
            task.cancel()
        await asyncio.gather(self._accepting, *self._open, return_exceptions=True)
        self._listener.close()

    def end_disallowed(self) -> None:
        """End the connections that the rules, which have changed, do not allow."""
        for task, (connection, rule) in self._open.items():
            if rule is not None and self._network.rules.rule_for(connection.host, connection.port) != rule:
                task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(rate=_CONNECTIONS_PER_SECOND, burst=_CONNECTIONS_BURST)
        while True:
            await self._has_room.wait()
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:  # this process has no descriptors left, or the other side has gone already
                await asyncio.sleep(0.1)
                continue
            self._begin(accepted)
            if (wait_s := bucket.take(1, loop.time())) > 0:
                await asyncio.sleep(wait_s)

    def _begin(self, accepted: socket.socket) -> None:
        connection = Connection()
        task = asyncio.ensure_future(self._serve(accepted, connection))
        self._open[task] = connection, None
        self._network.connections += 1
        # SECURITY: each takes a descriptor of this process, also while it says nothing; so many wait to be refused
        if len(self._open) >= 2 * self._network.limits.connections_max:
            self._has_room.clear()

        def ended(task: asyncio.Task[None]) -> None:
            if connection.outcome is Outcome.OPEN:  # it was given up before it began
                accepted.close()
            _, rule = self._open.pop(task)
            self._has_room.set()
            self._network.connections -= 1
            self._network.places.taken -= rule is not None
            if not task.cancelled():
                task.exception()  # seen

        task.add_done_callback(ended)

    # --- one connection

    async def _serve(self, accepted: socket.socket, connection: Connection) -> None:
        began = time.monotonic()
        reader, writer = await _streams(accepted)
        client = HttpSide(h11.SERVER, reader, writer)
        connection.outcome = Outcome.CLOSED  # unless it ends in another way
        try:
            async with _ending(writer):
                try:
                    connection.outcome = await self._handle(client, reader, writer, connection)
                except (RefusedError, TimeoutError, MoonpoolError) as error:
                    refusal = _refusal(error, connection)
                    connection.outcome = refusal.outcome
                    connection.address = connection.address or refusal.address
                    await _refuse(client, refusal)
        except (OSError, h11.ProtocolError):
            connection.outcome = Outcome.FAILED
        finally:
            connection.seconds = time.monotonic() - began
            await asyncio.shield(asyncio.ensure_future(self._network.record(connection)))

    async def _handle(
        self, client: HttpSide, reader: StreamReader, writer: StreamWriter, connection: Connection
    ) -> Outcome:
        network, limits = self._network, self._network.limits
        request = await _request(client, limits.header_s)
        is_tunnel = request.method == b"CONNECT"
        target = b""
        if is_tunnel:
            connection.host, connection.port = _authority(request.target)
        else:
            connection.host, connection.port, target = _absolute(request.target)
        if network.connections > limits.connections_max or network.places.taken >= limits.all_connections_max:
            raise RefusedError(503, Outcome.TOO_MANY, "too many connections are open; close some first")
        rule = self._allowed(connection)
        network.allowance.check()
        network.check_total()
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = connection, rule
        network.places.taken += 1  # SECURITY: only now: what is not allowed takes no place from other sessions
        await network.record(replace(connection, outcome=Outcome.OPEN))
        connection.was_allowed = True
        async with asyncio.timeout(None) as deadline:
            meter = Meter(connection, network.allowance, limits, deadline)
            if not is_tunnel:
                await self._pass_request(client, request, target, rule, connection, meter)
            elif rule.credential is not None:
                return await self._end_tls(client, reader, writer, rule.credential, connection, meter)
            else:
                await self._tunnel(client, reader, writer, rule, connection, meter)
        return Outcome.DONE

    def _allowed(self, connection: Connection) -> DomainRule:
        rule = self._network.rules.rule_for(connection.host, connection.port)
        if rule is None:
            where = f"{connection.host}:{connection.port}"
            why = f"{where} is not among the domains that this session may reach; whoever runs the session can allow it"
            raise RefusedError(403, Outcome.NOT_ALLOWED, why)
        return rule

    async def _connect(self, rule: DomainRule, connection: Connection, host: str, port: int) -> Dialled:
        reader, writer, connection.address = await self._network.destinations.connect(
            host, port, allow_private=rule.allow_private
        )
        return reader, writer

    async def _tunnel(
        self,
        client: HttpSide,
        reader: StreamReader,
        writer: StreamWriter,
        rule: DomainRule,
        connection: Connection,
        meter: Meter,
    ) -> None:
        server = await self._connect(rule, connection, connection.host, connection.port)
        async with _ending(server[1]):
            _say_connected(client, writer)
            check = ServerNameCheck(None if address_literal(connection.host) else connection.host)
            try:
                hello = await _hello(client, reader, check, self._network.limits.header_s)
                meter.up(len(hello))
                server[1].write(hello)
                await relay((reader, writer), server, meter, check)
            except ServerNameError as error:
                raise RefusedError(403, Outcome.WRONG_NAME, str(error)) from None

    async def _end_tls(
        self,
        client: HttpSide,
        reader: StreamReader,
        writer: StreamWriter,
        credential: HeaderCredential,
        connection: Connection,
        meter: Meter,
    ) -> Outcome:
        if self._network.forward is None:
            raise RefusedError(501, Outcome.FAILED, f"{connection.host} has a credential, and nothing here can add it")

        async def connect(host: str, port: int) -> Dialled:
            """SECURITY: to what was allowed with this credential, and to nothing else."""
            if (host, port) != (connection.host, connection.port):
                raise RefusedError(403, Outcome.NOT_ALLOWED, f"{host}:{port} is not what was asked for")
            rule = self._allowed(connection)
            return await self._connect(rule, connection, host, port)

        _say_connected(client, writer)
        where = connection.host, connection.port
        first = client.http.trailing_data[0]
        return await self._network.forward((reader, writer), first, where, credential, connect, meter)

    async def _pass_request(
        self,
        client: HttpSide,
        request: h11.Request,
        target: bytes,
        rule: DomainRule,
        connection: Connection,
        meter: Meter,
    ) -> None:
        if rule.credential is not None:
            why = f"{connection.host} is reached with a credential, so over https only"
            raise RefusedError(403, Outcome.NOT_ALLOWED, why)
        host, port = connection.host, connection.port
        name = f"[{host}]" if ":" in host else host
        authority = name if port == 80 else f"{name}:{port}"
        reader, writer = await self._connect(rule, connection, host, port)
        async with _ending(writer):
            server = HttpSide(h11.CLIENT, reader, writer)
            await forward_request(client, request, target, authority.encode(), server, meter)


async def _streams(accepted: socket.socket) -> Dialled:
    """Streams of an accepted socket, as a server has them."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    made: asyncio.Future[StreamWriter] = loop.create_future()
    protocol = asyncio.StreamReaderProtocol(reader, lambda _, writer: made.set_result(writer))
    await loop.connect_accepted_socket(lambda: protocol, accepted)
    return reader, await made


async def _request(client: HttpSide, within_s: float) -> h11.Request:
    try:
        async with asyncio.timeout(within_s):
            event = await client.next_event()
    except TimeoutError:
        raise RefusedError(408, Outcome.TIMED_OUT, "no whole request came") from None
    except h11.RemoteProtocolError as error:
        status = error.error_status_hint
        raise RefusedError(status, Outcome.MALFORMED, "this is no request that a proxy takes") from None
    if not isinstance(event, h11.Request):
        raise ConnectionResetError
    return event


def _authority(target: bytes) -> tuple[str, int]:
    """Host and port of `CONNECT host:port`. Raises RefusedError."""
    host, _, port = target.decode("latin-1").rpartition(":")
    return _named(host), _port(port)


def _absolute(target: bytes) -> tuple[str, int, bytes]:
    """Host, port and path of a request for `http://...`. Raises RefusedError."""
    text = target.decode("latin-1")
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() != "http":
        why = "this is a proxy: it takes CONNECT, and requests for http:// addresses"
        raise RefusedError(400, Outcome.MALFORMED, why)
    at = min((rest.index(mark) for mark in "/?#" if mark in rest), default=len(rest))
    authority, path = rest[:at], rest[at:].partition("#")[0]
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, "80"
    return _named(host), _port(port), (path if path.startswith("/") else f"/{path}").encode("latin-1")


def _named(host: str) -> str:
    """SECURITY: one form, in which rules are compared, SNI is, and the name is resolved. Raises RefusedError."""
    name = address_literal(host) or (host_name(host) if host.isascii() else None)
    if name is None:
        raise RefusedError(400, Outcome.MALFORMED, "the request names no host that can be reached")
    return name


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _PORT_BYTES_MAX and 0 < int(text) < 65_536):
        raise RefusedError(400, Outcome.MALFORMED, "the request names no port")
    return int(text)


def _say_connected(client: HttpSide, writer: StreamWriter) -> None:
    writer.write(client.http.send(h11.Response(status_code=200, reason=b"Connection established", headers=[])) or b"")


async def _hello(client: HttpSide, reader: StreamReader, check: ServerNameCheck, within_s: float) -> bytes:
    """The client's first message, once it has named the host that was asked for. Raises ServerNameError."""
    hello = check.feed(client.http.trailing_data[0])
    try:
        async with asyncio.timeout(within_s):
            while not check.admitted:
                piece = await reader.read(_PIECE_BYTES)
                if not piece:
                    raise ConnectionResetError
                hello = check.feed(piece)
    except TimeoutError:
        raise ServerNameError("no TLS came") from None
    return hello


@contextlib.asynccontextmanager
async def _ending(writer: StreamWriter) -> AsyncGenerator[None]:
    """Close a stream when what is in it has gone out, but wait for that only for a while; break it off on an error."""
    try:
        yield
    except BaseException:
        writer.transport.abort()
        raise
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_S):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        pass
    finally:
        writer.transport.abort()


def _refusal(error: Exception, connection: Connection) -> RefusedError:
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, TimeoutError):
        return RefusedError(504, Outcome.TIMED_OUT, f"{connection.host} sent nothing for too long")
    return RefusedError(503, Outcome.FAILED, "the connection cannot be put on record, so it is not made")


async def _refuse(client: HttpSide, error: RefusedError) -> None:
    """Answer with the reason, where no answer has begun. The status line has it, too: most clients show no more."""
    if client.http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
        return
    body = f"Moonpool: {error.text}\n".encode("ascii", "replace")
    headers = [("content-type", "text/plain"), ("content-length", str(len(body))), ("connection", "close")]
    reason = f"Moonpool: {error.text}"[:300].encode("ascii", "replace")
    with contextlib.suppress(ConnectionError, h11.LocalProtocolError):
        await client.send(h11.Response(status_code=error.status, reason=reason, headers=headers))
        await client.send(h11.Data(data=body))
        await client.send(h11.EndOfMessage())
