"""From a name to a connection, on the host: resolve once, refuse what is not the public internet, dial that address.

SECURITY: the name is resolved here and only here, and the connection is made to the address that was checked. A name
that answers otherwise the next time (rebinding), or a redirect, comes here again as any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.resolving import Resolver, SessionResolver

_CONNECT_S: Final = 10.0
_ADDRESSES_TRIED_MAX: Final = 4
_ADDRESS_S: Final = 2.5  # for each, where others follow
_NO_WAY_THERE: Final = frozenset(
    {
        *(errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL),  # a Linux kernel without IPv6, or with none switched on
        *(errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL),  # no route, or one that refuses
    }
)
_REFUSED_V4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/3",
            "168.63.129.16/32",  # a metadata service that lies among public addresses
        ),
    )
)  # fmt: skip
"""Everything but the public internet. Spelled out: what `ipaddress` calls global differs between Python's versions."""
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6: Final = tuple(
    map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
)  # Teredo, ORCHID and the like; documentation; 6to4, which carries an IPv4 address

_METADATA: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fe80::/10", "fd00:ec2::/32",
            "fd20:ce::254/128",
        ),
    )
)  # fmt: skip
"""Where clouds keep the credentials of a machine, and all that is link-local."""
_V4_LAST: Final = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
Dial: TypeAlias = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet. False for anything that is no address.

    Mapped (`::ffff:10.0.0.1`), NAT64 (`64:ff9b::`), unique local and link-local ones lie outside of 2000::/3.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in _REFUSED_V4)
    is_refused = parsed.scope_id is not None or any(parsed in network for network in _REFUSED_V6)
    return parsed in _PUBLIC_V6 and not is_refused


async def dial(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to an IP address. Raises OSError."""
    return await asyncio.open_connection(address, port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """How names are resolved and addresses dialled; tests stand in for both."""

    resolve: Resolve = field(default_factory=Resolver)
    dial: Dial = dial
    is_listed: Callable[[str, str], bool] | None = None
    """Whether the operator lists this host and address, which may then be dialled although it is private."""

    def for_session(self) -> Destinations:
        """These for one session, which holds up no other one with names that nobody answers."""
        return replace(self, resolve=SessionResolver(self.resolve)) if isinstance(self.resolve, Resolver) else self

    async def connect(
        self, host: str, port: int, *, allow_private: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        """Streams to `host:port`, and the address that was dialled. Raises RefusedError.

        `allow_private`: see `DomainRule.allow_private`.
        """
        try:
            async with asyncio.timeout(_CONNECT_S):
                addresses = await self._addresses(host, port, allow_private=allow_private)
                return await self._connect(host, port, addresses)
        except TimeoutError:
            raise RefusedError(504, Outcome.UNREACHABLE, f"{host} did not answer within {_CONNECT_S:.0f} s") from None

    async def addresses(self, host: str, port: int) -> list[str]:
        """Addresses of `host` that may be dialled: at least one, of the public internet. Raises RefusedError."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await self._addresses(host, port, allow_private=False)
        except TimeoutError:
            raise RefusedError(504, Outcome.UNREACHABLE, f"the name {host} was not resolved in time") from None

    async def _addresses(self, host: str, port: int, *, allow_private: bool) -> list[str]:
        try:
            found = await self.resolve(host, port)
        except OSError:
            raise RefusedError(502, Outcome.UNREACHABLE, f"the name {host} cannot be resolved") from None
        kept: list[str] = []
        unknown: OSError | None = None
        for one in found:
            try:
                is_wanted = allow_private or (self.is_listed is not None and self.is_listed(host, one))
                if (is_wanted and not _is_metadata(one)) or _may_be_dialled(one):
                    kept.append(one)
            except OSError as error:
                unknown = error
        if not kept and unknown is not None:
            why = f"{host} was not dialled: {unknown.strerror or unknown}"
            raise RefusedError(503, Outcome.FAILED, why, address=found[0])
        if not kept:
            why = f"{host} leads to {found[0] if found else 'no address'}, which is not on the public internet"
            raise RefusedError(403, Outcome.ADDRESS_REFUSED, why, address=found[0] if found else "")
        return kept[:_ADDRESSES_TRIED_MAX]

    async def _connect(
        self, host: str, port: int, addresses: list[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        for address in addresses:
            within_s = None if address == addresses[-1] else _ADDRESS_S
            with contextlib.suppress(OSError):  # TimeoutError, too
                async with asyncio.timeout(within_s):
                    reader, writer = await self.dial(address, port)
                return reader, writer, address
        raise RefusedError(502, Outcome.UNREACHABLE, f"{host} cannot be reached on port {port}", address=addresses[0])


def _may_be_dialled(address: str) -> bool:
    return is_public(address) and not _is_own(address)


def _is_metadata(address: str) -> bool:
    """SECURITY: an index on a private address is the operator's word, but none is where clouds keep credentials."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    meant = _carried(parsed)
    return any(meant.version == network.version and meant in network for network in _METADATA)


def _carried(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address in an IPv6 one (mapped, compatible, NAT64, 6to4), if it has one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if any(address in network for network in _V4_LAST):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.sixtofour or address


def _is_own(address: str) -> bool:
    """Whether an address is this machine's, whatever network it is of: then its source address is the same.

    Nothing is sent: a datagram socket that is connected only looks up the route. Raises OSError if that is not known.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return probe.getsockname()[0] == address
    except OSError as error:
        if error.errno in _NO_WAY_THERE:
            return False  # dialling will say so
        raise
