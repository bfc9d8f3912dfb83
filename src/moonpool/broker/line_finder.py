"""Finds what has a shape, where no shape goes over the end of a line.

Patterns may consume a line end behind what they find, never before or in it; `(?m:^)` is the beginning of a line.

One RE2 alternation says where something may be; only there a second look decides which kind it is, which part of it is
the secret, and whether it is one at all. So text that merely resembles secrets costs one pass of an automaton. The
second look is Python's engine where little was found, because it is quick there, and RE2 where that would be slow.

A line may be endless. INVARIANT: in a line longer than WINDOW_BYTES the search stands at a place, sees so many bytes
from there, takes the leftmost longest match that begins in the first half of them and goes on behind it, or else goes
on half a window further. This depends on the line alone, so chunks make no difference, and no more than a window has
to wait. Where no match is longer than half a window, it is the plain search from left to right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moonpool.broker.spans import Scan, Span, compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WINDOW_BYTES: Final = 32 * 1024
_HALF: Final = WINDOW_BYTES // 2
_SHORT_BYTES: Final = 256  # the square of it is the most that Python's engine has to do
_LONG_WORD_BYTES: Final = 1024  # else a line of words that are none would be searched again from each of them


class Found(NamedTuple):
    """What a kind is judged by."""

    before: bytes  # of what the pattern matched
    value: bytes
    after: bytes


class Kind(NamedTuple):
    """One kind of secret."""

    name: str  # what stands in the marker and is counted
    pattern: str  # for RE2 over bytes; its groups are alternatives for the part that is the secret
    judge: Callable[[Found], int] | None = None  # how much of the value is the secret; 0: it is none. None: all of it
    word: bool = False  # the value is one word: when a long one is none, nothing is looked for inside it


class LineFinder:
    """Finder of `kinds`; where two begin at the same place, the longer one wins.

    `hint` is a pattern without borders that also fits in JSON text wherever a kind fits in one of its strings.
    `hold` gives the offset in an unfinished line from which later bytes may matter.
    """

    def __init__(self, kinds: Sequence[Kind], *, hint: str, hold: Callable[[bytes], int]) -> None:
        whole = "|".join(f"(?:{kind.pattern})" for kind in kinds)
        self._where = compiled(whole.encode("latin-1"))
        self._what = re.compile(whole.replace(r"\z", r"\Z").encode("latin-1"))
        self._what_is_long = compiled(whole.encode("latin-1"), captures=True)
        groups = (re.compile(kind.pattern.replace(r"\z", r"\Z")).groups for kind in kinds)
        self._kinds = [kind for kind, count in zip(kinds, groups, strict=True) for _ in range(count)]  # by group
        self._hint = compiled(hint.encode("latin-1"))
        self._hold = hold

    @property
    def empty(self) -> bool:
        return False

    def contains(self, data: bytes) -> bool:
        return self._hint.search(data) is not None

    def scan(self, data: bytes, at: int, *, final: bool) -> Scan:
        spans: list[Span] = []
        whole = len(data) if final else data.rfind(b"\n", at) + 1
        if whole > at:
            self._search_lines(data, at, whole, spans)
            at = whole
        if final:
            return Scan(spans, len(data), len(data))
        while len(data) - at > WINDOW_BYTES:
            at = self._step(data, at, spans)
        unfinished = max(at, data.rfind(b"\r", at) + 1)  # a progress bar's lines; nothing goes over their ends either
        held = unfinished + self._hold(data[unfinished:])
        while (found := self._next(data, at, len(data))) is not None and found.end <= held:
            at = self._take(found, spans)
        return Scan(spans, at, max(at, held))

    def _search_lines(self, data: bytes, at: int, end: int, spans: list[Span]) -> None:
        """Search whole lines, the first of which may have begun before `at`."""
        while (found := self._next(data, at, end)) is not None:
            if found.end - found.start <= _HALF:
                at = self._take(found, spans)
                continue
            at = max(at, data.rfind(b"\n", at, found.start) + 1)
            line_end = data.find(b"\n", found.start, end) + 1 or end
            while line_end - at > WINDOW_BYTES:
                at = self._step(data, at, spans)
            while (found := self._next(data, at, line_end)) is not None:
                at = self._take(found, spans)
            at = line_end

    def _step(self, data: bytes, at: int, spans: list[Span]) -> int:
        """One step in a line that goes on behind the window; return where the next one stands."""
        found = self._next(data, at, at + WINDOW_BYTES)
        if found is None or found.start >= at + _HALF:
            return at + _HALF
        return self._take(found, spans)

    def _next(self, data: bytes, at: int, end: int) -> _Place | None:
        place = self._where.search(data, at, end)
        return None if place is None else self._look(data, *place.span())

    def _look(self, data: bytes, start: int, end: int) -> _Place:
        # Every group that takes part is the only one: each kind is an alternative, and so are the groups in it.
        if end - start <= _SHORT_BYTES:
            match: Any = self._what.fullmatch(data, start, end)
            group: int = match.lastindex
        else:
            match = self._what_is_long.fullmatch(data, start, end)
            group = next(group for group in range(1, len(self._kinds) + 1) if match.start(group) >= 0)
        kind, (at, value_end) = self._kinds[group - 1], match.span(group)
        length = value_end - at
        if kind.judge is not None:
            length = kind.judge(Found(data[start:at], data[at:value_end], data[value_end:end]))
        resume = value_end if kind.word and value_end - at > _LONG_WORD_BYTES else start + 1
        return _Place(start, end, at, length, kind.name, at + length if length else resume)

    def _take(self, found: _Place, spans: list[Span]) -> int:
        """Note what was found; return where the search goes on."""
        if found.length:
            spans.append(Span(found.value, found.value + found.length, found.name))
        return found.resume


class _Place(NamedTuple):
    start: int
    end: int
    value: int
    length: int
    name: str
    resume: int  # behind it, or right after the start of what is none


def hold_from_words(words: Sequence[str], *, any_case: bool) -> Callable[[bytes], int]:
    """`hold` for kinds that all begin with one of `words` or hold it before the secret: from the first of them on."""
    beginnings = sorted({word[:length] for word in words for length in range(1, len(word))})
    pattern = rf"(?:{_any(words)})|(?:{_any(beginnings)})\z"
    found: Any = compiled((f"(?i:{pattern})" if any_case else pattern).encode("latin-1"))

    def hold(line: bytes) -> int:
        match = found.search(line)
        return len(line) if match is None else match.start()

    return hold


def hold_from_characters(characters: bytes) -> Callable[[bytes], int]:
    """`hold` for kinds that consist of `characters`: from where nothing else follows."""
    return lambda line: len(line.rstrip(characters))


def _any(words: Sequence[str]) -> str:
    return "|".join("".join(f"\\x{ord(character):02x}" for character in word) for word in words)
