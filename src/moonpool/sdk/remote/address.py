"""Where a service is, and as whom this application speaks to it.

SECURITY: keys stand in one header of requests to this address and nowhere else: in no URL, no message, no `repr`. They
cross a network over TLS only.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from moonpool.core.errors import InputError
from moonpool.sdk.argument_types import must_be

_KEY: Final = re.compile(r"[\x21-\x7e]{8,16384}")


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """An address and the credentials for it."""

    url: str  # without a slash at the end
    key: str = field(repr=False)  # empty: none is sent
    approver: str | None = field(default=None, repr=False)  # a credential that answers approvals
    socket: str = ""  # of a service of this user, which takes no key there


def service_address(url: str, key: str | None, approver: str | None, *, allow_http: bool) -> ServiceAddress:
    """Raises InputError for what cannot be meant."""
    must_be(url, str, "the address of a service", "a string such as https://moonpool.example.com")
    must_be(key, str | None, "the key", "a string, or None for a service without authentication")
    must_be(approver, str | None, "approver", "another key, or a token of a person")
    must_be(allow_http, bool, "allow_http", "True or False")
    for name, value in (("the key", key), ("approver", approver)):
        if value is not None and not _KEY.fullmatch(value):
            raise InputError(f"{name} is no key: it has 8 or more visible characters of ASCII")
    if approver is not None and approver == key:
        raise InputError("approver must be another credential: nobody approves the calls of their own code")
    return ServiceAddress(checked_url(url, allow_http=allow_http), key or "", approver)


def checked_url(url: str, *, allow_http: bool) -> str:
    """The address without a slash at its end. Raises InputError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InputError("the address of the service cannot be read; write https://HOST[:PORT]") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError("the address of the service holds more than https://HOST[:PORT]/PATH; leave out the rest")
    if parts.scheme not in {"http", "https"} or not host:
        raise InputError(f"{url[:200]!r} is no address of a service; write https://HOST[:PORT]")
    if parts.path.rstrip("/").endswith(("/mcp", "/sse")):
        raise InputError("the address ends with the place for MCP clients; leave out /mcp or /sse")
    if parts.scheme == "http" and not (allow_http or _is_loopback(host)):
        raise InputError(
            f"{host} is another machine, and http:// would show the key and all code to the network between; "
            "write https://, or allow_http=True where that network is trusted"
        )
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    """SECURITY: names are not resolved; only `localhost` is this machine by its name."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
