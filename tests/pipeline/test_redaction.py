"""Known values are found in every usual form, in every kind of data, at every chunk border."""

from __future__ import annotations

import base64
import itertools
import json
from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.redaction.known_values import KnownValues
from moonpool.redaction.redactor import Redactor
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Callable

CANARY = 'c4n/ry+"käse"&42'
SIGNS = "p*s!~w'x\"(d)$&+,/:;=?@ <z>ä"
REDACTOR = Redactor.of_values({"TOKEN": CANARY, "PIN": "9876543", "SHORT": "abc"})


def each_escaped(raw: bytes) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in raw.decode())


def go_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("&", "\\u0026").replace("<", "\\u003c")


def dotnet_json(text: str) -> str:
    for char in "&+'<>`":
        text = text.replace(char, f"\\u{ord(char):04X}")
    return text.replace('"', "\\u0022").replace("ä", "\\u00E4")


def stream(redactor: Redactor, chunks: list[bytes]) -> bytes:
    running = redactor.stream()
    return b"".join([*(running.feed(chunk) for chunk in chunks), running.finish()])


@every_row(
    "encode",
    [
        pytest.param(lambda raw: raw, id="as it is"),
        pytest.param(base64.b64encode, id="base64"),
        pytest.param(base64.urlsafe_b64encode, id="base64url"),
        pytest.param(lambda raw: quote(raw, safe="").encode(), id="URL-encoded"),
        pytest.param(lambda raw: quote(raw, safe="").lower().encode(), id="URL-encoded in lower case"),
        pytest.param(lambda raw: json.dumps(raw.decode()).encode(), id="JSON in ASCII"),
        pytest.param(lambda raw: json.dumps(raw.decode(), ensure_ascii=False).encode(), id="JSON in UTF-8"),
        pytest.param(lambda raw: json.dumps(json.dumps(raw.decode())).encode(), id="JSON in JSON"),
        pytest.param(lambda raw: json.dumps(json.dumps([json.dumps(raw.decode())])).encode(), id="JSON three deep"),
        pytest.param(lambda raw: raw.hex().encode(), id="hex"),
        pytest.param(lambda raw: raw.hex().upper().encode(), id="hex in upper case"),
        pytest.param(lambda raw: b"".join(b"%%%02X" % byte for byte in raw), id="every byte as %XX"),
        pytest.param(lambda raw: b"".join(b"%%%02x" % byte for byte in raw), id="every byte as %xx"),
        pytest.param(lambda raw: each_escaped(raw).encode(), id="every character as \\u00XX"),
        pytest.param(lambda raw: each_escaped(raw).upper().replace("U", "u").encode(), id="the same in capitals"),
        pytest.param(lambda raw: json.dumps(each_escaped(raw)).encode(), id="every character as \\u00XX, in JSON"),
        pytest.param(lambda raw: go_json(raw.decode()).encode(), id="JSON of Go"),
        pytest.param(lambda raw: json.dumps(go_json(raw.decode())).encode(), id="JSON of Go in JSON"),
        pytest.param(lambda raw: dotnet_json(raw.decode()).encode(), id="JSON of .NET"),
        pytest.param(lambda raw: quote(raw, safe="!'()*").encode(), id="JavaScript's encodeURIComponent"),
        pytest.param(lambda raw: quote(raw, safe=";,/?:@&=+$-_.!~*'()#").encode(), id="JavaScript's encodeURI"),
    ],
)
@pytest.mark.req("H-022")
def test_a_value_is_redacted_in_every_form(encode: Callable[[bytes], bytes]) -> None:
    form = encode(CANARY.encode())
    redacted = REDACTOR.data(b"before " + form + b" after", Counter())
    assert b"[REDACTED:TOKEN]" in redacted
    assert form not in redacted


