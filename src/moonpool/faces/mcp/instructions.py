"""The `instructions` of the handshake: how to work here, and which servers there are. Never a tool's schema (H-052).

INVARIANT: at most `CHARS_MAX` characters, however many servers and whatever they say about themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.catalog.render import manifest_lines, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from moonpool.catalog.entries import ServerSummary

CHARS_MAX: Final = 1500
_HOW: Final = (
    "Moonpool runs Python that you write in a sandbox whose only way out is calling tools of MCP servers. "
    "Find tools with search_tools, read get_tool_definition where a line is not enough, then write one execute_code "
    "that calls them, loops, filters, and sets `result` to a small JSON summary."
)
_SERVERS: Final = "Modules that code can import:"
_NONE: Final = "No server is configured: code runs, but has no tools."


def instructions(servers: Sequence[ServerSummary], missing: Collection[str] = ()) -> str:
    """The text for these servers. `missing` are configured, but their tools are not known (yet)."""
    unlisted = f"Tools not listed yet: {', '.join(one_line(name, 60) for name in sorted(missing))}." if missing else ""
    if not servers:
        return _fitting([_HOW, unlisted or _NONE])
    for about in (True, False):
        lines = manifest_lines(servers, about=about)
        whole = "\n".join(part for part in (_HOW, _SERVERS, lines, unlisted) if part)
        if len(whole) <= CHARS_MAX:
            return whole
    return _fitting([_HOW, _SERVERS, *lines.split("\n")])


def _fitting(lines: Sequence[str]) -> str:
    """As many whole lines as fit, and how many are missing."""
    kept: list[str] = []
    room = CHARS_MAX - 60
    for line in lines:
        if len(line) >= room:
            break
        kept.append(line)
        room -= len(line) + 1
    left_out = len(lines) - len(kept)
    return "\n".join([*kept, *([f"and {left_out} more: search_tools finds them"] if left_out else [])])
