"""One connection of the code through the proxy, from its request to its record.

The rules of the session as they are now say whether the host of the request is allowed; then it is a tunnel whose TLS
must name that host, one plain request (`plain_http`), asked for or in a tunnel, or, for a domain with a credential, TLS
that the host itself ends (`Forward`).

INVARIANT: a connection is on record before anything is dialled for it, and again when it has ended, by whatever.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import h11

from moonpool.core.audit import JournalError
from moonpool.core.errors import MoonpoolError
from moonpool.network.code_client import CodeClient, ending
from moonpool.network.connections import Connection, Outcome, RefusedError
from moonpool.network.forwarding import check_framing
from moonpool.network.http_side import GONE, CountedSocket, HttpSide
from moonpool.network.plain_http import forward_request
from moonpool.network.relay import Meter, break_off, relay
from moonpool.network.request_target import plain_authority, plain_target, tunnel_target, tunnelled_target
from moonpool.network.rules import address_literal
from moonpool.network.session_network import ForwardSpec
from moonpool.network.sni import ServerAnswerError, ServerNameCheck, ServerNameError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Generator

    from moonpool.network.code_client import Dialled
    from moonpool.network.rules import DomainRule, HeaderCredential
    from moonpool.network.session_network import SessionNetwork


class ServedConnection:
    """An accepted connection, which `serve` serves once.

    It counts for its session from the beginning. SECURITY: it takes a place of the process only once it is allowed:
    silent ones of one session would take those of all others.
    """

    def __init__(self, network: SessionNetwork, accepted: socket.socket) -> None:
        self._network, self._accepted = network, accepted
        self._connection = Connection(origin=network.origin)
        self._rule: DomainRule | None = None  # that allowed it
        self._ends_by = ""
        self._counts = True
        self._has_place = False
        network.connections += 1

    @property
    def is_allowed(self) -> bool:
        """Whether the rules as they are now allow it as they did; one that has not been allowed yet comes to that."""
        where, before = self._connection, self._rule
        now = self._network.rules.rule_for(where.host, where.port)
        if before is None or now is None:
            return before is None
        return (now.credential, now.allow_private) == (before.credential, before.allow_private)

    def ends_by(self, reason: str) -> None:
        """It is about to be cancelled, for this reason."""
        self._ends_by = self._ends_by or reason

    def give_up(self) -> None:
        """It has ended, perhaps before it began to be served."""
        self._leave_place()
        if self._connection.outcome is Outcome.OPEN:
            self._accepted.close()

    def _leave_place(self) -> None:
        self._network.connections -= self._counts
        self._network.places.taken -= self._has_place
        self._counts = self._has_place = False

    async def serve(self) -> None:
        """Serve it to its end, and put it on record."""
        began, connection = time.monotonic(), self._connection
        client = await CodeClient.of(self._accepted)
        connection.outcome = Outcome.CLOSED  # unless it ends in another way
        try:
            async with ending(client.streams[1]):
                try:
                    connection.outcome = await self._answer(client)
                except (RefusedError, MoonpoolError, OSError) as error:
                    if isinstance(error, ConnectionError):
                        raise
                    refusal = _refusal(error, connection)
                    self._note(refusal)
                    self._leave_place()
                    connection.outcome = refusal.outcome
                    connection.address = connection.address or refusal.address
                    if not await client.refuse(refusal):
                        break_off(client.streams[1])
        except (*GONE, h11.ProtocolError):
            connection.outcome = Outcome.FAILED
        except Exception:
            connection.outcome = Outcome.FAILED
            raise
        finally:
            connection.seconds = time.monotonic() - began
            if connection.outcome is Outcome.CLOSED:
                connection.reason = self._ends_by
            await _finish(self._network.record(connection))

    async def _answer(self, client: CodeClient) -> Outcome:
        network, limits, connection = self._network, self._network.limits, self._connection
        request = await client.request(limits.header_s)
        is_tunnel = request.method == b"CONNECT"
        target = b""
        if is_tunnel:
            connection.host, connection.port = tunnel_target(request.target)
        else:
            connection.host, connection.port, target = plain_target(request.target)
        if network.connections > limits.connections_max or network.places.taken >= network.places.connections_max:
            raise RefusedError(503, Outcome.TOO_MANY, "too many connections are open; close some first")
        rule = self._allowing_rule()
        network.allowance.check()
        network.check_total()
        self._rule = rule
        self._has_place = True
        network.places.taken += 1
        connection.was_allowed = True  # before the wait: the journal has the record even if that is cancelled
        try:
            await network.record(replace(connection, outcome=Outcome.OPEN))
        except JournalError:
            connection.was_allowed = False
            raise
        async with asyncio.timeout(None) as deadline:
            meter = Meter(connection, network.allowance, limits, deadline, self._note)
            if not is_tunnel:
                await self._pass_request(client, request, target, rule, meter)
            elif rule.credential is not None:
                return await self._end_tls(client, rule.credential, meter)
            else:
                await self._tunnel(client, rule, meter)
        return Outcome.DONE

    def _note(self, refusal: RefusedError) -> None:
        """Keep the reason before the code has it: it is asked for as soon as the code has ended."""
        self._connection.reason = refusal.on_record
        self._network.refusals.append((self._connection.origin, refusal.text))

    def _allowing_rule(self) -> DomainRule:
        host, port = self._connection.host, self._connection.port
        rule = self._network.rules.rule_for(host, port)
        if rule is None:
            why = "is not among the domains that this session may reach; whoever runs the session can allow it"
            raise RefusedError(403, Outcome.NOT_ALLOWED, f"{host}:{port} {why}")
        return rule

    async def _dialled(self, rule: DomainRule) -> Dialled:
        connection = self._connection
        reader, writer, connection.address = await self._network.destinations.connect(
            connection.host, connection.port, allow_private=rule.allow_private
        )
        return reader, writer

    async def _tunnel(self, client: CodeClient, rule: DomainRule, meter: Meter) -> None:
        server = await self._dialled(rule)
        async with ending(server[1]):
            with self._checked_name() as check:
                request = await client.tunnelled(self._network.limits.header_s)
                if request is not None:
                    target = tunnelled_target(request, self._connection.host, self._connection.port)
                    await self._pass_on(client, request, target, server, meter)
                    return
                _, hello = await client.hello(check, self._network.limits.header_s)
                meter.up(len(hello))
                server[1].write(hello)
                await relay(client.streams, server, meter, check)

    @contextmanager
    def _checked_name(self) -> Generator[ServerNameCheck]:
        host, port = self._connection.host, self._connection.port
        try:
            yield ServerNameCheck(None if address_literal(host) else host)
        except ServerNameError as error:
            raise RefusedError(403, Outcome.WRONG_NAME, f"{host}:{port} was not reached: {error}") from None
        except ServerAnswerError as error:
            raise RefusedError(502, Outcome.FAILED, f"{host}:{port}: {error}") from None

    async def _end_tls(self, client: CodeClient, credential: HeaderCredential, meter: Meter) -> Outcome:
        host, port = self._connection.host, self._connection.port
        if self._network.forward is None:
            raise RefusedError(501, Outcome.FAILED, f"{host} has a credential, and nothing here can add it")

        async def connect() -> Dialled:
            return await self._dialled(self._allowing_rule())

        with self._checked_name() as check:
            if await client.tunnelled(self._network.limits.header_s) is not None:
                raise _https_only(host)
            first, _ = await client.hello(check, self._network.limits.header_s)
        return await self._network.forward(
            ForwardSpec(
                client=client.streams,
                first=first,
                host=host,
                port=port,
                credential=credential,
                connect=connect,
                meter=meter,
            )
        )

    async def _pass_request(
        self, client: CodeClient, request: h11.Request, target: bytes, rule: DomainRule, meter: Meter
    ) -> None:
        if rule.credential is not None:
            raise _https_only(self._connection.host)
        check_framing(request)  # before anything is dialled
        server = await self._dialled(rule)
        async with ending(server[1]):
            await self._pass_on(client, request, target, server, meter)

    async def _pass_on(
        self, client: CodeClient, request: h11.Request, target: bytes, server: Dialled, meter: Meter
    ) -> None:
        check_framing(request)
        authority = plain_authority(self._connection.host, self._connection.port)
        side = HttpSide(h11.CLIENT, CountedSocket(*server, count=meter.down))
        await forward_request(client.side, request, target, authority, side, meter)
        if client.side.http.their_state is not h11.DONE:
            await client.drain()


def _https_only(host: str) -> RefusedError:
    return RefusedError(403, Outcome.NOT_ALLOWED, f"{host} is reached with a credential, so over https only")


def _refusal(error: Exception, connection: Connection) -> RefusedError:
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, TimeoutError):
        return RefusedError(504, Outcome.TIMED_OUT, f"{connection.host} sent nothing for too long")
    if isinstance(error, JournalError):
        return RefusedError(503, Outcome.FAILED, "the connection cannot be put on record, so it is not made")
    if isinstance(error, MoonpoolError):
        text = f"{connection.host} cannot be reached from here now; the audit journal says why"
        return RefusedError(503, Outcome.FAILED, text, on_record=str(error))
    why = getattr(error, "strerror", None) or type(error).__name__
    return RefusedError(503, Outcome.FAILED, f"{connection.host} was not reached: {why}")


async def _finish(recording: Awaitable[None]) -> None:
    """Await it to its end, however often that is cancelled: whoever closes the proxy waits for the record."""
    future = asyncio.ensure_future(recording)
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({future})
    future.result()
