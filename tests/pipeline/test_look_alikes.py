"""Texts that are full of what looks like a secret and is none: not looked at where that is common, else bounded."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.redaction import named_values
from moonpool.redaction import stream_search as search
from moonpool.redaction.line_finder import LineFinder, hold_from_words
from moonpool.redaction.named_values import NamedValues
from moonpool.redaction.redactor import Redactor
from moonpool.redaction.stream_search import PLACES_PER_MEBIBYTE_MAX, TOO_MANY, WITHHELD
from pipeline.secret_samples import FIRES
from tables import every_row

SECRETS = Redactor.of({})
NARROW = Redactor([NamedValues()])
WIDE = Redactor(
    [
        LineFinder(
            [kind._replace(prefilter=None) for kind in named_values.NAMED],
            hint=named_values.NAMED_HINT,
            hold=hold_from_words(named_values.NAMED_WORDS, any_case=True),
        )
    ]
)
"""Looks at everything that `named_values` has a pattern for."""

HARMLESS = [
    "password: null\n", '"password": null,', "password: None\n", "password: wrong\n",
    "password: config.db.password\n", "password=os.environ['X']\n", "password = os.environ['DB_PASSWORD']\n",
    "token: str, ", "secret == other ", "api_key=\n", "password: ****\n", "password=****\n", 'password="****"\n',
    "password: xxxx\n", "A_KEY=****\n", "password: ${VAR}\n", 'password="${VAR}"\n', "A_KEY=$VAR\n",
    "DB_PASSWORD=${VAR}\n", "A_KEY=true ", "A_KEY=null\n", "api_key=<your key>\n", 'api_key="<your key>"\n',
    'api_key="your-key"\n', 'password="%s" ', "password: <it>\n", "password: your_password\n",
    "<password>${X}</password>", "token=1 ", "auth=12 ", "secret: 1234,", "--token 12 ", '{"token": "the"},',
    '{"token": "2024"},', "{'auth': 'no'},", "token='##ing' ", "Bearer tokens are ", "bearer abcd ",
    "authorization: required\n", "authorization=abcd ", "https://user@host/ ", "://{user}:{password}@{host} ",
    "AKIAABCDEF ", "hf_abc ", "sk-ant-x ", "eyJhbGciOiJ.eyJ ", "-----BEGIN PRIVATE KEY-----\n",
    "password=[REDACTED:x] ",
]  # fmt: skip
PIECES = [
    "password", "PASSWORD", "-pwd", "_PASS", "token", "MY_TOKEN", "access_token", "auth", "AUTH", "SECRET", "_KEY",
    "api_key", "Authorization", "Bearer ", "--token ", "--my-password ", "<x:password>", "</password>", "PUBLIC_KEY",
    "=", ":", " ", ": ", " = ", ": str = ", '"', "'", '\\"', "\\", "]", '="', ": '", '": "', "\t", "\n", "\r",
    "abc12345", "hunter2", "x", "a b", "$", "1", "é", "a.b", "a.b1", "null", "None", "nullx", "xxxx", "xxx", "your",
    "-", "key", "${", "$A", "<", "*", "[", "{", ":a", "%s", "...", "..", ".", "_", "/", "?", "!", "12345678",
    "abcdefg1", "1abcdefg", "true", "no", "root:x:0:0:", "env.x", "wrong", "&", ";", ",", "(", ")", "|", "#", " #",
    "\\n", "`", "ab", "none.",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)


def missed(count: int) -> bytes:
    return b"ROW_KEY=1\n" * count


@every_row("text", HARMLESS)
def test_text_full_of_what_is_commonly_harmless_is_given_back_as_it_is(text: str) -> None:
    data = text.encode() * (PLACES_PER_MEBIBYTE_MAX + 100)
    tally: Counter[str] = Counter()
    assert SECRETS.data(data, tally) is data
    assert not tally


@given(TEXTS)
@pytest.mark.req("H-022")
def test_the_narrow_search_finds_what_the_wide_one_finds(text: str) -> None:
    narrow, wide = NARROW.text(text, Counter()), WIDE.text(text, Counter())
    # A letter that belongs to the quotes behind it (`KEY=b""`) may stay.
    assert narrow == wide or "[REDACTED:secret]''" in wide or '[REDACTED:secret]""' in wide


@every_row(("sample", "kind"), FIRES)
@pytest.mark.req("H-022")
def test_the_wide_search_would_find_no_more_in_the_samples(sample: str, kind: str) -> None:
    del kind
    text = sample.replace("«", "").replace("»", "")
    assert NARROW.text(text, Counter()) == WIDE.text(text, Counter())


def test_so_many_places_may_be_looked_at_in_vain() -> None:
    tally: Counter[str] = Counter()
    text = missed(PLACES_PER_MEBIBYTE_MAX) + b"and more text\n"
    assert SECRETS.data(text, tally) is text
    assert not tally


@pytest.mark.req("H-022")
def test_from_one_place_more_on_the_rest_is_withheld() -> None:
    tally: Counter[str] = Counter()
    text = missed(PLACES_PER_MEBIBYTE_MAX + 1) + b"DB_PASSWORD=hunter2\n"
    assert SECRETS.data(text, tally) == missed(PLACES_PER_MEBIBYTE_MAX) + b"ROW_" + WITHHELD
    assert tally == {TOO_MANY: 1}


def test_secrets_and_what_is_none_are_counted_together() -> None:
    tally: Counter[str] = Counter()
    half = PLACES_PER_MEBIBYTE_MAX // 2
    SECRETS.data((b"A_KEY=b1\n" + missed(1)) * half + b"A_KEY=b1\n" * 10, tally)
    assert tally == {"secret": half, TOO_MANY: 1}


def test_what_takes_longer_to_look_at_counts_for_more() -> None:
    word = b"passwd: " + b"x:a1:1-" * 120 + b"\n"
    text = word.replace(b"x:a1", b"root:x:1:", 1) * (PLACES_PER_MEBIBYTE_MAX // 3)
    tally: Counter[str] = Counter()
    assert SECRETS.data(text, tally).endswith(WITHHELD)
    assert tally == {TOO_MANY: 1}


@pytest.mark.parametrize("start", ['password="', 'api_key: "', '"token": "', "Bearer "])
@pytest.mark.req("H-022")
def test_a_value_longer_than_the_window_is_redacted_at_its_beginning(start: str) -> None:
    redacted = NARROW.text(start + "ab1" * 40_000, Counter())
    assert redacted.startswith(f"{start}[REDACTED:")


@given(TEXTS, st.lists(st.integers(0, 200), max_size=8), st.integers(0, 5), st.sampled_from(["bytes", "cuts"]))
@pytest.mark.req("H-022")
def test_nothing_is_shown_that_would_be_redacted_however_a_text_is_cut(
    text: str, cuts: list[int], most: int, chunks: str
) -> None:
    data = text.encode()
    whole = NARROW.data(data, Counter())
    edges = range(len(data) + 1) if chunks == "bytes" else [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    tally: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "PLACES_PER_MEBIBYTE_MAX", most)
        bounded = NARROW.data(data, tally)
        running = NARROW.stream()
        pieces = [running.feed(data[a:b]) for a, b in itertools.pairwise(edges)]
        assert b"".join([*pieces, running.finish()]) == bounded
        assert running.tally == tally
    shown, cut, _ = bounded.partition(WITHHELD)
    assert whole.startswith(shown) if cut else bounded == whole
