"""Addresses that Moonpool may listen on: this machine's loopback interface. Pure.

SECURITY: names are not resolved; `localhost` always means 127.0.0.1.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from moonpool.core.errors import ConfigError

_FORM: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9.-]{1,253})):(?P<port>[0-9]{1,5})")
_EXAMPLE: Final = "write 127.0.0.1:9464, or [::1]:9464"


@dataclass(frozen=True, slots=True)
class LoopbackAddress:
    """An address to listen on. Port 0: any free port."""

    host: str
    port: int

    @property
    def netloc(self) -> str:
        """Host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def names(self) -> frozenset[str]:
        """The values of `Host` that clients on this machine send (lower case)."""
        hosts = {self.host if ":" not in self.host else f"[{self.host}]", "localhost"}
        return frozenset({f"{host}:{self.port}" for host in hosts} | (hosts if self.port == 80 else set()))


def loopback_address(text: str, *, what: str) -> LoopbackAddress:
    """Parse ADDRESS:PORT. Raises ConfigError; `what` names the setting."""
    found = _FORM.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65535:
        raise ConfigError(f"{what} must be an address and a port, but is {text[:100]!r}; {_EXAMPLE}")
    host = found["v6"] or found["host"]
    try:
        address = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host)
    except ValueError:
        raise ConfigError(f"{what} must be an IP address and a port, but is {text[:100]!r}; {_EXAMPLE}") from None
    if not address.is_loopback or getattr(address, "ipv4_mapped", None) is not None:
        raise ConfigError(
            f"{what} is {text[:100]!r}, which other machines may reach, but only loopback is served; {_EXAMPLE}, "
            "and for others put a proxy with a login in front of it"
        )
    return LoopbackAddress(str(address), int(found["port"]))
