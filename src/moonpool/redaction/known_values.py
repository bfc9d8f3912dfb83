"""Finds known secret values in bytes, in all common encodings.

One RE2 alternation over all forms of all values: linear time for any text, leftmost match, longest form. Forms are the
value itself, JSON- (also JSON in JSON in JSON), URL- and HTML-escaped, hex, and base64 at each of the three alignments
it can have inside a longer encoded text. Encoders of JSON and URLs differ in what they escape: the sets of the common
ones are known here (`_JSON_ESCAPES`, `_URL_SAFE`), and the escape of every character. Long values are also searched
piece by piece and line by line, so that an indented or wrapped private key is found.

SECURITY: a value that is transformed in another way (reversed, split by the code, compressed, some characters escaped
as no encoder does it, base64 broken over lines) is not found; redaction is the last precaution, not the security
boundary. The boundary is that secrets never enter the sandbox. `moonpool.redaction.redactor` applies the spans found
here; secrets that are not configured are searched after these, by `secret_patterns`.
"""

from __future__ import annotations

import base64
import bisect
import html
import json
import re
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

import re2

from moonpool.redaction.spans import NOT_IN_TEXT, Scan, compiled, first_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.redaction.spans import Span

SHORTEST_VALUE: Final = 6  # characters; shorter ones would match ordinary text
_PIECE_BYTES: Final = 1024
_LINE_BYTES: Final = 20
_FORM_COUNT_MAX: Final = 50_000
_EACH_BYTES_MAX: Final = 256
_JSON_DEPTH_MAX: Final = 3  # JSON in JSON in JSON
_JSON_ESCAPES: Final = ("<>&", "<>&'=", "<>&'\"+`")
"""Characters that encoders write as `\\u00XX` although they need not: Go; Gson; .NET and PHP. Hex digits are lower or
upper case.
"""
_CODE: Final = re.compile(r"\\u[0-9a-f]{4}")
_URL_SAFE: Final = ("", "/", "!'()*", ";,/?:@&=+$-_.!~*'()#", "*", "!*()", "$&+:=@", "$&+,;=")
"""Characters left unescaped besides letters, digits and `_.-~`: form fields; paths; JavaScript's two functions; forms
of JavaScript and Java; .NET; Go's paths, and users in its addresses. A blank is `%20` or `+`.
"""
_IN_HTML: Final = (('"', "&quot;", "&#34;"), ("'", "&#x27;", "&#39;", "&#039;"))


class KnownValues:
    """Finder of known values; gives the same spans regardless of chunk boundaries (see `_hold_from`)."""

    between = NOT_IN_TEXT
    counted = True

    def __init__(self, values: Mapping[str, str]) -> None:
        self.ignored = tuple(sorted(name for name, value in values.items() if len(value) < SHORTEST_VALUE))
        self._names: dict[bytes, str] = {}
        for name, value in values.items():
            if len(value) >= SHORTEST_VALUE:
                for form in _forms(value):
                    self._names.setdefault(form, name)
        if len(self._names) > _FORM_COUNT_MAX:
            raise ValueError(f"{len(values)} secret values are too many to redact")
        self._sorted = sorted(self._names)
        self._starts = frozenset(form[:1] for form in self._sorted)
        self._form_bytes_max = max(map(len, self._sorted), default=0)
        self._first = first_place(_alternation(self._sorted)) if self._sorted else None

    @property
    def empty(self) -> bool:
        return self._first is None

    def contains(self, data: bytes) -> bool:
        return self._first is not None and self._first(data, 0, len(data))[0] >= 0

    def scan(self, data: bytes, at: int, *, final: bool, most: int | None = None) -> Scan:
        hold = len(data) if final else self._hold_from(data, at)
        spans: list[Span] = []
        if self._first is None:
            return Scan(spans, hold, hold)
        first, names, length = self._first, self._names, len(data)
        while most is None or len(spans) < most:
            start, end = first(data, at, length)
            if start < 0 or start >= hold:
                break
            spans.append((start, end, names[data[start:end]]))
            at = end
        at = max(hold, spans[-1][1]) if spans else hold
        return Scan(spans, at, at)

    def _hold_from(self, data: bytes, at: int) -> int:
        """Offset from which `data` may be the beginning of a form that later bytes complete; `len(data)` if none."""
        for offset in range(max(at, len(data) - self._form_bytes_max + 1), len(data)):
            if data[offset : offset + 1] in self._starts and self._begins_a_longer_form(data[offset:]):
                return offset
        return len(data)

    def _begins_a_longer_form(self, tail: bytes) -> bool:
        place = bisect.bisect_right(self._sorted, tail)  # the first form greater than `tail`
        return place < len(self._sorted) and self._sorted[place].startswith(tail)


