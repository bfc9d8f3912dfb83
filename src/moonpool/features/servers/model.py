"""A server of an organisation, and what may be said about one. Pure.

The operator's file has commands, and servers in the operator's networks. An organisation adds URLs of the public
internet only, with headers of its own, which are stored sealed and shown nowhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from moonpool.core.errors import InputError
from moonpool.core.lookalikes import looks_like

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SERVERS_MAX: Final = 32
NAME_CHARS_MAX: Final = 100
HEADERS_MAX: Final = 16
HEADER_CHARS_MAX: Final = 8192
Expose: TypeAlias = Literal["code", "direct", "both"]
EXPOSES: Final[tuple[str, ...]] = get_args(Expose)
_NAME: Final = re.compile(rf"[A-Za-z][A-Za-z0-9._-]{{0,{NAME_CHARS_MAX - 1}}}", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]*", re.ASCII)
_OURS: Final = frozenset(
    {
        *("accept", "connection", "content-length", "content-type", "host", "last-event-id", "mcp-protocol-version"),
        *("cookie", "mcp-session-id", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization"),
    }
)
"""Headers that a request of MCP has by itself, or that say where it ends."""


def same_name(one: str, other: str) -> bool:
    """Whether people may take one for the other."""
    return looks_like(one.casefold()) == looks_like(other.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """A server that is to be added."""

    server_id: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    expose: Expose = "code"

    def check(self, taken: Iterable[str]) -> None:
        """Raise InputError unless it can be added beside servers called `taken`. The URL is checked elsewhere.

        SECURITY: a person who approves a call reads its server's name, so none may look like another.
        """
        name = self.server_id
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name[:80]!r} cannot be a server's name; use up to {NAME_CHARS_MAX} of A-Z, a-z, 0-9, ., _ and -, "
                "with a letter first"
            )
        if any(same_name(name, one) for one in taken):
            raise InputError(f"there is a server called {name!r}, or one that looks like it; choose another name")
        if self.expose not in EXPOSES:
            raise InputError(f"expose must be {', '.join(EXPOSES)}, not {self.expose[:40]!r}")
        if len(self.headers) > HEADERS_MAX or len({one.lower() for one in self.headers}) != len(self.headers):
            raise InputError(f"a server has at most {HEADERS_MAX} headers, each once")
        for header, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(header) or header.lower() in _OURS:
                raise InputError(f"{header[:80]!r} cannot be a header of a server; name another")
            if len(value) > HEADER_CHARS_MAX or not _HEADER_VALUE.fullmatch(value):
                raise InputError(
                    f"the value of the header {header} must be up to {HEADER_CHARS_MAX:,} visible ASCII characters"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnServer:
    """A server of an organisation."""

    organisation_id: str
    change_id: str  # of its being added; names the record of that
    server_id: str
    url: str
    expose: Expose
    header_names: tuple[str, ...]
    headers: str = field(repr=False)  # sealed
    added_by: str
    added_at: float  # seconds since 1970
    recorded_at: float | None = None
    removed_by: str | None = None
    removed_at: float | None = None

    @property
    def place(self) -> str:
        """What its headers are sealed for: nobody moves them to another organisation, server or address."""
        return f"{self.organisation_id}/{self.change_id}/{self.url}"
