"""Secrets are found by their shape, ordinary output is left alone, and chunk borders make no difference."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.redaction.line_finder import WINDOW_BYTES, Kind, LineFinder, hold_from_words
from moonpool.redaction.personal_data import PERSONAL_KINDS
from moonpool.redaction.private_keys import KEY_BYTES_MAX
from moonpool.redaction.redactor import Redactor
from pipeline.secret_samples import (
    FIRES,
    JWT,
    LEFT_ALONE,
    NOT_PERSONAL,
    PERSONAL,
    PIECES,
    PRIVATE_KEY,
    TOKENS,
)
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SECRETS = Redactor.of({})
EVERYTHING = Redactor.of({"NAME": "hunter22"}, personal=PERSONAL_KINDS)


def redacted(text: str, redactor: Redactor = SECRETS) -> str:
    return redactor.text(text, Counter())


def marked(sample: str, kind: str) -> tuple[str, str]:
    """The text of a sample, and what it must become."""
    before, _, rest = sample.partition("«")
    secret, _, after = rest.partition("»")
    return before + secret + after, f"{before}[REDACTED:{kind}]{after}"


def streamed(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    running = redactor.stream()
    return b"".join([*(running.feed(data[a:b]) for a, b in itertools.pairwise(edges)), running.finish()])


@every_row(("around", "kind"), itertools.product(["{}", "see {} there", '"{}"', "{}\n", "({}),"], TOKENS))
@pytest.mark.req("H-022", "K-013")
def test_a_token_is_redacted_wherever_it_stands(kind: str, around: str) -> None:
    tally: Counter[str] = Counter()
    assert SECRETS.text(around.format(TOKENS[kind]), tally) == around.format(f"[REDACTED:{kind}]")
    assert tally == {kind: 1}


@every_row(("sample", "kind"), FIRES, ids=[sample for sample, _ in FIRES])
@pytest.mark.req("H-022", "K-013")
def test_only_the_value_is_redacted(sample: str, kind: str) -> None:
    text, expected = marked(sample, kind)
    assert redacted(text) == expected
    assert redacted(f"a\n{text}\nb") == f"a\n{expected}\nb"


@every_row("text", LEFT_ALONE)
def test_what_only_resembles_a_secret_is_left_alone(text: str) -> None:
    assert redacted(text) == text


@every_row(("sample", "kind"), PERSONAL, ids=[sample for sample, _ in PERSONAL])
@pytest.mark.req("H-022")
def test_personal_data_is_redacted_where_it_is_chosen(sample: str, kind: str) -> None:
    text, expected = marked(sample, kind)
    assert redacted(text, Redactor.of({}, personal=[kind])) == expected
    assert redacted(text, EVERYTHING) == expected
    assert redacted(text) == text


@pytest.mark.parametrize("text", NOT_PERSONAL)
def test_other_numbers_and_names_are_not_personal_data(text: str) -> None:
    assert redacted(text, EVERYTHING) == text


@pytest.mark.parametrize(("sample", "kind"), FIRES + PERSONAL, ids=[sample for sample, _ in FIRES + PERSONAL])
@pytest.mark.req("H-022")
def test_every_cut_gives_the_same_bytes(sample: str, kind: str) -> None:
    text, expected = (part.encode() + b"\nend" for part in marked(sample, kind))
    for cut in range(len(text) + 1):
        assert streamed(EVERYTHING, text, [cut]) == expected
    assert streamed(EVERYTHING, text, list(range(len(text)))) == expected


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.lists(st.integers(0, 100_000), max_size=8), st.data())
@pytest.mark.req("H-022")
def test_chunk_borders_make_no_difference_in_hostile_text(words: list[bytes], cuts: list[int], data: Any) -> None:
    text = b"".join(words)
    cuts = [*cuts, *data.draw(st.lists(st.integers(0, max(1, len(text))), max_size=8))]
    assert streamed(EVERYTHING, text, cuts) == EVERYTHING.data(text, Counter())


@given(st.lists(st.sampled_from([piece for piece in PIECES if len(piece) < 100]), max_size=12))
def test_a_second_time_changes_nothing_byte_by_byte_either(words: list[bytes]) -> None:
    text = b"".join(words)
    assert streamed(SECRETS, text, list(range(len(text)))) == SECRETS.data(text, Counter())


@given(st.lists(st.sampled_from([piece for piece in PIECES if piece != b"\xff" and len(piece) < 2000]), max_size=9))
@pytest.mark.req("H-022")
def test_what_is_redacted_in_a_text_is_redacted_in_the_same_text_in_json(words: list[bytes]) -> None:
    text = b"".join(words).decode()
    value = {"content": [{"type": "text", "text": text}]}
    for encoded in (None, msgspec.json.encode(value)):
        clean: Any = EVERYTHING.json(value, Counter(), encoded=encoded)
        assert clean["content"][0]["text"] == redacted(text, EVERYTHING)


def test_a_stream_that_cannot_be_a_secret_is_not_held_back() -> None:
    running = SECRETS.stream()
    for chunk in (b"hello ", b"12%\r", b"....", b"a=b\n", b"1234, ", b"the password was changed\n"):
        assert running.feed(chunk) == chunk


@pytest.mark.parametrize("start", [b"password=", b"-----BEGIN PRIVATE KEY-----\n", b"://u:"])
def test_what_waits_is_bounded(start: bytes) -> None:
    running = SECRETS.stream()
    fed = start + b"A" * 300_000
    given_back = sum(len(running.feed(fed[at : at + 1000])) for at in range(0, len(fed), 1000))
    assert given_back >= len(fed) - 2 * max(WINDOW_BYTES, KEY_BYTES_MAX) - len(start)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda key: key, id="as it is"),
        pytest.param(json.dumps, id="in JSON"),
        pytest.param(lambda key: json.dumps(json.dumps(key)), id="in JSON in JSON"),
        pytest.param(lambda key: key.replace("\n", "\r\n"), id="with CR LF"),
        pytest.param(lambda key: key.replace("\n", "\n    "), id="indented"),
        pytest.param(lambda key: key.replace("\n", ""), id="on one line, without headers' ends"),
        pytest.param(lambda key: key[:700], id="cut off"),
        pytest.param(lambda key: key.replace("RSA", "OPENSSH"), id="another label"),
        pytest.param(lambda key: key.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"), id="armour"),
    ],
)
@pytest.mark.req("H-022")
def test_private_keys_leave_nothing(write: Any) -> None:
    key = PRIVATE_KEY
    if write(key) == key.replace("\n", ""):
        key = "\n".join(line for line in key.splitlines() if ": " not in line)
    text = redacted(f"before {write(key)}")
    assert "[REDACTED:private_key]" in text
    assert "ggSjAgEA" not in text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"password": "geheim"}, {"password": "[REDACTED:password]"}, id="password"),
        pytest.param({"dbPassword": 'a"b\\c'}, {"dbPassword": "[REDACTED:password]"}, id="quotes in it"),
        pytest.param([{"a": {"apiKey": "abcd"}}], [{"a": {"apiKey": "[REDACTED:secret]"}}], id="deep"),
        pytest.param(
            {"Authorization": "Bearer abc.d"}, {"Authorization": "Bearer [REDACTED:authorization]"}, id="scheme"
        ),
        pytest.param({"password": "", "token": "Haus"}, {"password": "", "token": "Haus"}, id="no secret"),
        pytest.param({"password": {"type": "string"}}, {"password": {"type": "string"}}, id="a schema"),
        pytest.param({"password": "${PW}", "secret": None}, {"password": "${PW}", "secret": None}, id="a reference"),
        pytest.param({"password": JWT}, {"password": "[REDACTED:jwt]"}, id="a token keeps its own kind"),
        pytest.param({"nextToken": "abc123456789"}, {"nextToken": "abc123456789"}, id="a page's token"),
    ],
)
@pytest.mark.req("H-022", "K-013")
def test_a_member_of_an_object_is_secret_by_its_name(value: Any, expected: Any) -> None:
    assert SECRETS.json(value, Counter()) == expected


def test_clean_json_is_given_back_as_it_is() -> None:
    value: Any = {"password": None, "nextPageToken": "abc", "n": [1, "token == x"]}
    assert SECRETS.json(value, Counter()) is value


def test_a_known_value_goes_by_its_own_name() -> None:
    assert redacted("DB_PASSWORD=hunter22", EVERYTHING) == "DB_PASSWORD=[REDACTED:NAME]"


def test_patterns_can_be_switched_off() -> None:
    redactor = Redactor.of({"NAME": "hunter22"}, patterns=False)
    assert redacted("DB_PASSWORD=hunter2 hunter22", redactor) == "DB_PASSWORD=hunter2 [REDACTED:NAME]"


@pytest.mark.parametrize("piece", [b"k=", b"k=a.", b"k= ", b"k=a\n"])
@pytest.mark.parametrize("chunk_bytes", [None, 5000])
def test_what_is_looked_at_twice_grows_with_the_text_only(piece: bytes, chunk_bytes: int | None) -> None:
    looked_at = 0

    def judge(before: bytes, value: bytes, after: bytes) -> int:
        nonlocal looked_at
        looked_at += len(before) + len(value) + len(after)
        return 0

    kind = Kind("kind", r"k=([a-z=.]+)(?:\s|\z)", judge, word=True)
    finder = LineFinder([kind], hint="k=", hold=hold_from_words(["k="], any_case=False), counted=False)
    text = piece * (400_000 // len(piece))
    if chunk_bytes is None:
        assert Redactor([finder]).data(text, Counter()) == text
    else:
        assert streamed(Redactor([finder]), text, list(range(0, len(text), chunk_bytes))) == text
    assert looked_at <= 30 * len(text)


PAGE = (ROOT / "docs/reference/redaction.md").read_text(encoding="utf-8")
EXAMPLES = [
    (kind, example, bool(column))
    for kind, *columns in re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    for column, examples in enumerate(reversed(columns))
    for example in re.findall(r"`([^`]+)`", examples)
]


@every_row(("kind", "example", "fires"), EXAMPLES)
def test_the_examples_on_the_page_are_true(kind: str, example: str, *, fires: bool) -> None:
    tally: Counter[str] = Counter()
    EVERYTHING.text(example, tally)
    assert tally == ({kind: 1} if fires else {})


def test_every_kind_stands_on_the_page() -> None:
    kinds = {kind for _, kind in FIRES + PERSONAL} | set(TOKENS) | {"slack_webhook"}
    assert not [kind for kind in kinds if f"`{kind}`" not in PAGE]


MEANT = {"redaction.md", "secret_patterns.py", "named_value_patterns.py", "named_values.py"}  # they show what fires


def corpus() -> list[Path]:
    lists = sorted((ROOT / "tests/data/toollists").glob("*.json"))
    pages = sorted((ROOT / "docs").rglob("*.md"))
    sources = sorted((ROOT / "src").rglob("*.py"))
    assert all([lists, pages, sources])
    return [path for path in [*lists, *pages, *sources] if path.name not in MEANT]


@every_row("path", corpus, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_fires_on_tool_lists_pages_and_sources(path: Path) -> None:
    tally: Counter[str] = Counter()
    SECRETS.text(path.read_text(encoding="utf-8"), tally)
    assert not tally


def outputs() -> Iterator[tuple[str, str]]:
    chance = random.Random(22)  # noqa: S311  the same outputs every time
    sha = [chance.randbytes(20).hex() for _ in range(200)]
    yield (
        "git log",
        "\n".join(f"commit {one}\nDate:   Mon Jan {n % 28} 12:00:00 2026 +0100" for n, one in enumerate(sha)),
    )
    yield "base64", "\n".join(msgspec.json.encode(chance.randbytes(57)).decode() for _ in range(300))
    yield "base64 in one line", msgspec.json.encode(chance.randbytes(60_000)).decode()
    yield "table", "\n".join(f"{n:>4}  {chance.random():12.6f}  {chance.gauss(0, 1e6):14.3f}" for n in range(500))
    ids = [{"id": chance.randrange(10**12), "uuid": chance.randbytes(16).hex(), "at": n} for n in range(300)]
    yield "JSON of ids", json.dumps(ids)
    yield "hex dump", "\n".join(" ".join(f"{byte:02x}" for byte in chance.randbytes(16)) for _ in range(300))
    yield "numbers", repr([chance.random() for _ in range(500)] + [chance.randrange(10**9) for _ in range(500)])
    yield "times", "\n".join(f"2026-11-{n % 30:02}T12:{n % 60:02}:00.{chance.randrange(10**6):06}Z" for n in range(300))


@pytest.mark.parametrize(("name", "text"), list(outputs()), ids=[name for name, _ in outputs()])
def test_nothing_fires_on_what_code_prints(name: str, text: str) -> None:
    del name
    tally: Counter[str] = Counter()
    EVERYTHING.text(text, tally)
    assert not tally
