"""What one session may reach, whatever sandboxes it has: its rules as they are now, and what it used."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from moonpool.network.connections import NetworkLimits, Origin, Outcome, Places, RefusedError
from moonpool.network.destinations import Destinations
from moonpool.network.relay import Allowance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.network.code_client import Dialled
    from moonpool.network.connections import Connection
    from moonpool.network.rules import HeaderCredential, NetworkRules

REFUSALS_KEPT: Final = 50
"""Reasons of the newest refusals of a session."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardSpec:
    """One connection of the code to a domain with a credential; the client has been answered 200."""

    client: Dialled
    first: bytes  # was read from the client already
    host: str
    port: int
    credential: HeaderCredential
    connect: Callable[[], Awaitable[Dialled]]  # to that host and port. Raises OSError, RefusedError
    meter: Counter


Forward: TypeAlias = "Callable[[ForwardSpec], Awaitable[Outcome]]"
"""Ends TLS for such a connection, and serves it to its end. Raises what its `meter` raises."""


@dataclass(slots=True, kw_only=True)
class SessionNetwork:
    """What one session may reach, whatever sandboxes it has: its rules as they are now, and what it used."""

    rules: NetworkRules
    record: Callable[[Connection], Awaitable[None]]  # see `one_connection`
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
    watchers: set[Callable[[], None]] = field(default_factory=set["Callable[[], None]"], init=False)  # of `rules`

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
        for rules_changed in self.watchers:
            rules_changed()
