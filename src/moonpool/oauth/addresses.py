"""Addresses of a login: which may be used, where metadata is, what a token is valid for. Pure.

SECURITY: everything is HTTPS, except between programs of this machine: plain HTTP to a loopback address is accepted
only if the MCP server itself is at a loopback address. Otherwise a remote server could make us send requests to
services on this machine. The same rule holds for HTTPS and for link-local addresses, where clouds serve metadata;
`wire` enforces it for names that resolve to such addresses.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from moonpool.configuration.oauth_settings import is_loopback
from moonpool.core.phrases import said
from moonpool.oauth.errors import OAuthError

LOOPBACK: Final = "loopback"
LINK_LOCAL: Final = "link-local"
_URL_CHARS_MAX: Final = 8192
_BEFORE_IPV4: Final = frozenset({0, 0xFFFF, 0x64_FF9B << 64})


def check_address(url: str, what: str, *, server_url: str) -> str:
    """`url` if a login to `server_url` may use it. Raises OAuthError."""
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and (parts.port is None or parts.port > 0) and not parts.fragment
        clean = parts.username is None and parts.password is None
    except ValueError:
        parts, whole, clean = urlsplit(""), False, False
    shown = said(url, 200)
    if not whole or not clean or len(url) > _URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise OAuthError(f"the {what} {shown!r} cannot be used as an address")
    if (near := nearness(parts.hostname or "")) and near != nearness(urlsplit(server_url).hostname or ""):
        raise OAuthError(f"the {what} {shown!r} is a {near} address, which a server elsewhere may not name")
    if parts.scheme == "https":
        return url
    if parts.scheme == "http" and is_loopback(url) and is_loopback(server_url):
        return url
    raise OAuthError(f"the {what} {shown!r} is not an https address; credentials are sent over https only")


def nearness(host: str) -> str:
    """`loopback` or `link-local` if `host` is such an address in any notation, else empty; names are not resolved."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return LOOPBACK
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        try:
            # `127.1`, `0x7f000001`: forms that connecting accepts
            address = ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, ValueError):
            return ""
    for one in (address, *_inside(address)):
        if one.is_loopback or one.is_unspecified:  # connecting to 0.0.0.0 reaches this machine
            return LOOPBACK
        if one.is_link_local:
            return LINK_LOCAL
    return ""


def _inside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> tuple[ipaddress.IPv4Address, ...]:
    """The IPv4 addresses inside an IPv6 address: mapped, compatible, translated (RFC 6052) or 6to4."""
    if address.version == 4:
        return ()
    last = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    found = (last,) if int(address) >> 32 in _BEFORE_IPV4 else ()
    return found if address.sixtofour is None else (address.sixtofour,)


def canonical(url: str) -> str:
    """The URL as a resource identifier (RFC 8707): lower-case scheme and host, no query, fragment or lone slash."""
    parts = urlsplit(url)
    path = parts.path if parts.path != "/" else ""
    return urlunsplit((parts.scheme.lower(), _host_port(url), path, "", ""))


def origin(url: str) -> str:
    """Scheme, host and port."""
    return f"{urlsplit(url).scheme.lower()}://{_host_port(url)}"


def covers(resource: str, url: str) -> bool:
    """Whether `resource` names `url` or a folder above it on the same origin."""
    if origin(resource) != origin(url):
        return False
    above = urlsplit(resource).path.rstrip("/")
    path = urlsplit(url).path.rstrip("/")
    return path == above or path.startswith(above + "/")


def same_issuer(one: str, other: str) -> bool:
    """String comparison (RFC 8414 §3.3); an origin with and without a trailing slash is the same server."""
    return one == other or (one.rstrip("/") == other.rstrip("/") and origin(one) == one.rstrip("/"))


def resource_metadata_addresses(server_url: str, named: str) -> tuple[str, ...]:
    """Where metadata of a protected resource may lie (RFC 9728): where it says, else well-known places."""
    if named:
        return (named,)
    path = urlsplit(server_url).path.rstrip("/")
    root = f"{origin(server_url)}/.well-known/oauth-protected-resource"
    return (f"{root}{path}", root) if path else (root,)


def issuer_metadata_addresses(issuer: str) -> tuple[str, ...]:
    """Where metadata of an authorization server may lie: RFC 8414, then OpenID Connect, with the path put in or on."""
    path = urlsplit(issuer).path.rstrip("/")
    root = origin(issuer)
    inserted = tuple(
        f"{root}/.well-known/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration")
    )
    return (*inserted, f"{root}{path}/.well-known/openid-configuration") if path else inserted


def _host_port(url: str) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme.lower())
    return host if parts.port in (None, default) else f"{host}:{parts.port}"
