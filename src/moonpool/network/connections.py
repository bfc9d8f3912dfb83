"""What one connection came to, and how much a session may use of the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from secrets import token_hex


class Outcome(StrEnum):
    """How a connection ended, as it is put on record."""

    OPEN = "open"  # it begins; another record says how it ended
    DONE = "done"
    NOT_ALLOWED = "not_allowed"
    ADDRESS_REFUSED = "address_refused"  # the name leads to an address that is not public
    UNREACHABLE = "unreachable"  # no such name, or nobody answers
    WRONG_NAME = "wrong_name"  # TLS for another name than the one that was asked for
    MALFORMED = "malformed"  # not a request that a proxy takes
    TOO_MANY = "too_many"
    TOO_MUCH = "too_much"  # the session's bytes are used up
    TIMED_OUT = "timed_out"
    CLOSED = "closed"  # the session ended, or the domain was denied meanwhile
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Limits of one session's network."""

    connections_max: int = 32
    connections_total_max: int = 10_000  # over the life of the session: each leaves records
    bytes_max: int = 1024**3  # both ways, over the life of the session
    header_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose code ran when the host took a connection."""

    session_id: str = ""  # of branches the one that ran, or had run last
    execution: str = ""  # its run id; empty between two


@dataclass(slots=True, kw_only=True)
class Connection:
    """One connection through the proxy, while it lives and as it ended."""

    connection_id: str = field(default_factory=lambda: token_hex(16))
    origin: Origin = field(default_factory=Origin)
    host: str = ""  # as it was asked for; "" when nothing readable was
    port: int = 0
    address: str = ""  # the one that was dialled, or refused
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    outcome: Outcome = Outcome.OPEN
    with_credential: bool = False  # a request was sent with the domain's
    was_allowed: bool = False  # and so is on record since it began
    reason: str = ""  # one sentence about why it was refused, or broken off, where the proxy did that


@dataclass(slots=True)
class Places:
    """How many allowed connections all sessions of a process have open, and may have."""

    connections_max: int = 256
    taken: int = 0


class RefusedError(Exception):
    """Why a request is answered by the proxy itself. `text` is one line for people and models."""

    def __init__(self, status: int, outcome: Outcome, text: str, *, address: str = "", on_record: str = "") -> None:
        """SECURITY: code reads `text`, which names no setting and no path of this machine. `on_record` may."""
        super().__init__(text)
        self.status, self.outcome, self.text, self.address = status, outcome, text, address
        self.on_record = on_record or text
