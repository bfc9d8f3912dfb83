"""Limits of one search. A search beyond them is refused with a sentence that says how to ask.

A pattern is a filter. RE2 runs in linear time, so no pattern can hang a search.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moonpool.catalog.errors import CatalogQueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

QUERIES_MAX: Final = 10
QUERY_CHARS_MAX: Final = 4_000
LIMIT_MAX: Final = 50


def checked_queries(queries: str | Sequence[str]) -> Sequence[str]:
    """The questions of one search as a sequence. Raises CatalogQueryError."""
    asked = [queries] if isinstance(queries, str) else list(queries)
    if not asked or not all(query.strip() for query in asked):
        raise CatalogQueryError("a search needs words: say in 3 to 6 of them what the tool should do")
    if len(asked) > QUERIES_MAX:
        raise CatalogQueryError(f"{len(asked)} queries in one search: ask at most {QUERIES_MAX} at a time")
    if (longest := max(len(query) for query in asked)) > QUERY_CHARS_MAX:
        raise CatalogQueryError(f"a query of {longest} characters: at most {QUERY_CHARS_MAX}, best 3 to 6 words")
    return asked


def check_limit(limit: int) -> None:
    """Raise CatalogQueryError unless `limit` is valid."""
    if not 1 <= limit <= LIMIT_MAX:
        raise CatalogQueryError(f"limit {limit} is out of range: ask for 1 to {LIMIT_MAX} tools")


PATTERN_CHARS_MAX: Final = 500


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that searches for `pattern` anywhere in a string, ignoring case. Raises CatalogQueryError."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise CatalogQueryError(f"a pattern of {len(pattern)} characters: use at most {PATTERN_CHARS_MAX}")
    re2: Any = import_module("re2")  # untyped; imported only for searches with a pattern
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as exc:
        raise CatalogQueryError(f"pattern {pattern!r} is not a regular expression of RE2: {_reason(exc)}") from exc
    return lambda text: compiled.search(text.encode("utf-8", "replace")) is not None


def _reason(exc: Exception) -> str:
    reason = exc.args[0] if len(exc.args) == 1 else exc
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
