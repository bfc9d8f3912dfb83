"""One finder's search and replacement in one text, in one piece or in chunks.

A finder replaces what it finds, one by one, as long as there were at most PLACES_PER_MEBIBYTE_MAX places for each
mebibyte searched so far; the first mebibyte counts fully even if it is incomplete. Places are secrets and misses. From
the first place beyond that limit on, the rest of the text is withheld: such a text is useless to a reader and would
serve to keep the broker busy. Personal data is not counted: a table of addresses is an ordinary result
(docs/decisions/0023-what-redaction-may-cost.md).

INVARIANT: which place is the first beyond the limit depends only on the text, not on its chunks: on the number of
earlier places and its position. SECURITY: withheld text is not searched, so it is never shown, not even in a later
chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.redaction.spans import replaced

if TYPE_CHECKING:
    from collections import Counter

    from moonpool.redaction.spans import Scan, SpanFinder

PLACES_PER_MEBIBYTE_MAX: Final = 1500
WITHHELD: Final = b"[REDACTED: the rest of this text, which held too many secrets]"
TOO_MANY: Final = "too_many_secrets"
_MEBIBYTE: Final = 1024**2


class Search:
    """Buffers the undecided part of a stream, with one byte before it, and counts the findings."""

    def __init__(self, finder: SpanFinder, tally: Counter[str]) -> None:
        self._finder = finder
        self._tally = tally
        self._data = b""
        self._at = 0  # where the search continues
        self._shown = 0  # what was returned already
        self._before = 0  # bytes of the text before `_data`
        self._count = 0  # places so far
        self._withheld = False

    def all_of(self, data: bytes) -> bytes:
        """Redact a complete text; `data` itself if nothing is found. The object cannot be used again."""
        scan = self._finder.scan(data, 0, final=True, most=self._most(len(data)))
        given = self._give(data, 0, len(data), scan)
        return given if scan.spans or self._withheld else data

    def take(self, chunk: bytes, *, final: bool) -> bytes:
        if self._withheld or (not chunk and not final):
            return b""
        data = self._data + chunk
        scan = self._finder.scan(data, self._at, final=final, most=self._most(len(data)))
        shown = max(scan.shown, self._shown)
        given = self._give(data, self._shown, shown, scan)
        cut = max(0, scan.at - 1)
        self._data, self._at, self._shown = data[cut:], scan.at - cut, shown - cut
        self._before += cut
        return given

    def _give(self, data: bytes, start: int, end: int, scan: Scan) -> bytes:
        spans, rest = scan.spans, b""
        cut = self._first_too_many(scan)
        if cut is not None:
            kept, end = cut
            spans, rest = spans[:kept], WITHHELD
            self._withheld = True
            self._tally[TOO_MANY] += 1
        self._count += len(spans) + len(scan.misses)
        self._tally.update([name for _, _, name in spans])
        return replaced(data, start, end, spans) + rest

    def _most(self, length: int) -> int | None:
        """The number of findings after which a scan may stop, because one of so many exceeds the limit in any case."""
        if not self._finder.counted:
            return None
        return _allowed(self._before + length) - self._count + 1

    def _first_too_many(self, scan: Scan) -> tuple[int, int] | None:
        """How many secrets come before the limit is exceeded, and where that is."""
        spans, misses = scan.spans, scan.misses
        if not self._finder.counted or self._count + len(spans) + len(misses) <= PLACES_PER_MEBIBYTE_MAX:
            return None
        ends = [(span[0], index) for index, span in enumerate(spans)]
        places = sorted([*misses, *ends], key=lambda place: place[1])  # a miss comes before the next secret
        for count, (at, kept) in enumerate(places, self._count):
            if count >= _allowed(self._before + at):
                return kept, at
        return None


def _allowed(length: int) -> int:
    """How many secrets a text of this length may have."""
    return PLACES_PER_MEBIBYTE_MAX * max(length, _MEBIBYTE) // _MEBIBYTE
