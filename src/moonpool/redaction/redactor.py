"""Redaction: the one place through which text, JSON and byte streams pass before they leave the broker.

Data and errors of tool calls, output chunks, approval prompts and audit all use this class; nothing else in Moonpool
replaces secrets. A secret becomes `[REDACTED:NAME]`; counts per name go into a tally for the audit trail, values never.

The finders decide what a secret is. They search one after the other, each in the output of the one before: known values
first (`known_values`), so that a value is replaced under its own name; then shapes (`secret_patterns`); then personal
data, where the operator wants it (`personal_data`).

INVARIANT: a stream cut into chunks at any place gives the same bytes as the whole text in one piece (H-022). It holds
for each finder (see `spans`), and so for one after the other.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from moonpool.redaction.json_redaction import redact_json
from moonpool.redaction.known_values import KnownValues
from moonpool.redaction.line_finder import LineFinder
from moonpool.redaction.named_values import NamedValues
from moonpool.redaction.personal_data import personal_finders
from moonpool.redaction.private_keys import PrivateKeys
from moonpool.redaction.secret_patterns import secret_finders
from moonpool.redaction.stream_search import Search

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.redaction.json_redaction import MemberNames
    from moonpool.redaction.spans import Span, SpanFinder

Tally: TypeAlias = Counter[str]
"""How often each named secret was replaced."""
_BY_LOOKS: Final = (LineFinder, PrivateKeys)
"""What finds things that may be secrets; every other finder looks for values that are."""


class Redactor:
    """Replaces what its finders find. Immutable after construction; safe to use from several threads."""

    def __init__(self, finders: Iterable[SpanFinder], *, members: MemberNames | None = None) -> None:
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
        secrets = secret_finders() if patterns else ()
        members = next((finder for finder in secrets if isinstance(finder, NamedValues)), None)
        known = [KnownValues(values), *([] if growing is None else [growing])]
        return cls([*known, *secrets, *personal_finders(personal)], members=members)

    @property
    def known(self) -> Redactor:
        """A redactor for the known values among what this one takes out."""
        return Redactor(finder for finder in self._finders if not isinstance(finder, _BY_LOOKS))

    def by_looks(self, text: str, member: str) -> Sequence[Span]:
        """Where, in the UTF-8 of a string, something looks like a secret; `member` is its name in an object, if any."""
        data = text.encode("utf-8", "surrogatepass")
        finders = [finder for finder in self._finders if isinstance(finder, _BY_LOOKS) and finder.contains(data)]
        found = [span for finder in finders for span in finder.scan(data, 0, final=True).spans]
        if self._members is not None and member and text and self._members.names(member):
            found += self._members.members([(member, text)])[0]
        return found

    def data(self, data: bytes, tally: Tally) -> bytes:
        """Redact one complete piece of bytes. For chunks use `stream()`."""
        for finder in self._finders:
            if finder.contains(data):
                data = Search(finder, tally).all_of(data)
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
        return redact_json(value, self._finders, self._members, self.text, tally)

    def json_object(self, value: JsonObject, tally: Tally, *, encoded: bytes | None = None) -> JsonObject:
        redacted = self.json(value, tally, encoded=encoded)
        assert isinstance(redacted, dict)
        return redacted

    def stream(self) -> StreamRedactor:
        return StreamRedactor(self._finders)

    def _clean(self, encoded: bytes | None) -> bool:
        return encoded is not None and not any(finder.contains(encoded) for finder in self._finders)


class StreamRedactor:
    """Redacts a stream of chunks. Bytes that may begin a secret wait until the next chunk or the end."""

    def __init__(self, finders: Sequence[SpanFinder]) -> None:
        self.tally: Tally = Counter()
        self._finders = finders
        self._searches: list[Search] = []  # made when there is something to search: most streams stay empty

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk, give back what can be shown now (perhaps nothing)."""
        if chunk and not self._searches:
            self._searches = [Search(finder, self.tally) for finder in self._finders]
        for search in self._searches:
            chunk = search.take(chunk, final=False)
        return chunk

    def finish(self) -> bytes:
        """Give back the rest; the stream is over."""
        rest = b""
        for search in self._searches:
            rest = search.take(rest, final=True)
        return rest


def _encode_or_none(value: JsonValue) -> bytes | None:
    try:
        return msgspec.json.encode(value)
    except (ValueError, RecursionError):  # a lone surrogate; the walk copes with it
        return None