@every_row(
    "form",
    [
        pytest.param(quote(SIGNS, safe="*").replace("~", "%7E").replace("%20", "+"), id="forms of JavaScript and Java"),
        pytest.param(quote(SIGNS, safe="!*()").replace("~", "%7E").replace("%20", "+"), id="forms of .NET"),
        pytest.param(quote(SIGNS, safe="!*()").lower().replace("~", "%7e").replace("%20", "+"), id="forms of old .NET"),
        pytest.param(quote(SIGNS, safe="$&+=:@"), id="a path of Go"),
        pytest.param(quote(SIGNS, safe="$&+,;="), id="a user of Go"),
        pytest.param(escape(SIGNS).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"), id="HTML of Go"),
        pytest.param(escape(SIGNS).replace("&#x27;", "&#039;"), id="HTML of PHP"),
        pytest.param(escape(SIGNS, quote=False).replace('"', "&quot;"), id="HTML of PHP before 8.1"),
        pytest.param(escape(SIGNS).replace("&#x27;", "&#39;").replace("ä", "&#228;"), id="HTML of .NET"),
    ],
)
def test_a_value_full_of_signs_is_redacted_as_encoders_write_it(form: str) -> None:
    redactor = Redactor.of_values({"TOKEN": SIGNS})
    assert redactor.text(f"before {form} after", Counter()) == "before [REDACTED:TOKEN] after"


@every_row(("after", "before"), itertools.product([b"", b"\n", b"ab", b"abc"], [b"", b"u", b"us", b"use", b"user:"]))
@pytest.mark.req("H-022")
def test_base64_of_a_longer_text_is_redacted_at_every_alignment(before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + CANARY.encode() + after)
    redacted = REDACTOR.data(encoded, Counter())
    assert redacted.count(b"[REDACTED:TOKEN]") == 1
    assert len(redacted) <= len(before + after) * 2 + len(b"[REDACTED:TOKEN]") + 8


@given(
    st.lists(
        st.sampled_from([b"hello ", b"secret", b"secretive", b"secre", b"tive", b"x", b"c2Vj", b"\xff"]), max_size=12
    ),
    st.lists(st.integers(0, 80), max_size=6),
)
@pytest.mark.req("H-022")
def test_chunk_borders_make_no_difference(words: list[bytes], cuts: list[int]) -> None:
    redactor = Redactor.of_values({"A": "secret", "B": "secretive", "C": "tivesecre"})
    text = b"".join(words)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[start:end] for start, end in itertools.pairwise(edges)]
    whole = redactor.data(text, Counter())
    assert stream(redactor, chunks) == whole
    assert b"secret" not in whole


@pytest.mark.req("H-022")
def test_a_canary_split_over_two_writes_is_caught() -> None:
    half = len(CANARY.encode()) // 2
    redacted = stream(REDACTOR, [b"x" + CANARY.encode()[:half], CANARY.encode()[half:] + b"y"])
    assert redacted == b"x[REDACTED:TOKEN]y"


def test_a_stream_holds_back_no_more_than_a_possible_beginning() -> None:
    running = REDACTOR.stream()
    assert running.feed(b"hello\n") == b"hello\n"
    assert running.feed(b"a PIN 9876") == b"a PIN "
    assert running.feed(b" no") == b"9876 no"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({CANARY: 1}, {"[REDACTED:TOKEN]": 1}, id="keys"),
        pytest.param([{"a": [f"x{CANARY}"]}], [{"a": ["x[REDACTED:TOKEN]"]}], id="nested strings"),
        pytest.param({"pin": 9876543}, {"pin": "[REDACTED:PIN]"}, id="integers"),
        pytest.param({"a": 1, "b": None, "c": True, "d": "abc"}, {"a": 1, "b": None, "c": True, "d": "abc"}, id="rest"),
        pytest.param({"s": "\ud800" + CANARY}, {"s": "\ud800[REDACTED:TOKEN]"}, id="beside a lone surrogate"),
        pytest.param({CANARY: 1, "[REDACTED:TOKEN]": 2}, {"[REDACTED:TOKEN]": 1, "[REDACTED:TOKEN]'": 2}, id="clash"),
    ],
)
@pytest.mark.req("H-022")
def test_json_is_redacted_everywhere(value: Any, expected: Any) -> None:
    assert REDACTOR.json(value, Counter()) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([CANARY, f"<{CANARY}>"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just(CANARY), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON)
@pytest.mark.req("H-022")
def test_no_canary_survives_in_json_and_clean_json_is_untouched(value: Any) -> None:
    tally: Counter[str] = Counter()
    redacted = REDACTOR.json(value, tally)
    assert CANARY not in json.dumps(redacted, ensure_ascii=False).replace("\\", "")
    assert (redacted is value) == (not tally)


def test_counts_are_kept_by_name_and_values_are_not() -> None:
    tally: Counter[str] = Counter()
    REDACTOR.text(f"{CANARY} {CANARY} 9876543 abc", tally)
    assert tally == {"TOKEN": 2, "PIN": 1}


def test_short_values_are_ignored_and_named() -> None:
    assert KnownValues({"A": "12345", "B": "123456"}).ignored == ("A",)


def test_no_secrets_means_no_change() -> None:
    redactor = Redactor.of_values({})
    assert redactor.text("anything", Counter()) == "anything"
    assert stream(redactor, [b"a", b"b"]) == b"ab"


def test_a_wrapped_private_key_is_found_line_by_line() -> None:
    body = base64.b64encode(bytes(range(200))).decode()
    key = "\n".join(
        ["-----BEGIN KEY-----", *(body[at : at + 64] for at in range(0, len(body), 64)), "-----END KEY-----"]
    )
    indented = key.replace("\n", "\n    ")
    redacted = Redactor.of_values({"KEY": key}).text(indented, Counter())
    assert not any(body[at : at + 20] in redacted for at in range(0, 180, 20))
