"""What finders of secrets have in common: where a secret stands, and how a text is searched while it still arrives.

A finder is given data from which everything before `at` is searched already; the last byte of that is there as context.
It says what is decided now, however the text goes on.

INVARIANT: the decisions about a text do not depend on where its chunks end (H-022). `Redactor` relies on it; the
finders are `known_values`, `private_keys` and `line_finder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import re2

if TYPE_CHECKING:
    from collections.abc import Sequence


class Span(NamedTuple):
    """Where a secret stands in a piece of bytes."""

    start: int
    end: int
    name: str


class Scan(NamedTuple):
    """What a finder has decided."""

    spans: Sequence[Span]  # in order, not overlapping
    at: int  # where the search goes on
    shown: int  # bytes up to here can be shown, the spans replaced; never before `at`


class SpanFinder(Protocol):
    """Finds secrets in bytes, in time linear in their length."""

    @property
    def empty(self) -> bool: ...

    def contains(self, data: bytes) -> bool:
        """False only if neither `data` holds a secret nor, should it be JSON text, any string in it."""
        ...

    def scan(self, data: bytes, at: int, *, final: bool) -> Scan:
        """Search `data` from `at` on; `final` when nothing follows. Then everything is decided and shown."""
        ...


def compiled(pattern: bytes, *, captures: bool = False) -> Any:
    """A linear-time pattern over bytes that prefers the longest match."""
    options = re2.Options()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    options.longest_match = True
    options.never_capture = not captures
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1  # pyright: ignore[reportUnknownMemberType]
    options.max_mem = 256 * 1024**2  # a ceiling, not an allocation: the automaton must not fall back to the slow one
    return cast("Any", re2.compile(pattern, options))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
