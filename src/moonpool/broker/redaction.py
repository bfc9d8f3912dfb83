"""Redaction: the one choke point through which text, JSON and byte streams pass before they leave the broker.

Data and errors of tool calls, output chunks, approval prompts and audit all use this class; nothing else in Moonpool
replaces secrets. A secret becomes `[REDACTED:NAME]`; counts per name go into a tally for the audit trail, values never.

INVARIANT: a stream cut into chunks at any place gives the same bytes as the whole text in one piece (H-022).

What counts as a secret is the finder's business: `moonpool.broker.known_values` today. A finder for patterns joins
later behind `SpanFinder`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from moonpool.broker.known_values import KnownValues, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moonpool.core.json import JsonObject, JsonValue

_SEARCH_DEPTH_MAX = 8  # containers down to here are searched whole before they are walked; bounds the repeated work

Tally: TypeAlias = Counter[str]
"""How often each named secret was replaced."""


class SpanFinder(Protocol):
    """Finds secrets in bytes, in time linear in their length."""

    @property
    def empty(self) -> bool: ...

    def contains(self, data: bytes) -> bool: ...

    def find(self, data: bytes) -> Iterator[Span]: ...

    def hold_from(self, data: bytes) -> int: ...


class Redactor:
    """Replaces what its finder finds. Immutable after construction; safe to use from several threads."""

    def __init__(self, finder: SpanFinder) -> None:
        self._finder = finder

    @classmethod
    def of_values(cls, values: Mapping[str, str]) -> Redactor:
        """A redactor for known values by name. Values under 6 characters are ignored."""
        return cls(KnownValues(values))

    def data(self, data: bytes, tally: Tally) -> bytes:
        """Redact one complete piece of bytes. For chunks use `stream()`."""
        return b"".join(_replaced(data, self._finder.find(data), tally)) if self._finder.contains(data) else data

    def text(self, text: str, tally: Tally) -> str:
        data = text.encode("utf-8", "surrogatepass")
        if not self._finder.contains(data):
            return text
        return self.data(data, tally).decode("utf-8", "surrogatepass")

    def json(self, value: JsonValue, tally: Tally, *, encoded: bytes | None = None) -> JsonValue:
        """Redact strings, object keys and numbers in `value`; return `value` itself when nothing is to be done.

        `encoded` is the JSON text of `value` where the caller has it already: one search over it settles the
        common case. INVARIANT: the finder knows values in their JSON-escaped form too, so that search misses nothing.
        """
        if self._finder.empty:
            return value
        if encoded is None:
            encoded = _encode_or_none(value)
        if self._clean(encoded):
            return value
        return self._walk(value, tally)

    def json_object(self, value: JsonObject, tally: Tally, *, encoded: bytes | None = None) -> JsonObject:
        redacted = self.json(value, tally, encoded=encoded)
        assert isinstance(redacted, dict)
        return redacted

    def stream(self) -> StreamRedactor:
        return StreamRedactor(self._finder)

    def _walk(self, value: JsonValue, tally: Tally, depth: int = 0) -> JsonValue:
        if isinstance(value, str):
            return self.text(value, tally)
        if value is None or isinstance(value, bool):
            return value
        if not isinstance(value, list | dict):
            digits = repr(value)
            redacted = self.text(digits, tally)
            return value if redacted == digits else redacted
        if 0 < depth < _SEARCH_DEPTH_MAX and self._clean(_encode_or_none(value)):
            return value
        if isinstance(value, list):
            return [self._walk(item, tally, depth + 1) for item in value]
        return self._walk_object(value, tally, depth)

    def _walk_object(self, value: JsonObject, tally: Tally, depth: int) -> JsonObject:
        members: JsonObject = {}
        for key, item in value.items():
            name = self.text(key, tally)
            while name in members:  # two keys that differ only in a secret must not swallow each other
                name += "'"
            members[name] = self._walk(item, tally, depth + 1)
        return members

    def _clean(self, encoded: bytes | None) -> bool:
        return encoded is not None and not self._finder.contains(encoded)


class StreamRedactor:
    """Redacts a stream of chunks. Bytes that may begin a secret wait in the carry until the next chunk or the end."""

    def __init__(self, finder: SpanFinder) -> None:
        self._finder = finder
        self._carry = b""
        self.tally: Tally = Counter()

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk, give back what can be shown now (perhaps nothing)."""
        if self._finder.empty:
            return chunk
        return self._emit(self._carry + chunk, final=False)

    def finish(self) -> bytes:
        """Give back the rest; the stream is over."""
        return self._emit(self._carry, final=True)

    def _emit(self, data: bytes, *, final: bool) -> bytes:
        hold = len(data) if final else self._finder.hold_from(data)
        spans: list[Span] = []
        for span in self._finder.find(data):
            if span.start >= hold:
                break
            spans.append(span)
        cut = max(hold, spans[-1].end) if spans else hold
        self._carry = data[cut:]
        return b"".join(_replaced(data[:cut], iter(spans), self.tally))


def _replaced(data: bytes, spans: Iterator[Span], tally: Tally) -> Iterator[bytes]:
    at = 0
    for span in spans:
        yield data[at : span.start]
        yield b"[REDACTED:" + span.name.encode() + b"]"
        tally[span.name] += 1
        at = span.end
    yield data[at:]


def _encode_or_none(value: JsonValue) -> bytes | None:
    try:
        return msgspec.json.encode(value)
    except (ValueError, RecursionError):  # a lone surrogate; the walk copes with it
        return None
