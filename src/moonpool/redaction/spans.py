"""What finders of secrets have in common: where a secret stands, and how a text is searched while it still arrives.

A finder is given data from which everything before `at` is searched already; the last byte of that is there as context.
It says what is decided now, however the text goes on.

INVARIANT: the decisions about a text do not depend on where its chunks end (H-022). `Redactor` relies on it; the
finders are `known_values`, `private_keys` and `line_finder`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, cast

import re2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Span: TypeAlias = tuple[int, int, str]
"""Where a secret stands in a piece of bytes, and its name. A plain tuple: a text may hold tens of thousands of them."""


Miss: TypeAlias = tuple[int, int]
"""What was looked at and is no secret: a place that no stream has shown by then and that is before whatever is found
later; and how many secrets were found before it."""

NOT_IN_TEXT: Final = b"\xff"
"""No text has this byte in its UTF-8, and so no secret."""


_NOWHERE: Final = (-1, -1)


class Scan(NamedTuple):
    """What a finder has decided."""

    spans: Sequence[Span]  # in order, not overlapping
    at: int  # where the search goes on
    shown: int  # bytes up to here can be shown, the spans replaced; never before `at`
    misses: Sequence[Miss] = ()  # in order; one that took long is there several times


class SpanFinder(Protocol):
    """Finds secrets in bytes, in time linear in their length."""

    between: bytes  # texts with this between them are searched as if each were alone
    counted: bool  # whether too many are too many (see `stream_search`), and misses are given

    @property
    def empty(self) -> bool: ...

    def contains(self, data: bytes) -> bool:
        """False only if neither `data` holds a secret nor, should it be JSON text, any string in it."""
        ...

    def scan(self, data: bytes, at: int, *, final: bool, most: int | None = None) -> Scan:
        """Search `data` from `at` on; `final` when nothing follows. Then everything is decided and shown.

        Having found `most`, misses among them, it may stop: nothing behind the last of them will be asked for.
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
    options.max_mem = 256 * 1024**2  # a ceiling, not an allocation: the automaton must not fall back to the slow one
    return options


def first_place(pattern: Any) -> Callable[[bytes, int, int], tuple[int, int]]:
    """The search of a `compiled` pattern: the one place it fits first, or -1 and -1."""
    search = pattern.search

    def first(data: bytes, at: int, end: int) -> tuple[int, int]:
        match = search(data, at, end)
        return match.span() if match is not None else _NOWHERE

    return first


def which_fit(patterns: Sequence[bytes]) -> Callable[[bytes], list[int]]:
    """Says by their numbers, in any order, which of `patterns` fit a whole text. It sees nothing around the text."""
    fitting: Any = re2.Set.FullMatchSet(_options(captures=False))  # pyright: ignore[reportUnknownMemberType]
    for pattern in patterns:
        fitting.Add(pattern)
    fitting.Compile()
    return lambda text: fitting.Match(text) or []


def replaced(data: bytes, start: int, end: int, spans: Sequence[Span]) -> bytes:
    """`data` from `start` to `end` with every span replaced."""
    pieces: list[bytes] = []
    for at, span_end, name in spans:  # a text may be full of secrets, so this is kept short
        pieces += (data[start:at], _marker(name))
        start = span_end
    pieces.append(data[start:end])
    return b"".join(pieces)


@lru_cache(maxsize=1024)
def _marker(name: str) -> bytes:
    return b"[REDACTED:%b]" % name.encode()
