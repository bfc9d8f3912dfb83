"""The catalog as text for models and people: one line per tool, one line per server.

A hit's line starts with the path that code can use directly: `servers.time.get_current_time — Get current time`.
SECURITY: names and descriptions come from servers. Each tool stays one line of bounded length, without control, escape
or invisible characters.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from moonpool.catalog.names import PACKAGE
from moonpool.core.hidden_characters import HIDDEN
from moonpool.wrappers.quoting import lost_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.catalog.entries import CatalogEntry, Hit, ServerSummary

LINE_CHARS_MAX: Final = 160
HIT_CHARS_MAX: Final = 64  # for the text about a tool in a hit's line: enough to choose by; most sentences fit
NAME_CHARS_MAX: Final = 200
ALSO_MAX: Final = 4
NO_HITS: Final = "No tool fits. Try other words: 3 to 6 that say what the tool should do."
NO_HITS_NARROWED: Final = "No tool fits the words and what narrows them. Try other words, or omit a filter."
_READ_CHARS_MAX: Final = 4_000  # how far the first sentence is searched for

_ESCAPE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.DOTALL)
_SENTENCE_END: Final = re.compile(r"(?<![A-Z])(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<=[^.])[.!?](?=\s)|[。！？]")


def one_line(text: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """Return `text` as one printable line of at most `chars_max` characters."""
    plain = _ESCAPE.sub("", text[:_READ_CHARS_MAX])
    kept = "".join(_printable(character) for character in plain)
    line = " ".join(kept.split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


def first_sentence(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """Return the first sentence of `text`, or of its first paragraph, as one line."""
    paragraph = next((part for part in re.split(r"\n\s*\n", text[:_READ_CHARS_MAX]) if part.strip()), "")
    line = one_line(paragraph, _READ_CHARS_MAX)
    end = _SENTENCE_END.search(line)
    return one_line(line[: end.start()] if end else line.removesuffix("."), chars_max)


def about_tool(entry: CatalogEntry) -> str:
    """The text about an entry: its description, else its title, or a name that its path cannot show."""
    return first_sentence(entry.description) or one_line(entry.title) or one_line(lost_name(entry.tool_name))


def hit_line(hit: Hit) -> str:
    """One line for one hit."""
    line, about = one_line(hit.path), _first_words(about_tool(hit.entry))
    if hit.entry.kind:
        about = f"{hit.entry.kind}: {about}" if about else hit.entry.kind
    if about:
        line = f"{line} — {about}"
    if hit.also:
        named = ", ".join(one_line(_server(path)) for path in hit.also[:ALSO_MAX])
        more = f" and {len(hit.also) - ALSO_MAX} more" if len(hit.also) > ALSO_MAX else ""
        line = f"{line} (also on {named}{more})"
    return line


def hit_lines(hits: Iterable[Hit], *, narrowed: bool = False) -> str:
    """One line per hit, or advice if there is none; `narrowed` if there was a filter."""
    return "\n".join(hit_line(hit) for hit in hits) or (NO_HITS_NARROWED if narrowed else NO_HITS)


def manifest_lines(servers: Sequence[ServerSummary], *, about: bool = True) -> str:
    """The compact manifest: name and number of tools of every server, and with `about` one line on it."""
    lines: list[str] = []
    for server in servers:
        line = f"{one_line(server.module)} ({server.tool_count} {_tools(server.tool_count)})"
        summary = first_sentence(server.about) if about else ""
        lines.append(f"{line} — {summary}" if summary else line)
    return "\n".join(lines)


def _printable(character: str) -> str:
    """Line breaks and unusual spaces become spaces; control, format, private, unassigned and invisible characters are
    removed.
    """
    if character in HIDDEN:
        return ""
    category = unicodedata.category(character)
    if character.isspace() or category.startswith("Z"):
        return " "
    return "" if category.startswith("C") else character


def _first_words(line: str) -> str:
    """As many words as fit into `HIT_CHARS_MAX`; a single longer word is cut."""
    if len(line) <= HIT_CHARS_MAX:
        return line
    start = line[:HIT_CHARS_MAX]
    words = start.rpartition(" ")[0] if " " in start[HIT_CHARS_MAX // 2 :] else start
    return words.rstrip(" ,;:([-–—") + "…"


def _server(path: str) -> str:
    """`servers.box.get_docs` -> `box`: the first path of the line shows the full form."""
    module = path.rpartition(".")[0] or path
    return module.removeprefix(PACKAGE)


def _tools(count: int) -> str:
    return "tool" if count == 1 else "tools"
