"""The `instructions` of the handshake: how to use the tools, and which servers there are. Never a tool's schema
(H-052).

INVARIANT: at most `CHARS_MAX` characters, regardless of the servers' number and descriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.catalog.levels import fitting, manifest_of
from moonpool.catalog.render import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from moonpool.catalog.entries import ServerSummary

CHARS_MAX: Final = 1500
_WHAT: Final = "Moonpool runs Python that you write in a sandbox whose only way out is calling tools of MCP servers. "
_WRITE: Final = (
    "then write one execute_code that calls them, loops, filters, and sets `result` to a small JSON summary."
)
HOW: Final = f"{_WHAT}Find tools with search_tools, read get_tool_definition where a line is not enough, {_WRITE}"
HOW_CODE_ALONE: Final = (
    f"{_WHAT}Find tools in code: `from client.catalog import search, definition`, print search([...]), "
    f"and definition(path) where a line is not enough; {_WRITE}"
)
_SERVERS: Final = "Modules that code can import:"
_NAMED_CHARS_MAX: Final = 150
_NONE: Final = "No server is configured: code runs, but has no tools."


def instructions(
    servers: Sequence[ServerSummary],
    unlisted_yet: Collection[str] = (),
    *,
    unavailable: Collection[str] = (),
    left_out: Collection[str] = (),
    library: str = "",
    how: str = HOW,
) -> str:
    """The text for these servers and for configured servers whose tools are not known.

    `unavailable` servers could not be listed; the entries of `left_out` cannot be used. `library` is the line on saved
    actions and skills.
    """
    without_tools = (
        ("Tools not listed yet", unlisted_yet),
        ("Not available now; your user sees why", unavailable),
        ("Left out until your user corrects their configuration", left_out),
    )
    unlisted = "\n".join(f"{what}: {_named(sorted(names))}." for what, names in without_tools if names)
    if not servers:
        return fitting([part for part in (how, library, unlisted or _NONE) if part], CHARS_MAX)
    around = "\n".join(part for part in (how, _SERVERS, library, unlisted) if part)
    shown = manifest_of(servers, CHARS_MAX - len(around) - 1)
    return "\n".join(part for part in (how, _SERVERS, shown.text, library, unlisted) if part)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, 60) for name in names)
    return shown if len(shown) <= _NAMED_CHARS_MAX else f"{shown[:_NAMED_CHARS_MAX].rpartition(', ')[0]} and others"