class GrowingValues:
    """Known values to which new ones are added at run time, such as renewed tokens."""

    between = NOT_IN_TEXT
    counted = True
    empty = False

    def __init__(self) -> None:
        self._by_source: dict[str, frozenset[str]] = {}
        self._values = KnownValues({})

    def set_values(self, source: str, values: frozenset[str]) -> None:
        """Set the values that are secret because of `source`; replaces earlier ones of this source."""
        self._by_source = {**self._by_source, source: values}
        known = sorted(frozenset[str]().union(*self._by_source.values()))
        self._values = KnownValues({f"TOKEN_{index}": value for index, value in enumerate(known, start=1)})

    def contains(self, data: bytes) -> bool:
        return self._values.contains(data)

    def scan(self, data: bytes, at: int, *, final: bool, most: int | None = None) -> Scan:
        return self._values.scan(data, at, final=final, most=most)


def _alternation(forms: list[bytes]) -> Any:
    return compiled(b"|".join(cast("bytes", re2.escape(form)) for form in forms))  # pyright: ignore[reportUnknownMemberType]


def _forms(value: str) -> set[bytes]:
    """Every byte form of `value` worth searching, none shorter than SHORTEST_VALUE."""
    raw = value.encode("utf-8", "surrogatepass")
    pieces = {raw[at : at + _PIECE_BYTES] for at in range(0, len(raw), _PIECE_BYTES)}
    lines = {line.strip() for line in raw.splitlines()}
    pieces |= {line[:_PIECE_BYTES] for line in lines if len(line) >= _LINE_BYTES and not line.startswith(b"-----")}
    forms: set[bytes] = set()
    for piece in pieces:
        forms |= _escaped(piece) | _base64_forms(piece) | {piece.hex().encode(), piece.hex().upper().encode()}
    if len(raw) <= _EACH_BYTES_MAX:
        forms |= _each_escaped(raw)
    return {form for form in forms if len(form) >= SHORTEST_VALUE}


def _escaped(raw: bytes) -> set[bytes]:
    text = raw.decode("utf-8", "surrogateescape")
    quoted = {quote(raw, safe=safe) for safe in _URL_SAFE}
    quoted |= {item.replace("%20", "+") for item in quoted}
    quoted |= {item.replace("~", "%7E") for item in quoted}
    quoted |= {_lower_percent(item) for item in quoted}
    ascii_json = json.dumps(text)[1:-1]
    utf8_json = json.dumps(text, ensure_ascii=False)[1:-1]
    escaped = {ascii_json, ascii_json.replace("/", "\\/"), utf8_json}
    escaped |= {_json_escaped(item, chars) for chars in _JSON_ESCAPES for item in (ascii_json, utf8_json)}
    escaped |= {_CODE.sub(lambda code: code[0].upper().replace("U", "u"), item) for item in escaped}
    for _ in range(_JSON_DEPTH_MAX - 1):  # results are JSON whose strings often hold JSON
        escaped |= {json.dumps(item, ensure_ascii=plain)[1:-1] for item in escaped for plain in (True, False)}
    return {raw} | {item.encode("utf-8", "surrogateescape") for item in quoted | escaped | _html_escaped(text)}


def _html_escaped(text: str) -> set[str]:
    plain = html.escape(text, quote=False)
    escaped = {plain.replace('"', double).replace("'", single) for double in _IN_HTML[0] for single in _IN_HTML[1]}
    return escaped | {item.encode("ascii", "xmlcharrefreplace").decode() for item in escaped}


def _json_escaped(ascii_json: str, chars: str) -> str:
    """JSON with `chars` escaped too."""
    for char in chars:
        ascii_json = ascii_json.replace('\\"' if char == '"' else char, f"\\u{ord(char):04x}")
    return ascii_json


def _each_escaped(raw: bytes) -> set[bytes]:
    """Every character as an escape: of JSON, also in JSON, and of URLs."""
    text = raw.decode("utf-8", "surrogateescape")
    units = text.encode("utf-16-be", "surrogatepass").hex(",", 2).split(",")
    codes = {"\\u" + "\\u".join(units), "%" + raw.hex("%", 1)}
    codes |= {item.upper().replace("U", "u") for item in codes}
    return {item.encode() for item in codes | {item.replace("\\", "\\\\") for item in codes}}


def _lower_percent(quoted: str) -> str:
    head, *rest = quoted.split("%")
    return "%".join([head, *(item[:2].lower() + item[2:] for item in rest)])


def _base64_forms(raw: bytes) -> set[bytes]:
    """`raw` encoded alone, and the characters that depend on `raw` only when 0, 1 or 2 bytes precede it."""
    forms: set[bytes] = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw)
        forms |= {whole, whole.rstrip(b"=")}
        for before in range(3):
            encoded = encode(b"\0" * before + raw)
            cut = (0, 3, 2)[(before + len(raw)) % 3]  # padding, and the last character that later bytes share
            forms.add(encoded[(0, 2, 3)[before] : len(encoded) - cut])
    return forms
