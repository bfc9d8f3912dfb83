"""What a webhook is: when it is tried again, how it is signed, where it may go. Pure."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import random
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

URL_CHARS_MAX: Final = 2048
AFTER_S: Final = (5.0, 30.0, 120.0, 600.0, 2700.0)
"""How long after each attempt the next is made: six within an hour."""
_JITTER: Final = 0.2
_SECRET_BYTES: Final = 32
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One result that is owed to an address."""

    organisation: str
    delivery_id: str
    trace_id: str
    url: str
    attempts: int  # that were made


@dataclass(frozen=True, slots=True)
class PrivateHosts:
    """Where webhooks may go beside the public internet, as an operator lists it."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> PrivateHosts:
        """Names, addresses and networks, separated by commas. Raises ConfigError."""
        names: set[str] = set()
        networks: list[Network] = []
        for word in filter(None, (part.strip().lower() for part in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(word))
            except ValueError:
                if not _NAME.fullmatch(word) or word.rpartition(".")[2][:1].isdigit():
                    raise ConfigError(
                        f"webhook_private_hosts names {word[:80]!r}, which is no host name, address or network; write "
                        "hooks.internal, 10.1.2.3 or 10.0.0.0/8"
                    ) from None
                names.add(word)
        return cls(frozenset(names), tuple(networks))

    def allows_address(self, address: str) -> bool:
        """Whether an IP address is listed. False for what is none."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self.networks)

    def allows_name(self, host: str) -> bool:
        return host in self.names


def is_host(text: str, *, in_brackets: bool = False) -> bool:
    """Whether `text`, in lower case, is written as the name or address of a host; in brackets only IPv6 is."""
    if not in_brackets:
        return _NAME.fullmatch(text) is not None
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def new_delivery_id() -> str:
    """What a receiver knows a webhook by, the same at every attempt."""
    return f"whk_{secrets.token_hex(16)}"


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(_SECRET_BYTES)}"


def retry_s(attempts: int) -> float | None:
    """How long until the next attempt, after so many; None: there is none."""
    if attempts > len(AFTER_S):
        return None
    return AFTER_S[attempts - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  no secret


def signed_headers(secret: str, delivery_id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """The headers by which a receiver knows who sent `body`, and when."""
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return {
        "X-Webhook-Id": delivery_id,
        "X-Webhook-Timestamp": str(timestamp),
        "X-Webhook-Signature": f"sha256={digest}",
    }
