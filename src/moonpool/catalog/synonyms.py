"""Words that tool authors and models use for the same thing.

A word of the question also finds its neighbours here, at `SYNONYM_WEIGHT` of its own worth. Keep the groups few and
general: words for what tools do and act on, and common abbreviations; no words of one product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.catalog.text import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SYNONYM_WEIGHT: Final = 0.4

_GROUPS: Final = (
    # what tools do
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
    # what they act on
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
