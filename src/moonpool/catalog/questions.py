"""How much may be asked in one search. What is too much is refused with a sentence that says how to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.catalog.errors import CatalogQueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

QUERIES_MAX: Final = 10
QUERY_CHARS_MAX: Final = 4_000
LIMIT_MAX: Final = 50


def checked_queries(queries: str | Sequence[str]) -> Sequence[str]:
    """The questions of one search, as several. Raises CatalogQueryError."""
    asked = [queries] if isinstance(queries, str) else list(queries)
    if not asked or not all(query.strip() for query in asked):
        raise CatalogQueryError("a search needs words: say in 3 to 6 of them what the tool should do")
    if len(asked) > QUERIES_MAX:
        raise CatalogQueryError(f"{len(asked)} queries in one search: ask at most {QUERIES_MAX} at a time")
    if (longest := max(len(query) for query in asked)) > QUERY_CHARS_MAX:
        raise CatalogQueryError(f"a query of {longest} characters: at most {QUERY_CHARS_MAX}, best 3 to 6 words")
    return asked


def check_limit(limit: int) -> None:
    """Raise CatalogQueryError unless so many tools may be asked for."""
    if not 1 <= limit <= LIMIT_MAX:
        raise CatalogQueryError(f"limit {limit} is out of range: ask for 1 to {LIMIT_MAX} tools")
