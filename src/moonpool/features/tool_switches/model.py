"""A tool that is switched off: which names there may be. Pure.

A name is a tool's of any profile (`sandbox_execute`, `Read`) or, with the name of its server, one of a server
(`git.git_log`). One that nothing has yet may be switched off, so that it never appears.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from moonpool.core.errors import InputError
from moonpool.core.hidden_characters import all_seen

SWITCHED_OFF_MAX: Final = 1_000
"""Of one organisation."""
NAME_CHARS_MAX: Final = 400


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
    if not 1 <= len(name) <= NAME_CHARS_MAX or not all_seen(name) or " " in name:
        raise InputError(
            f"{name[:80]!r} cannot be a tool's name; use the name of a tool of a profile, or SERVER.TOOL, of at most "
            f"{NAME_CHARS_MAX} visible characters"
        )
