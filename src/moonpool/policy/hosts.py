"""The host of a URL, parsed so that no client can find a different host in it.

Only plain addresses are accepted: `http`, `https`, `ws`, `wss` or `ftp`, then `://`, then a host of ASCII letters,
digits and hyphens or an IP address, then perhaps a port. Letter case and one trailing dot do not matter. Everything
that programs disagree about is UNREADABLE: user names before `@`, backslashes, blanks, control characters, percent
escapes in the host, letters beyond ASCII (write such names as `xn--...`), numbers that are not dotted quads, no scheme.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from moonpool.policy.findings import Finding, UnreadableError, held

URL_CHARS_MAX: Final = 8192

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
_URL = re.compile(r"([A-Za-z]+)://([^/?#]+)(?:[/?#].*)?", re.ASCII)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{0,5}))?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """One entry of `host_in`: a host, or all hosts below one; with a port if the entry has one."""

    host: str
    below: bool
    port: int | None


def host_problem(text: str) -> str:
    """Why `text` is invalid in `host_in`, or an empty string."""
    if "/" in text or "@" in text:
        return 'write the host alone, for example "example.org", "*.example.org" or "example.org:8443"'
    if not text.isascii():
        return "write a name with letters beyond ASCII as xn--..."
    if "*" in text.removeprefix("*."):
        return '"*" is only allowed for everything before a domain: "*.example.org"'
    return "" if _pattern(text) is not None else "this is neither a host name nor an IP address"


def host_in(entries: tuple[str, ...], url: str) -> Finding:
    """Is the host of `url` one of `entries`? Raises UnreadableError."""
    host, port = _host_of(url)
    return held(any(_covers(pattern, host, port) for entry in entries if (pattern := _pattern(entry))))


def _covers(pattern: HostPattern, host: str, port: int) -> bool:
    if pattern.port is not None and pattern.port != port:
        return False
    return host.endswith(f".{pattern.host}") if pattern.below else host == pattern.host


def _host_of(url: str) -> tuple[str, int]:
    """The host in normal form, and the port. Raises UnreadableError for an address that is not plain."""
    if len(url) > URL_CHARS_MAX:
        raise UnreadableError(f"it has more than {URL_CHARS_MAX} characters")
    if "\\" in url or any(char.isspace() or not char.isprintable() for char in url):
        raise UnreadableError("it has a backslash, a blank or a control character")
    found = _URL.fullmatch(url)
    if found is None or (default := _PORTS.get(found[1].lower())) is None:
        raise UnreadableError(f"it does not begin with one of {', '.join(_PORTS)} and ://")
    split = _AUTHORITY.fullmatch(found[2])
    host = _spelled(split[1]) if split else None
    if split is None or host is None:
        raise UnreadableError("between :// and its path there is not just a plain host and a port")
    port = int(split[2]) if split[2] else default
    if not 0 < port < 65536:
        raise UnreadableError("its port is not valid")
    return host, port


def _spelled(host: str) -> str | None:
    """`host` in normal form, or None if it is not plain."""
    try:
        if host.startswith("["):
            address = ipaddress.IPv6Address(host[1:-1])
            return str(address.ipv4_mapped or f"[{address.compressed}]")
        name = host.lower().removesuffix(".")
        labels = name.split(".")
        if _NUMBER.fullmatch(labels[-1]):  # programs read such a host as an IPv4 address in different ways
            return str(ipaddress.IPv4Address(name))
    except ValueError:
        return None
    return name if len(name) <= 253 and all(_LABEL.fullmatch(label) for label in labels) else None


@lru_cache(maxsize=4096)
def _pattern(entry: str) -> HostPattern | None:
    below = entry.startswith("*.")
    text = entry.removeprefix("*.")
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"  # an IPv6 address without brackets
    split = _AUTHORITY.fullmatch(text)
    host = _spelled(split[1]) if split else None
    if split is None or host is None or split[2] == "":
        return None
    if below and (host.startswith("[") or _NUMBER.fullmatch(host.rpartition(".")[2])):
        return None
    port = int(split[2]) if split[2] else None
    return HostPattern(host, below, port) if port is None or 0 < port < 65536 else None
