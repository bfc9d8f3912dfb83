"""Redaction: the one choke point through which text, JSON and byte streams pass before they leave the broker.

Data and errors of tool calls, output chunks, approval prompts and audit all use this class; nothing else in Moonpool
replaces secrets. A secret becomes `[REDACTED:NAME]`; counts per name go into a tally for the audit trail, values never.

What counts as a secret is the finders' business. They search one after the other, each in what the one before has made
of the text: known values first (`known_values`), so that a value goes by its own name; then shapes (`secret_patterns`);
then personal data, where the operator wants it (`personal_data`).

INVARIANT: a stream cut into chunks at any place gives the same bytes as the whole text in one piece (H-022). It holds
for each finder (see `spans`), and so for one after the other.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from moonpool.broker.known_values import KnownValues
from moonpool.broker.personal_data import personal_finders
from moonpool.broker.secret_patterns import NamedValues, secret_finders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from moonpool.broker.spans import Span, SpanFinder
    from moonpool.core.json import JsonObject, JsonValue

_SEARCH_DEPTH_MAX = 8  # containers down to here are searched whole before they are walked; bounds the repeated work

Tally: TypeAlias = Counter[str]
"""How often each named secret was replaced."""


class MemberRule(Protocol):
    """Says what is secret in a member of an object because of the member's name."""

    def member(self, name: str, value: str) -> Sequence[Span]: ...


class Redactor:
    """Replaces what its finders find. Immutable after construction; safe to use from several threads."""

    def __init__(self, finders: Iterable[SpanFinder], *, members: MemberRule | None = None) -> None:
        self._finders = [finder for finder in finders if not finder.empty]
        self._members = members

    @classmethod
    def of_values(cls, values: Mapping[str, str]) -> Redactor:
        """A redactor for known values by name, and nothing else. Values under 6 characters are ignored."""
        return cls([KnownValues(values)])

    @classmethod
    def of(
        cls,
        values: Mapping[str, str],
        *,
        patterns: bool = True,
        personal: Iterable[str] = (),
        growing: SpanFinder | None = None,
    ) -> Redactor:
        """A redactor for known values, for secrets by their shape, and for the named kinds of personal data.

        `growing` finds values that become known later.
        """
        secrets = secret_finders() if patterns else []
        members = next((finder for finder in secrets if isinstance(finder, NamedValues)), None)
        known = [KnownValues(values), *([] if growing is None else [growing])]
        return cls([*known, *secrets, *personal_finders(personal)], members=members)

    def data(self, data: bytes, tally: Tally) -> bytes:
        """Redact one complete piece of bytes. For chunks use `stream()`."""
        for finder in self._finders:
            if finder.contains(data):
                spans = finder.scan(data, 0, final=True).spans
                data = _replaced(data, 0, len(data), spans, tally) if spans else data
        return data

    def text(self, text: str, tally: Tally) -> str:
        data = text.encode("utf-8", "surrogatepass")
        redacted = self.data(data, tally)
        return text if redacted is data else redacted.decode("utf-8", "surrogatepass")

    def json(self, value: JsonValue, tally: Tally, *, encoded: bytes | None = None) -> JsonValue:
        """Redact strings, object keys and numbers in `value`; return `value` itself when nothing is to be done.

        `encoded` is the JSON text of `value` where the caller has it already: one search over it settles the
        common case. INVARIANT: the finders know what they look for in its JSON-escaped form too, so that search
        misses nothing.
        """
        if not self._finders:
            return value
        if encoded is None:
            encoded = _encode_or_none(value)
        if self._clean(encoded):
            return value
        before = tally.total()
        redacted = self._walk(value, tally)
        return value if tally.total() == before else redacted

    def json_object(self, value: JsonObject, tally: Tally, *, encoded: bytes | None = None) -> JsonObject:
        redacted = self.json(value, tally, encoded=encoded)
        assert isinstance(redacted, dict)
        return redacted

    def stream(self) -> StreamRedactor:
        return StreamRedactor(self._finders)

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
            members[name] = self._member(key, self._walk(item, tally, depth + 1), tally)
        return members

    def _member(self, key: str, redacted: JsonValue, tally: Tally) -> JsonValue:
        """SECURITY: a value that is walked alone has lost the name that made it a secret."""
        if self._members is None or not isinstance(redacted, str):
            return redacted
        spans = self._members.member(key, redacted)
        if not spans:
            return redacted
        data = redacted.encode("utf-8", "surrogatepass")
        return _replaced(data, 0, len(data), spans, tally).decode("utf-8", "surrogatepass")

    def _clean(self, encoded: bytes | None) -> bool:
        return encoded is not None and not any(finder.contains(encoded) for finder in self._finders)


class StreamRedactor:
    """Redacts a stream of chunks. Bytes that may begin a secret wait until the next chunk or the end."""

    def __init__(self, finders: Sequence[SpanFinder]) -> None:
        self.tally: Tally = Counter()
        self._passes = [_Pass(finder, self.tally) for finder in finders]

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk, give back what can be shown now (perhaps nothing)."""
        for one in self._passes:
            chunk = one.take(chunk, final=False)
        return chunk

    def finish(self) -> bytes:
        """Give back the rest; the stream is over."""
        rest = b""
        for one in self._passes:
            rest = one.take(rest, final=True)
        return rest


class _Pass:
    """One finder's pass over a stream. Keeps what is not decided, with one byte before it."""

    def __init__(self, finder: SpanFinder, tally: Tally) -> None:
        self._finder = finder
        self._tally = tally
        self._data = b""
        self._at = 0  # where the search goes on
        self._shown = 0  # what is given back already

    def take(self, chunk: bytes, *, final: bool) -> bytes:
        if not chunk and not final:
            return b""
        data = self._data + chunk
        scan = self._finder.scan(data, self._at, final=final)
        shown = max(scan.shown, self._shown)
        given = _replaced(data, self._shown, shown, scan.spans, self._tally)
        cut = max(0, scan.at - 1)
        self._data, self._at, self._shown = data[cut:], scan.at - cut, shown - cut
        return given


def _replaced(data: bytes, start: int, end: int, spans: Sequence[Span], tally: Tally) -> bytes:
    """`data` from `start` to `end` with every span replaced."""
    pieces: list[bytes] = []
    for at, span_end, name in spans:  # a text may be full of secrets, so this is kept short
        pieces += (data[start:at], b"[REDACTED:%b]" % name.encode())
        start = span_end
    tally.update([span.name for span in spans])
    pieces.append(data[start:end])
    return b"".join(pieces)


def _encode_or_none(value: JsonValue) -> bytes | None:
    try:
        return msgspec.json.encode(value)
    except (ValueError, RecursionError):  # a lone surrogate; the walk copes with it
        return None
