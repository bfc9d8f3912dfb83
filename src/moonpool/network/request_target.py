"""What a request to the proxy names: a host in its one form, a port, and for plain HTTP a path. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.network.connections import Outcome, RefusedError
from moonpool.network.rules import address_literal, host_name

if TYPE_CHECKING:
    import h11

_PORT_BYTES_MAX: Final = 5
_HTTP_PORT: Final = 80


def tunnel_target(target: bytes) -> tuple[str, int]:
    """Host and port of `CONNECT host:port`. Raises RefusedError."""
    host, _, port = target.decode("latin-1").rpartition(":")
    return _named(host), _port(port)


def plain_target(target: bytes) -> tuple[str, int, bytes]:
    """Host, port and path of a request for `http://...`. Raises RefusedError."""
    text = target.decode("latin-1")
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() != "http":
        why = "this is a proxy: it takes CONNECT, and requests for http:// addresses"
        raise RefusedError(400, Outcome.MALFORMED, why)
    at = min((rest.index(mark) for mark in "/?#" if mark in rest), default=len(rest))
    authority, path = rest[:at], rest[at:].partition("#")[0]
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, "80"
    return _named(host), _port(port), (path if path.startswith("/") else f"/{path}").encode("latin-1")


def tunnelled_target(request: h11.Request, host: str, port: int) -> bytes:
    """The path of a plain request in a tunnel to `host:port`, which it must be for. Raises RefusedError."""
    named = [value.lower() for name, value in request.headers if name == b"host"]
    authority = plain_authority(host, port)
    if len(named) != 1 or named[0] not in {authority, f"{authority.decode()}:{port}".encode()}:
        raise RefusedError(421, Outcome.MALFORMED, f"the header Host must name {host}, which the tunnel was opened to")
    return request.target


def plain_authority(host: str, port: int) -> bytes:
    """The header Host of a plain request."""
    name = f"[{host}]" if ":" in host else host
    return (name if port == _HTTP_PORT else f"{name}:{port}").encode()


def _named(host: str) -> str:
    """SECURITY: one form, in which rules are compared, SNI is, and the name is resolved. Raises RefusedError."""
    name = address_literal(host) or (host_name(host) if host.isascii() else None)
    if name is None:
        raise RefusedError(400, Outcome.MALFORMED, "the request names no host that can be reached")
    return name


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _PORT_BYTES_MAX and 0 < int(text) < 65_536):
        raise RefusedError(400, Outcome.MALFORMED, "the request names no port")
    return int(text)
