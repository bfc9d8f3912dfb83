"""Words that tool authors and models use for the same thing.

A word of the question also matches its synonyms, with `SYNONYM_WEIGHT`. Keep the groups few and general: words for
actions and objects of tools, and common abbreviations; no words of one product.

In addition `neighbours.txt` has a line per word: the word, then up to eight words that are nearest in a small language
model, best first. The file is text, not a model: a search only looks words up. The words come from one-line summaries
of published packages; `bench.retrieval.neighbours` generates the file and documents how.

A neighbour counts only if the catalog contains it, so a question about a "film" finds tools about movies, and a word
that no tool uses costs nothing.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from moonpool.catalog.text import stem, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SYNONYM_WEIGHT: Final = 0.4

_GROUPS: Final = (
    # actions
    "create add new make",
    "get fetch retrieve read obtain",
    "list show enumerate",
    "find search lookup query",
    "update edit modify change patch",
    "delete remove erase drop",
    "execute run",
    "start begin",
    "stop end terminate kill",
    "send post",
    "convert conversion transform",
    "translate translation",
    "summary summarize",
    "merge pull pr",
    "buy purchase",
    # objects
    "repository repo",
    "directory folder dir",
    "document doc",
    "database db",
    "config configuration setting",
    "user account profile",
    "message chat",
    "email mail",
    "image picture photo",
    "video clip",
    "song music track",
    "movie film",
    "game gaming",
    "book ebook",
    "paper publication research",
    "news headline article",
    "web website site page url link",
    "calendar event schedule",
    "location place address",
    "route direction",
    "weather forecast",
    "price cost quote",
    "stock share ticker",
    "car vehicle",
    "flight airline",
    "hotel accommodation",
    "restaurant dining",
    "recipe cook meal",
    "job career",
    # abbreviations
    "kubernetes k8s",
    "javascript js",
    "issue ticket",
    "pod container",
)


def _table(groups: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    neighbours: dict[str, set[str]] = {}
    for group in groups:
        members = terms(group)
        for member in members:
            neighbours.setdefault(member, set()).update(members)
    return {term: tuple(sorted(others - {term})) for term, others in neighbours.items()}


_NEIGHBOURS: Final = _table(_GROUPS)


def synonyms(term: str) -> tuple[str, ...]:
    """Search terms that mean about the same as `term`, in alphabetical order."""
    return _NEIGHBOURS.get(term, ())


NEIGHBOUR_WEIGHT: Final = 0.2  # half of a hand-written synonym's
NEIGHBOURS_MAX: Final = 4  # per word, of those in the catalog
QUESTION_TERMS_MAX: Final = 12  # longer questions say enough in their own words (decision 0035)

# Read at import: a search on an event loop must not wait for a file.
_LINES: Final = resources.files(__package__ or "").joinpath("neighbours.txt").read_text(encoding="utf-8")


def neighbours(term: str) -> tuple[str, ...]:
    """Search terms near `term`, best first."""
    return tuple(stem(word) for word in _by_term().get(term, "").split())


@cache
def _by_term() -> dict[str, str]:
    """Lines by the term of their word; split into words on demand."""
    return {stem(word): rest for word, _, rest in (line.partition(" ") for line in _LINES.splitlines()) if rest}
