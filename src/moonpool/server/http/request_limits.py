"""What every request over HTTP passes before anything reads it: for which name it is meant, and a bounded body.

SECURITY: a web page in a browser can send requests to this address under its own host name (DNS rebinding) or from its
own origin, so `Host` must be one of our names and `Origin`, if any, one of our origins. A body is read to a limit,
within a time, as it is: nothing is decompressed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from moonpool.core.errors import ConfigError, Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]

BODY_BYTES_MAX: Final = 4 * 1024**2
BODY_S: Final = 30.0
"""How long a body may take to arrive."""
_NETLOC: Final = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]{2,45})\]|(?P<host>[a-z0-9._-]{1,253}))(?::(?P<port>[0-9]{1,5}))?")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_CLOSE: Final = {"connection": "close"}


class RequestError(MoonpoolError):
    """The request itself cannot be taken. Nothing was done."""

    code = "request_refused"
    fault = Fault.CALLER

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, *, rpc_code: int | None = None
    ) -> None:
        """`rpc_code` is the code of the answer where JSON-RPC is spoken."""
        super().__init__(message)
        self.status, self.headers, self.rpc_code = status, dict(headers or {}), rpc_code


class ClientGoneError(Exception):
    """The client has disconnected before its request was whole. There is nobody to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names under which this service may be addressed, in lower case."""

    hosts: frozenset[str]  # values of Host
    origins: frozenset[str]  # values of Origin
    ports_of_addresses: frozenset[int] = frozenset()
    """SECURITY: behind these ports any IP address will do: a page cannot have an address for its name."""

    @classmethod
    def of(cls, host: str, port: int, *, public_url: str = "", more_origins: Iterable[str] = ()) -> Names:
        """Of a service at this address, and at its public URL. Raises ConfigError."""
        address = ipaddress.ip_address(host)
        hosts = {f"[{address}]" if address.version == 6 else str(address)}
        if address.is_loopback or address.is_unspecified:
            hosts |= {"localhost", "127.0.0.1", "[::1]"}
        origins = set(more_origins)
        netlocs: set[str] = set()
        for one in hosts:
            netlocs |= {f"{one}:{port}"} | ({one} if port == 80 else set())
        origins |= {f"http://{one}" for one in netlocs}
        if public_url:
            scheme, netloc = _public(public_url)
            netlocs |= _with_default_port(scheme, netloc)
            origins.add(f"{scheme}://{netloc}")
        return cls(
            hosts=frozenset(netlocs),
            origins=frozenset(origins),
            ports_of_addresses=frozenset({port} if address.is_unspecified else ()),
        )

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises RequestError: 421 for a `Host`, 403 for an `Origin` that is not ours."""
        found: dict[bytes, list[str]] = {b"host": [], b"origin": []}
        for name, value in headers:
            if name in found:
                found[name].append(value.decode("latin-1").strip().lower())
        if len(found[b"host"]) != 1 or not self._is_ours(found[b"host"][0]):
            raise RequestError(
                421, "this service is not called so; use the address that it printed, or the one in MOONPOOL_PUBLIC_URL"
            )
        if any(origin not in self.origins for origin in found[b"origin"]):
            raise RequestError(403, "pages of this origin may not use this service")

    def _is_ours(self, host: str) -> bool:
        if host in self.hosts:
            return True
        if not self.ports_of_addresses or (parts := _NETLOC.fullmatch(host)) is None:
            return False
        try:
            ipaddress.ip_address(parts["v6"] or parts["host"])
        except ValueError:
            return False
        return int(parts["port"] or 80) in self.ports_of_addresses


async def read_body(
    headers: Iterable[tuple[bytes, bytes]], receive: Receive, *, bytes_max: int = BODY_BYTES_MAX
) -> bytes:
    """The whole body. Raises RequestError (408, 413, 415), ClientGoneError.

    SECURITY: what answers before the body was read closes the connection, so that the rest is not taken for a request.
    """
    for name, value in headers:
        if name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            raise RequestError(
                415, "compressed bodies are not taken; send it as it is", {"accept-encoding": "identity", **_CLOSE}
            )
        if name == b"content-length" and int(value) > bytes_max:
            raise _too_large(bytes_max)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                body += message.get("body", b"")
                if len(body) > bytes_max:
                    raise _too_large(bytes_max)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {BODY_S:g} s", _CLOSE) from None


def _too_large(bytes_max: int) -> RequestError:
    return RequestError(413, f"the body is larger than {bytes_max:,} bytes", _CLOSE)


def _public(url: str) -> tuple[str, str]:
    parts = urlsplit(url.lower())
    whole = parts.scheme in _DEFAULT_PORTS and _NETLOC.fullmatch(parts.netloc) is not None
    if not whole or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ConfigError(f"public_url must be like https://moonpool.example.com, but is {url[:100]!r}")
    return parts.scheme, parts.netloc


def _with_default_port(scheme: str, netloc: str) -> set[str]:
    """Clients leave the default port out; some proxies write it."""
    port = f":{_DEFAULT_PORTS[scheme]}"
    bare = netloc.removesuffix(port)
    has_port = re.search(r":[0-9]+$", bare) is not None
    return {bare} if has_port else {bare, f"{bare}{port}"}
