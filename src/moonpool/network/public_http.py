"""HTTPS to the public internet only: for servers that an organisation names, which must not reach the host's networks.

SECURITY: an organisation is not the operator. The address is checked as it is written, and a name is resolved here and
only here, and the connection is made to the address that was checked (`destinations`): a private address does not even
see a connection, and a name that answers otherwise the next time is checked again. No proxy is used, which would
connect by itself.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final, cast

import httpcore2
import httpx2

from moonpool.core.errors import InputError
from moonpool.net.trust import system_trust
from moonpool.network.connections import RefusedError
from moonpool.network.destinations import Destinations, is_public
from moonpool.network.resolving import Resolver

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

URL_CHARS_MAX: Final = 2048
NAMES_MAX: Final = 4
"""Names that one client has resolved at the same time: whoever names a server may have a name server that is silent."""
_LOCAL: Final = ("localhost", "local", "internal", "home.arpa", "intranet", "lan")
"""Names that are no one's on the internet."""


def check_public_url(url: str) -> None:
    """Raise InputError unless it is an https address that may be one of the public internet. No name is resolved."""
    try:
        parts = httpx2.URL(url)
        usable = parts.scheme == "https" and bool(parts.host) and not parts.fragment and not parts.userinfo
        usable = usable and parts.port != 0
    except (httpx2.InvalidURL, ValueError):
        raise InputError("the URL is not an address; write https://mcp.example.com/mcp") from None
    if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(f"the URL must be up to {URL_CHARS_MAX:,} visible ASCII characters without spaces")
    if not usable:
        raise InputError("the URL must be https://, with a host, and without a user name or a fragment; use headers")
    if parts.query:
        raise InputError("the URL must have no query, which would be shown; send what is secret in a header")
    host = parts.raw_host.decode("ascii").strip("[]").rstrip(".").lower()
    if not may_be_public(host):
        raise InputError(f"{host[:80]} is not on the public internet; servers in other networks are the operator's")


def may_be_public(host: str) -> bool:
    """Whether a host in lower case, without brackets, may be one of the public internet; no name is resolved.

    SECURITY: whatever ends like a number is an address to who connects (`127.1`, `0x7f.1`, `2130706433`).
    """
    last = host.rpartition(".")[2]
    if ":" in host or last[:1].isdigit() or not last:
        try:
            return is_public(str(ipaddress.ip_address(host)))
        except ValueError:
            return False
    return "." in host and not any(host == name or host.endswith(f".{name}") for name in _LOCAL)


class _BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection of which no more than so many bytes are read."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, bytes_max: int) -> None:
        self._stream, self._left = stream, bytes_max

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._left:
            raise httpcore2.ReadError("the answer is too long")
        data = await self._stream.read(min(max_bytes, self._left), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class PublicBackend(httpcore2.AsyncNetworkBackend):
    """Connections of an HTTP client, to addresses that were checked."""

    def __init__(self, destinations: Destinations, answer_bytes_max: int | None = None) -> None:
        self._destinations, self._answer_bytes_max = destinations, answer_bytes_max
        self._backend = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await self._destinations.addresses(host, port)
        except RefusedError as error:
            raise httpcore2.ConnectError(str(error)) from None
        for address in addresses[:-1]:
            try:
                return await self._dial(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._dial(addresses[-1], port, timeout, local_address, socket_options)

    async def _dial(self, address: str, port: int, *rest: Any) -> httpcore2.AsyncNetworkStream:
        timeout, local_address, socket_options = rest
        stream = await self._backend.connect_tcp(
            address, port, timeout=timeout, local_address=local_address, socket_options=socket_options
        )
        return stream if self._answer_bytes_max is None else _BoundedStream(stream, self._answer_bytes_max)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class PublicTransport(httpx2.AsyncHTTPTransport):
    """The transport of an `AsyncClient` that reaches nothing but the public internet.

    `answer_bytes_max`: of each connection no more is read. SECURITY: for whoever only wants to know how a request is
    answered; interim responses (HTTP 1xx) without end cost the event loop 20 µs for each 20 bytes.
    """

    def __init__(
        self,
        *,
        limits: httpx2.Limits,
        destinations: Destinations | None = None,
        answer_bytes_max: int | None = None,
    ) -> None:
        context = system_trust()
        super().__init__(limits=limits, verify=context)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=PublicBackend(
                destinations or Destinations(resolve=Resolver(threads_max=NAMES_MAX)), answer_bytes_max
            ),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.scheme != "https":
            raise httpx2.UnsupportedProtocol("only https is used here", request=request)
        return await super().handle_async_request(request)
