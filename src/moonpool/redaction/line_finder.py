"""Finds secrets by their shape, within single lines.

Patterns may consume a line end behind what they find, never before or in it; `(?m:^)` is the beginning of a line. The
end of a string ends a line: a string gives the same result alone and before other lines.

One RE2 alternation finds candidates; a second step decides for each which kind it is, which part is the secret, and
whether it is one. The first pattern excludes common harmless values (`Kind.prefilter`), so it costs one pass of an
automaton; a candidate that proves harmless is counted as a miss (`stream_search`). In the second step RE2 says which
kinds match, and Python's engine where their parts are. SECURITY: Python's engine must not backtrack in a match: the
patterns of the kinds match in one way only, or `_ONLY_ONCE` makes them possessive.

A line may be endless. INVARIANT: in a line longer than WINDOW_BYTES the search sees one window from its position, takes
the leftmost longest match that begins in the window's first half and continues after it, or else moves half a window
on. This depends only on the line, so chunks do not matter, and at most one window is held back. If no match is longer
than half a window, the result is that of a plain search from left to right.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from moonpool.redaction.spans import Scan, compiled, first_place, which_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.redaction.spans import Miss, Span

WINDOW_BYTES: Final = 32 * 1024
_HALF: Final = WINDOW_BYTES // 2
_SHORT_BYTES: Final = _HALF  # longer matches are left to RE2
_MISS_BYTES: Final = 256  # one more miss for each: a long one takes longer
_LONG_WORD_BYTES: Final = 1024  # otherwise a line of harmless words would be searched again from each of them


_ONLY_ONCE: Final = ((rb"]+|\\[^\r\n])+", rb"]++|\\[^\r\n])++"), (rb"|]*)?(?:=>|", rb"|]*+)?(?:=>|"))
"""Contents of quotes, and the type of a variable."""

FalsePositiveRule: TypeAlias = "Callable[[bytes, bytes, bytes], int]"
"""Called with the parts of a match before the value, the value, and the parts after it. Returns how many bytes of the
value are the secret; 0: none. The three are no object: creating one would cost as much as the search.
"""


class Kind(NamedTuple):
    """One kind of secret."""

    name: str  # shown in the marker and counted
    pattern: str  # for RE2 over bytes; its groups are alternatives for the part that is the secret
    rule: FalsePositiveRule | None = None  # None: all of the value is the secret
    word: bool = False  # the value is one word: if a long one is harmless, nothing inside it is searched
    prefilter: str | None = (
        None  # what the search stops at; fits in `pattern`, and on all that `rule` takes for secrets
    )


class _Found(NamedTuple):
    """What a scan has found so far, and when to stop."""

    spans: list[Span]
    misses: list[Miss]
    most: int

    def enough(self) -> bool:
        return len(self.spans) + len(self.misses) >= self.most


class LineFinder:
    """Finder of `kinds`; if two begin at the same place, the longer one wins.

    `hint` is a pattern without borders that also fits in JSON text wherever a kind fits in one of its strings.
    `hold` gives the offset in an unfinished line from which later bytes may matter.
    """

    between = b"\n"

    def __init__(self, kinds: Sequence[Kind], *, hint: str, hold: Callable[[bytes], int], counted: bool = True) -> None:
        self.counted = counted
        shapes = [kind.pattern.encode("latin-1") for kind in kinds]
        whole = b"|".join(b"(?:%b)" % shape for shape in shapes)
        searches = [(kind.prefilter or kind.pattern).encode("latin-1") for kind in kinds]
        self._first = first_place(compiled(b"|".join(b"(?:%b)" % shape for shape in searches)))
        self._fitting = which_fit(shapes)
        self._kinds = list(kinds)
        self._parts = [re.compile(_for_python(shape)) for shape in shapes]
        self._parts_of_long = compiled(whole, captures=True)
        by_kind = zip(kinds, self._parts, strict=True)
        self._kind_of_group = [kind for kind, parts in by_kind for _ in range(parts.groups)]
        self._hint = compiled(hint.encode("latin-1"))
        self._hold = hold

    @property
    def empty(self) -> bool:
        return False

    def contains(self, data: bytes) -> bool:
        return self._hint.search(data) is not None

    def scan(self, data: bytes, at: int, *, final: bool, most: int | None = None) -> Scan:
        found = _Found([], [], sys.maxsize if most is None else most)
        if final:
            if at < len(data):
                self._search_lines(data + b"\n", at, len(data) + 1, found)
            return Scan(found.spans, len(data), len(data), found.misses)
        whole = data.rfind(b"\n", at) + 1
        if whole > at:
            self._search_lines(data, at, whole, found)
            at = whole
        while len(data) - at > WINDOW_BYTES and not found.enough():
            at = self._step(data, at, found)
        unfinished = max(at, data.rfind(b"\r", at) + 1)  # lines of a progress bar; no match crosses their ends either
        held = unfinished + self._hold(data[unfinished:])
        while True:
            start, end = self._first(data, at, len(data))
            if start < 0 or end > held or found.enough():
                return Scan(found.spans, at, max(at, held), found.misses)
            at = self._take(data, start, end, found)

    def _search_lines(self, data: bytes, at: int, end: int, found: _Found) -> None:
        """Search whole lines, the first of which may have begun before `at`."""
        first, take, (spans, misses, most) = self._first, self._take, found
        while len(spans) + len(misses) < most:
            start, stop = first(data, at, end)
            if start < 0:
                return
            if stop - start <= _HALF:
                at = take(data, start, stop, found)
            else:
                at = self._search_long_line(data, at, start, end, found)

    def _search_long_line(self, data: bytes, at: int, start: int, end: int, found: _Found) -> int:
        """Search the line of `start`, in which something is longer than half a window; return where the next begins."""
        at = max(at, data.rfind(b"\n", at, start) + 1)
        line_end = data.find(b"\n", start, end) + 1 or end
        while line_end - at > WINDOW_BYTES and not found.enough():
            at = self._step(data, at, found)
        while not found.enough():
            start, stop = self._first(data, at, line_end)
            if start < 0:
                break
            at = self._take(data, start, stop, found)
        return line_end

    def _step(self, data: bytes, at: int, found: _Found) -> int:
        """One step in a line that continues after the window; return the position of the next."""
        start, stop = self._first(data, at, at + WINDOW_BYTES)
        if start < 0 or start >= at + _HALF:
            return at + _HALF
        return self._take(data, start, stop, found)

    def _take(self, data: bytes, start: int, stop: int, found: _Found) -> int:
        """Record the secret in a match; return where to continue: after it, or after the start of a harmless match."""
        if stop - start > _SHORT_BYTES:
            kind, at, end = self._look(data, start, stop)
        else:
            # Every group that takes part is the only one: each kind is an alternative, and so are the groups in it.
            fitting = self._fitting(data[start:stop])
            for index in fitting if len(fitting) == 1 else sorted(fitting):
                match = self._parts[index].fullmatch(data, start, stop)
                if match is not None:
                    kind = self._kinds[index]
                    at, end = match.span(match.lastindex)  # pyright: ignore[reportArgumentType]  a group took part
                    break
            else:  # no kind matches in context: the engines disagree
                kind, at, end = self._look(data, start, stop)
        _, _, rule, word, _ = kind
        length = end - at if rule is None else rule(data[start:at], data[at:end], data[end:stop])
        if length:
            found.spans.append((at, at + length, kind[0]))
            return at + length
        if self.counted:
            miss = (start + self._hold(data[start:stop]), len(found.spans))
            found.misses.extend((miss,) * (1 + (stop - start) // _MISS_BYTES))
        return end if word and end - at > _LONG_WORD_BYTES else start + 1

    def _look(self, data: bytes, start: int, stop: int) -> tuple[Kind, int, int]:
        """The first matching kind, and the span of its value, by RE2 alone."""
        found: Any = self._parts_of_long.fullmatch(data, start, stop)
        group = next(group for group in range(1, len(self._kind_of_group) + 1) if found.start(group) >= 0)
        return self._kind_of_group[group - 1], *found.span(group)


def _for_python(shape: bytes) -> bytes:
    """The same for Python's engine, with possessive quantifiers where there is only one way to match."""
    for plain, once in _ONLY_ONCE:
        shape = shape.replace(plain, once)
    return shape.replace(rb"\z", rb"\Z")


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
