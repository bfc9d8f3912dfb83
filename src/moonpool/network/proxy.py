"""The host's HTTP proxy for the sandboxes of one session, on the listening sockets that they handed over before any
code ran.

It takes `CONNECT host:port`, for TLS, and requests for `http://` addresses. What becomes of each connection:
`one_connection`. What the rules no longer allow is ended at once.

SECURITY: what comes out of the sandbox is hostile. Headers, time, connections and bytes are bounded, nothing of it is
evaluated or logged, and no name is resolved that no rule allows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.network.connections import NetworkLimits, Origin, Outcome, Places, RefusedError
from moonpool.network.destinations import Destinations
from moonpool.network.one_connection import ServedConnection
from moonpool.network.relay import Allowance
from moonpool_wire.ratelimit import TokenBucket

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from moonpool.network.connections import Connection
    from moonpool.network.one_connection import Forward
    from moonpool.network.rules import NetworkRules

_CONNECTIONS_PER_SECOND: Final = 50.0
_CONNECTIONS_BURST: Final = 200.0
_FULL_PAUSE_S: Final = 0.05
REFUSALS_KEPT: Final = 50
"""Reasons of the newest refusals of a session."""


@dataclass(slots=True, kw_only=True)
class SessionNetwork:
    """What one session may reach, whatever sandboxes it has: its rules as they are now, and what it used."""

    rules: NetworkRules
    record: Callable[[Connection], Awaitable[None]]  # see `ServedConnection`
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    destinations: Destinations = field(default_factory=Destinations)
    places: Places = field(default_factory=Places)
    forward: Forward | None = None  # None: no domain with a credential can be reached
    origin: Origin = field(default_factory=Origin)  # of connections that are taken now
    refusals: deque[tuple[Origin, str]] = field(default_factory=lambda: deque(maxlen=REFUSALS_KEPT), init=False)
    allowance: Allowance = field(init=False)
    connections: int = field(default=0, init=False)  # that count towards the limit
    sockets: int = field(default=0, init=False)  # with those that were refused and not read to their end yet
    total: int = field(default=0, init=False)
    proxies: set[NetworkProxy] = field(default_factory=set["NetworkProxy"], init=False)

    def __post_init__(self) -> None:
        self.allowance = Allowance(self.limits.bytes_max)

    @property
    def is_full(self) -> bool:
        """Whether further connections wait. Twice as many as may be are taken, and told that it is too many."""
        return self.sockets >= 2 * self.limits.connections_max

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
        self._open: dict[asyncio.Task[None], ServedConnection] = {}
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
        for task, served in self._open.items():
            if not served.is_allowed:
                task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(rate=_CONNECTIONS_PER_SECOND, burst=_CONNECTIONS_BURST)
        while True:
            if self._network.is_full:  # SECURITY: those that ask for nothing would take all descriptors of the host
                await asyncio.sleep(_FULL_PAUSE_S)
                continue
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:  # this process has no descriptors left, or the other side has gone already
                await asyncio.sleep(0.1)
                continue
            self._begin(accepted)
            if (wait_s := bucket.take(1, loop.time())) > 0:
                await asyncio.sleep(wait_s)

    def _begin(self, accepted: socket.socket) -> None:
        served = ServedConnection(self._network, accepted)
        task = asyncio.ensure_future(served.serve())
        self._open[task] = served
        self._network.sockets += 1

        def ended(task: asyncio.Task[None]) -> None:
            served.give_up()
            del self._open[task]
            self._network.sockets -= 1
            if not task.cancelled():
                task.exception()  # seen

        task.add_done_callback(ended)
