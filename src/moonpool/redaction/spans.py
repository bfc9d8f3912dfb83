"""Shared by finders of secrets: spans, and the search of text that is still arriving.

A finder gets data that is searched up to `at`; the last byte before it is there as context. It returns the decisions
that hold for any continuation of the text.

INVARIANT: decisions do not depend on chunk boundaries (H-022). `Redactor` relies on it; the finders are `known_values`,
`private_keys` and `line_finder`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, cast

import re2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Span: TypeAlias = tuple[int, int, str]
"""Start, end and name of a secret in a piece of bytes. A plain tuple: a text may have tens of thousands."""


Miss: TypeAlias = tuple[int, int]
"""A candidate that was no secret: a position not yet shown by any stream and before all later findings; and how many
secrets were found before it.
"""

NOT_IN_TEXT: Final = b"\xff"
"""A byte that never occurs in UTF-8, and so in no secret."""


_NOWHERE: Final = (-1, -1)


class Scan(NamedTuple):
    """A finder's decisions."""

    spans: Sequence[Span]  # in order, not overlapping
    at: int  # where the search continues
    shown: int  # bytes up to here can be shown, with spans replaced; never before `at`
    misses: Sequence[Miss] = ()  # in order; an expensive one counts several times


class SpanFinder(Protocol):
    """Finds secrets in bytes, in time linear in their length."""

    between: bytes  # strings joined by this are searched as if separate
    counted: bool  # whether the limit of `stream_search` applies, and misses are returned

    @property
    def empty(self) -> bool: ...

    def contains(self, data: bytes) -> bool:
        """False only if neither `data` holds a secret nor, should it be JSON text, any string in it."""
        ...

    def scan(self, data: bytes, at: int, *, final: bool, most: int | None = None) -> Scan:
        """Search `data` from `at` on; `final` if nothing follows, so that everything is decided and shown.

        After `most` findings, including misses, it may stop: nothing after the last one will be requested.
        """
        ...


def compiled(pattern: bytes, *, captures: bool = False) -> Any:
    """A linear-time pattern over bytes that prefers the longest match."""
    return cast("Any", re2.compile(pattern, _options(captures=captures)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _options(*, captures: bool) -> Any:
    options = re2.Options()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    options.longest_match = True
    options.never_capture = not captures
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1  # pyright: ignore[reportUnknownMemberType]
    options.max_mem = 256 * 1024**2  # a limit, not an allocation: the fast automaton must not fall back to the slow one
    return options


def first_place(pattern: Any) -> Callable[[bytes, int, int], tuple[int, int]]:
    """The search of a `compiled` pattern: start and end of the first match, or -1 and -1."""
    search = pattern.search

    def first(data: bytes, at: int, end: int) -> tuple[int, int]:
        match = search(data, at, end)
        return match.span() if match is not None else _NOWHERE

    return first


def which_fit(patterns: Sequence[bytes]) -> Callable[[bytes], list[int]]:
    """A function that returns the indices, in any order, of the `patterns` that match a whole text, without context."""
    fitting: Any = re2.Set.FullMatchSet(_options(captures=False))  # pyright: ignore[reportUnknownMemberType]
    for pattern in patterns:
        fitting.Add(pattern)
    fitting.Compile()
    return lambda text: fitting.Match(text) or []


def replaced(data: bytes, start: int, end: int, spans: Sequence[Span]) -> bytes:
    """`data` from `start` to `end` with every span replaced."""
    pieces: list[bytes] = []
    for at, span_end, name in spans:  # a text may have many secrets, so this loop is minimal
        pieces += (data[start:at], _marker(name))
        start = span_end
    pieces.append(data[start:end])
    return b"".join(pieces)


@lru_cache(maxsize=1024)
def _marker(name: str) -> bytes:
    return b"[REDACTED:%b]" % name.encode()
