"""Redaction: all text, JSON and byte streams pass it before they leave the broker.

Data and errors of tool calls, output chunks, approval prompts and audit all use this class; nothing else in Moonpool
replaces secrets. A secret becomes `[REDACTED:NAME]`; the tally for the audit journal holds counts per name, never
values.

The finders decide what a secret is. They run one after another, each on the previous one's output: known values first
(`known_values`), so that a value is replaced under its own name; then shapes (`secret_patterns`); then personal data,
if enabled (`personal_data`).

INVARIANT: a stream gives the same bytes for any chunk boundaries as the whole text in one piece (H-022). This holds for
each finder (see `spans`), and so for their sequence.
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
"""Finders of possible secrets; all other finders search for known values."""


class Redactor:
    """Replaces what its finders find. Immutable after construction; safe to use from several threads."""

    def __init__(self, finders: Iterable[SpanFinder], *, members: MemberNames | None = None) -> None:
        self._finders = [finder for finder in finders if not finder.empty]
        self._members = members

    @classmethod
    def of_values(cls, values: Mapping[str, str]) -> Redactor:
        """A redactor only for known values by name. Values under 6 characters are ignored."""
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

    def knowing(self, values: Mapping[str, str]) -> Redactor:
        """This one with more known values, which come first. Raises ValueError for too many."""
        return Redactor([KnownValues(values), *self._finders], members=self._members)

    @property
    def known(self) -> Redactor:
        """A redactor only for the known values of this one."""
        return Redactor(finder for finder in self._finders if not isinstance(finder, _BY_LOOKS))

    def by_looks(self, text: str, member: str) -> Sequence[Span]:
        """The spans in the UTF-8 of a string that look like a secret; `member` is its name in an object, if any."""
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
        """Redact strings, object keys and numbers in `value`; return `value` itself if nothing is found.

        `encoded` is the JSON text of `value` if the caller has it: one search over it settles the common case.
        INVARIANT: the finders also match JSON-escaped forms, so that search misses nothing.
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
    """Redacts a stream of chunks. Bytes that may begin a secret are held back until the next chunk or the end."""

    def __init__(self, finders: Sequence[SpanFinder]) -> None:
        self.tally: Tally = Counter()
        self._finders = finders
        self._searches: list[Search] = []  # created on first use: most streams stay empty

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; return the bytes that can be shown now (perhaps none)."""
        if chunk and not self._searches:
            self._searches = [Search(finder, self.tally) for finder in self._finders]
        for search in self._searches:
            chunk = search.take(chunk, final=False)
        return chunk

    def finish(self) -> bytes:
        """Return the rest at the end of the stream."""
        rest = b""
        for search in self._searches:
            rest = search.take(rest, final=True)
        return rest


def _encode_or_none(value: JsonValue) -> bytes | None:
    try:
        return msgspec.json.encode(value)
    except (ValueError, RecursionError):  # a lone surrogate; the walk copes with it
        return None
