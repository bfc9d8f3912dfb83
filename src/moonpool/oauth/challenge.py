"""`WWW-Authenticate`: what a server requires, parsed leniently. Pure.

A response may carry several of these headers, each with several challenges, each with parameters that are tokens or
quoted strings; commas separate both parameters and challenges (RFC 9110 §11.6.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HEADER_CHARS_MAX: Final = 16_384
_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME: Final = re.compile(_WORD)
_PARAMETER: Final = re.compile(rf'({_WORD})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_BETWEEN: Final = re.compile(r"[ \t,]*")
_ESCAPED: Final = re.compile(r"\\(.)")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_SCOPE_COUNT_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """What the server said about the bearer token it requires; empty members were not given."""

    error: str = ""
    scopes: tuple[str, ...] | None = None
    resource_metadata: str = ""

    @property
    def wants_more_scope(self) -> bool:
        return self.error == "insufficient_scope"


def bearer_challenge(headers: Iterable[str]) -> Challenge:
    """The most specific `Bearer` challenge in these headers; an empty one if there is none."""
    found = [params for header in headers for scheme, params in _challenges(header) if scheme == "bearer"]
    found.append({})
    params = max(found, key=lambda one: ("resource_metadata" in one, "scope" in one, "error" in one))
    return Challenge(
        error=params.get("error", ""),
        scopes=scope_names(params["scope"]) if "scope" in params else None,
        resource_metadata=params.get("resource_metadata", ""),
    )


def scope_names(text: str) -> tuple[str, ...]:
    """The scopes of a space-separated list, without duplicates, in order; invalid scopes are left out."""
    names = dict.fromkeys(name for name in text.split() if _SCOPE.fullmatch(name))
    return tuple(names)[:_SCOPE_COUNT_MAX]


def _challenges(header: str) -> list[tuple[str, Mapping[str, str]]]:
    header = header[:_HEADER_CHARS_MAX]
    found: list[tuple[str, dict[str, str]]] = []
    at = 0
    while True:
        at = _end(_BETWEEN.match(header, at), at)
        if at >= len(header):
            return list(found)
        if (parameter := _PARAMETER.match(header, at)) is not None:
            if found:
                value = parameter[3] if parameter[2] is None else _ESCAPED.sub(r"\1", parameter[2])
                found[-1][1].setdefault(parameter[1].lower(), value)
            at = parameter.end()
        elif (scheme := _SCHEME.match(header, at)) is not None:
            found.append((scheme[0].lower(), {}))
            at = scheme.end()
        else:
            at += 1  # skip what cannot be parsed


def _end(match: re.Match[str] | None, at: int) -> int:
    return at if match is None else match.end()
