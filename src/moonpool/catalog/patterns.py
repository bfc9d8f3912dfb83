"""Regular expressions as a filter. RE2 runs in linear time, so no pattern can hang a search."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moonpool.catalog.errors import CatalogQueryError

if TYPE_CHECKING:
    from collections.abc import Callable

PATTERN_CHARS_MAX: Final = 500


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a test that finds `pattern` anywhere in a text, whatever the case. Raises CatalogQueryError."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise CatalogQueryError(f"a pattern of {len(pattern)} characters: use at most {PATTERN_CHARS_MAX}")
    re2: Any = import_module("re2")  # untyped; only searches with a pattern pay for it
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
