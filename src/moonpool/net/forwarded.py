"""Who is behind a connection: its address, or the one that a trusted proxy names in `X-Forwarded-For`. Pure.

SECURITY: anybody can send that header. It is read from the right, one entry for each proxy that is trusted by
configuration, and what comes before the first address that is not trusted is never looked at.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
NETWORKS_MAX: Final = 256
HOPS_MAX: Final = 16
_HEADER_CHARS_MAX: Final = 2048
_SITE_BITS: Final = 64  # what one customer of a provider has of IPv6, at the least


def trusted_networks(text: str) -> tuple[Network, ...]:
    """Networks separated by commas. Raises ConfigError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > NETWORKS_MAX:
        raise ConfigError(f"trusted_proxies names {len(parts)} networks; name at most {NETWORKS_MAX}")
    networks: list[Network] = []
    for part in parts:
        try:
            networks.append(ipaddress.ip_network(part, strict=False))
        except ValueError:
            example = "write 127.0.0.1, 10.0.0.0/8 or fd00::/8"
            raise ConfigError(
                f"trusted_proxies names {part[:60]!r}, which is no address or network; {example}"
            ) from None
    return tuple(networks)


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str:
    """Whose requests count together: an IPv4 address, the first 64 bits of an IPv6 one, or `local` for a Unix socket.

    `peer` is the address of the connection, `forwarded_for` the values of the header, in order.
    """
    found = _address(peer)
    if found is None:
        return "local"
    hops = ",".join(forwarded_for)[-_HEADER_CHARS_MAX:].split(",")[-HOPS_MAX:] if forwarded_for else []
    while hops and any(found in network for network in trusted):
        before = _address(_without_port(hops.pop().strip()))
        if before is None:
            break  # the last proxy itself counts for what it does not say
        found = before
    return _counted(found)


def _counted(address: _Address) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((address, _SITE_BITS), strict=False).network_address) + f"/{_SITE_BITS}"


def _address(text: str) -> _Address | None:
    """An IPv4 address that is written as an IPv6 one is the same address."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _without_port(text: str) -> str:
    """`203.0.113.9:1234`, `[2001:db8::1]:1234` and `[2001:db8::1]`, as some proxies write them."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, colon, port = text.partition(":")
    return host if colon and port.isdecimal() and "." in host else text
