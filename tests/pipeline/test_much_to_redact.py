"""Texts and values that are full of secrets: all of it is redacted, in bounded time, however the text is cut."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moonpool.redaction import line_finder
from moonpool.redaction.personal_data import PERSONAL_KINDS
from moonpool.redaction.redactor import Redactor
from moonpool.redaction.spans import compiled, first_place, which_fit
from moonpool.redaction.stream_search import PLACES_PER_MEBIBYTE_MAX, TOO_MANY, WITHHELD
from pipeline.secret_samples import LETTERS, PIECES

if TYPE_CHECKING:
    from collections.abc import Callable

MEBIBYTE = 1024**2
KNOWN = "a-known-value-4711"
EVERYTHING = Redactor.of({"NAME": KNOWN}, personal=PERSONAL_KINDS)


def streamed(data: bytes, edges: list[int]) -> tuple[bytes, Counter[str]]:
    running = EVERYTHING.stream()
    pieces = [running.feed(data[a:b]) for a, b in itertools.pairwise([0, *edges, len(data)])]
    return b"".join([*pieces, running.finish()]), running.tally


def named(count: int) -> bytes:
    return b"".join(b"K_KEY=v%d\n" % number for number in range(count))


def tokens(count: int) -> bytes:
    return b"".join(b"AKIA%016d," % number for number in range(count))


def known(count: int) -> bytes:
    return f"{KNOWN}\n".encode() * count


KINDS = [pytest.param(named, id="names"), pytest.param(tokens, id="tokens"), pytest.param(known, id="known values")]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.req("H-022")
def test_as_many_secrets_as_are_allowed_are_replaced_one_by_one(make: Callable[[int], bytes]) -> None:
    tally: Counter[str] = Counter()
    redacted = EVERYTHING.data(make(PLACES_PER_MEBIBYTE_MAX) + b"and more text\n", tally)
    assert redacted.count(b"[REDACTED:") == tally.total() == PLACES_PER_MEBIBYTE_MAX
    assert redacted.endswith(b"and more text\n")


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.req("H-022")
def test_from_the_first_secret_too_many_the_rest_is_withheld(make: Callable[[int], bytes]) -> None:
    tally: Counter[str] = Counter()
    redacted = EVERYTHING.data(make(PLACES_PER_MEBIBYTE_MAX + 1) + b"x password=hunter2\n", tally)
    assert redacted.endswith(WITHHELD)
    assert redacted.count(b"[REDACTED") == PLACES_PER_MEBIBYTE_MAX + 1
    assert tally.pop(TOO_MANY) == 1
    assert tally.total() == PLACES_PER_MEBIBYTE_MAX


@pytest.mark.parametrize("chunk_bytes", [4_099, 65_536])
@pytest.mark.req("H-022")
def test_what_is_withheld_does_not_depend_on_chunks(chunk_bytes: int) -> None:
    text = known(3000) + named(4000) + tokens(5500) + named(2000) + b"the end\n"
    tally: Counter[str] = Counter()
    whole = EVERYTHING.data(text, tally)
    assert WITHHELD in whole
    assert streamed(text, list(range(chunk_bytes, len(text), chunk_bytes))) == (whole, tally)


@given(st.lists(st.integers(0, 80_000), max_size=12))
@settings(max_examples=15, deadline=None)
@pytest.mark.req("H-022")
def test_any_cuts_withhold_the_same(cuts: list[int]) -> None:
    text = named(PLACES_PER_MEBIBYTE_MAX + 200) + b"the end\n"
    tally: Counter[str] = Counter()
    whole = EVERYTHING.data(text, tally)
    assert streamed(text, sorted(min(cut, len(text)) for cut in cuts)) == (whole, tally)


def test_a_longer_text_may_hold_more() -> None:
    text = b"a line of prose\n" * (MEBIBYTE // 16) + tokens(12_000)
    tally: Counter[str] = Counter()
    whole = EVERYTHING.data(text, tally)
    allowed = tally["aws_access_key"]
    assert whole.endswith(WITHHELD)
    assert PLACES_PER_MEBIBYTE_MAX < allowed < PLACES_PER_MEBIBYTE_MAX * len(text) / MEBIBYTE
    assert streamed(text, list(range(200_000, len(text), 200_000))) == (whole, tally)


@pytest.mark.req("H-022")
def test_nothing_that_comes_later_is_shown_or_looked_at() -> None:
    running = EVERYTHING.stream()
    first = running.feed(named(PLACES_PER_MEBIBYTE_MAX + 1))
    assert first.endswith(WITHHELD)
    assert running.feed(b"later\n" * 100) == b""
    assert running.finish() == b""


def test_personal_data_is_not_counted() -> None:
    tally: Counter[str] = Counter()
    count = PLACES_PER_MEBIBYTE_MAX + 500
    redacted = EVERYTHING.text("".join(f"n{number}@example.org\n" for number in range(count)), tally)
    assert redacted == "[REDACTED:email]\n" * count
    assert tally == {"email": count}


def test_members_of_a_value_are_redacted_one_by_one() -> None:
    count = PLACES_PER_MEBIBYTE_MAX + 500
    value: Any = [{"id": number, "password": f"pw{number}", "to": "x"} for number in range(count)]
    tally: Counter[str] = Counter()
    redacted = EVERYTHING.json(value, tally)
    assert redacted == [{"id": number, "password": "[REDACTED:password]", "to": "x"} for number in range(count)]
    assert tally == {"password": count}


def test_equal_texts_of_a_value_are_all_counted() -> None:
    tally: Counter[str] = Counter()
    value: Any = [{"password": "same"}, {"password": "same"}, KNOWN, KNOWN, {"a": KNOWN}]
    EVERYTHING.json(value, tally)
    assert tally == {"password": 2, "NAME": 3}


@pytest.mark.req("H-022")
def test_a_long_text_in_a_value_is_redacted_as_it_is_alone() -> None:
    text = (named(PLACES_PER_MEBIBYTE_MAX + 10) + b"x").decode()
    tally: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    assert EVERYTHING.json({"text": text}, tally) == {"text": EVERYTHING.text(text, counted)}
    assert tally == counted
    assert counted[TOO_MANY] == 1


@given(
    st.lists(
        st.lists(st.sampled_from([p.decode("latin-1") for p in PIECES if len(p) < 1000]), max_size=6).map("".join),
        max_size=8,
    )
)
@pytest.mark.req("H-022")
def test_texts_of_a_value_are_searched_as_if_each_were_alone(texts: list[str]) -> None:
    value: Any = texts
    tally: Counter[str] = Counter()
    together = EVERYTHING.json(value, tally)
    alone: Counter[str] = Counter()
    assert together == [EVERYTHING.text(text, alone) for text in texts]
    assert tally == alone


NAMES = [
    "password", "-pwd", "_PASS", "PASSWORD_2", "access_token", "token", "auth", "MY_TOKEN", "SECRET", "_KEY", "APIKEY",
    "_DSN", "Authorization", "Bearer ", "--my-password ", "--token ", "<x:password>", "private_key",
]  # fmt: skip
BETWEEN = ["1", "22", "'", '"', '\\"', "]", "=", ":", " ", "=>", ":=", ": str = ", "\\t"]
VALUES = ["abc12345", "hunter2", "x", "a b", "$", "1", "Bearer abc", "\u00e9a1234567"]


@given(
    st.sampled_from(["", "x", "A", "]", "_", "-", "\t"]),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(BETWEEN), max_size=3),
    st.sampled_from(VALUES),
    st.sampled_from(["", "'", '"', "\n", "</password>", ";", "\\"]),
)
@pytest.mark.req("H-022")
def test_a_text_a_stream_and_a_value_are_redacted_alike(
    before: str, name: str, between: list[str], value: str, after: str
) -> None:
    text = "".join([before, name, *between, value, after])
    redacted = EVERYTHING.text(text, Counter())
    assert streamed(text.encode(), [])[0].decode() == redacted
    assert EVERYTHING.json([text], Counter()) == [redacted]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["password", "auth", "apiKey", "x", 'to"ken', "secret\n"]),
            st.lists(st.sampled_from([p.decode("latin-1") for p in PIECES if len(p) < 100]), max_size=4).map("".join),
        ),
        max_size=8,
    )
)
@pytest.mark.req("H-022")
def test_members_are_judged_as_if_each_were_alone(members: list[tuple[str, str]]) -> None:
    value: Any = [{name: text} for name, text in members]
    assert EVERYTHING.json(value, Counter()) == [EVERYTHING.json(one, Counter()) for one in value]


def test_many_keys_that_are_secrets_swallow_no_member_and_grow_no_names() -> None:
    value: Any = {f"AKIA{number:016}": number for number in range(3000)}
    redacted: Any = EVERYTHING.json(value, Counter())
    assert list(redacted.values()) == list(range(3000))
    assert max(map(len, redacted)) < 40
    assert "AKIA" not in json.dumps(redacted)


@given(st.lists(st.sampled_from([piece for piece in PIECES if len(piece) < 1000]), max_size=8))
@pytest.mark.req("H-022")
def test_the_end_of_a_text_is_the_end_of_a_line(words: list[bytes]) -> None:
    text = b"".join(words)
    assert EVERYTHING.data(text, Counter()) + b"\n" == EVERYTHING.data(text + b"\n", Counter())


@pytest.mark.req("H-022")
def test_no_byte_breaks_the_search() -> None:
    line = b"%bpassword%b=%bhunter2%bx1%b A_TOKEN=a%bb c: Bearer abcdefgh%b1234\n"
    for sign in (bytes([byte]) for byte in range(256)):
        text = line % ((sign,) * 7)
        assert streamed(text, list(range(1, len(text))))[0] == EVERYTHING.data(text, Counter())


@given(st.lists(st.sampled_from([piece for piece in PIECES if len(piece) < 100]), max_size=10))
@pytest.mark.req("H-022")
def test_both_engines_find_the_same(words: list[bytes]) -> None:
    text = b"".join(words)
    quick, slow = EVERYTHING.data(text, Counter()), b""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_finder, "_SHORT_BYTES", -1)  # then RE2 alone says what is what
        slow = EVERYTHING.data(text, Counter())
    assert slow == quick


def test_a_place_is_the_leftmost_longest_and_sees_what_is_before_it() -> None:
    first = first_place(compiled(rb"b+|(?m:^)c"))
    assert first(b"abbabbb", 0, 7) == (1, 3)
    assert first(b"abbabbb", 3, 6) == (4, 6)
    assert first(b"aaaa", 0, 4) == (-1, -1)
    assert first(b"a\nc ac", 1, 6) == (2, 3)  # what stands before the place counts
    assert first(b"ac", 1, 2) == (-1, -1)
    fitting = which_fit([rb"a+", rb"\bab?", rb"b"])
    assert sorted(fitting(b"a")) == [0, 1]
    assert list(fitting(b"c")) == []


def test_the_samples_have_many_different_secrets() -> None:
    chance = random.Random(4)  # noqa: S311  the same every time
    lines = ["".join(chance.choices(LETTERS, k=12)) for _ in range(300)]
    text = "".join(f"DB_PASSWORD={line}\nsk-ant-api03-{line * 2}\n" for line in lines)
    redacted = EVERYTHING.text(text, Counter())
    assert not [line for line in lines if line in redacted]
