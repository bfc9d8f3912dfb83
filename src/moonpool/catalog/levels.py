"""How much of a catalog is shown unasked: three levels, chosen by size.

`NAMES`: servers with their number of tools. `LINES`: also one line about each server. `FULL`: all definitions, which
only pays while there are few. Definitions are never part of what a client reads unasked (H-052); the MCP server adds
them to the answer to the first search, where they cost at most about as much as requesting some in another turn
(docs/decisions/0047-what-a-task-costs.md).

INVARIANT: every level is bounded, in characters for unasked text and in tokens for definitions; the same catalog gives
the same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from moonpool.catalog.render import manifest_lines
from moonpool.catalog.tokens import count_tokens, definition_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.catalog.catalog import Catalog
    from moonpool.catalog.entries import ServerSummary
    from moonpool.core.manifest import ToolDefinition

FEW_TOOLS: Final = 20
FEW_TOKENS: Final = 3_000
GIVEN_TOKENS: Final = 1_000
"""Limit for all definitions together: a task typically requests definitions of 230 to 450 tokens."""
_CHARS_MAX: Final = 12 * FEW_TOKENS  # longer text need not be counted


class Level(StrEnum):
    """How much of a catalog is shown."""

    NAMES = "names"
    LINES = "lines"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A level and its text."""

    level: Level
    text: str


def manifest_of(servers: Sequence[ServerSummary], chars_max: int) -> Shown:
    """One line per server, with its description if that fits; otherwise as many whole lines as fit."""
    for level in (Level.LINES, Level.NAMES):
        text = manifest_lines(servers, about=level is Level.LINES)
        if len(text) <= chars_max:
            return Shown(level=level, text=text)
    return Shown(level=Level.NAMES, text=fitting(manifest_lines(servers, about=False).split("\n"), chars_max))


def fitting(lines: Sequence[str], chars_max: int) -> str:
    """As many whole lines as fit, and how many are missing."""
    kept: list[str] = []
    room = chars_max - 60
    for line in lines:
        if len(line) >= room:
            break
        kept.append(line)
        room -= len(line) + 1
    left_out = len(lines) - len(kept)
    return "\n".join([*kept, *([f"and {left_out} more: a search finds them"] if left_out else [])])


def definitions_if_few(
    catalog: Catalog,
    define: Callable[[ToolDefinition], str],
    *,
    count: Callable[[str], int] = count_tokens,
) -> str:
    """All definitions as written by `define` if the catalog is so small that this is cheaper; otherwise empty.

    Counting takes milliseconds, the first time a tenth of a second: call from a worker thread.
    """
    tools = list(catalog.manifest.tools())
    whole = [definition_text(tool) for tool in tools[: FEW_TOKENS // 10]]
    few = len(tools) <= FEW_TOOLS or (
        len(whole) == len(tools) and sum(map(len, whole)) <= _CHARS_MAX and sum(map(count, whole)) <= FEW_TOKENS
    )
    if not tools or not few:
        return ""
    text = "\n\n".join(map(define, tools))
    return text if len(text) <= _CHARS_MAX and count(text) <= GIVEN_TOKENS else ""
