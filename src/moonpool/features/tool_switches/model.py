"""A tool that is switched off: which names there may be. Pure.

A name is a tool's of any profile (`sandbox_execute`, `Read`) or, with the name of its server, one of a server
(`git.git_log`). One that nothing has yet may be switched off, so that it never appears.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from moonpool.core.errors import InputError
from moonpool.core.hidden_characters import all_seen

SWITCHED_OFF_MAX: Final = 200
"""Of one organisation."""
NAME_CHARS_MAX: Final = 400
DOTS_MAX: Final = 4
"""In one name; a server's and a tool's name may have dots, and each could be the one between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchedOff:
    """A tool that nobody of the organisation sees or can call."""

    tool: str
    by: str
    at: float  # seconds since 1970


class ToolSwitches(Protocol):
    """Which tools are switched off."""

    async def disabled_tools(self, organisation: str, /) -> frozenset[str]:
        """By name. A change counts within a second everywhere. Raises DatabaseError."""
        ...


class AllSwitchedOn:
    """A service without a database: nothing is switched off."""

    async def disabled_tools(self, organisation: str, /) -> frozenset[str]:
        del organisation
        return frozenset()


def check_tool_name(name: str) -> None:
    """Raise InputError unless a tool may be called so."""
    fits = 1 <= len(name) <= NAME_CHARS_MAX and name.count(".") <= DOTS_MAX
    if not fits or not all_seen(name) or " " in name:
        raise InputError(
            f"{name[:80]!r} cannot be a tool's name; use the name of a tool of a profile, or SERVER.TOOL, of at most "
            f"{NAME_CHARS_MAX} visible characters"
        )


def server_tools(name: str) -> list[tuple[str, str]]:
    """The servers and their tools that a name may mean."""
    places = [place for place, char in enumerate(name) if char == "."]
    return [(name[:place], name[place + 1 :]) for place in places if 0 < place < len(name) - 1]
