"""Group `redaction`: 1 MB of text through every finder of secrets. A sample is the slowest of several texts.

Texts of four kinds: ordinary ones; such as are full of what only resembles secrets, where a backtracking search takes
minutes; such as are full of real ones, no two alike; and what is not bounded by a budget, because each address in a
table, each number that might be a card and each member of a value is looked at and dealt with by itself.

What is measured is the CPU time of the thread: nothing here waits, and what else runs on the machine does not count.
Also alone: `python -m bench.latency --only redaction`.
"""

from __future__ import annotations

import base64
import random
import string
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from bench.sampling import Case, take_turns
from moonpool.redaction.personal_data import PERSONAL_KINDS
from moonpool.redaction.redactor import Redactor
from moonpool.redaction.stream_search import PLACES_PER_MEBIBYTE_MAX, TOO_MANY, WITHHELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World

_BYTES = 1_000_000
_KNOWN = "a-known-value-4711"
_CHANCE = random.Random(23)  # noqa: S311  the same texts every time


def _filled(piece: bytes) -> bytes:
    return piece * (_BYTES // len(piece) + 1)  # whole ones: part of one may be a secret


def _written(make: Callable[[], str]) -> bytes:
    """A text of whatever `make` says next, which holds something random."""
    pieces: list[str] = []
    size = 0
    while size < _BYTES:
        pieces.append(make())
        size += len(pieces[-1])
    return "".join(pieces).encode()


def _word(length: int, signs: str = string.ascii_letters + string.digits) -> str:
    return "".join(_CHANCE.choices(signs, k=length))


_NEAR_MISSES = {
    "comparisons": _filled(b"if token == expected and password != other: key=value\n"),
    "equals": _filled(b"password="),
    "names": _filled(b"API_TOKEN_"),
    "urls": _filled(b"://a:b"),
    "at": _filled(b"a@"),
    "tokens": _filled(b"eyJhbGciOi-eyJ.ghp_abc sk-ant-x AKIAIOSF "),
    "keys": _filled(b"-----BEGIN RSA PRIVATE KEY-----\n"),
    "templates": _filled(b"A_KEY=<it>\n"),
    "null": _filled(b"password: null\n"),
    "references": _filled(b'password="${VAR}" A_KEY=$VAR api_key="your-key"\n'),
    "words": _filled(b'{"token":"the"},auth=12 '),
    "placeholders": _filled(b"password: xxxx\npassword: config.db.password\n"),
    "one_word": _filled(b"aGVsbG8gd29ybGQ"),
}
_DIGITS = {
    "digits": _filled(b"1234567890"),
    "at": _filled(b"a@"),
    "mails": _filled(b"first.last@host "),
    "times": _filled(b"2026-11-21 18:51:56,123 1700000000 "),
}
_LINES = _filled(b"the quick brown fox jumps over the lazy dog, 12 times a day\n")
_FULL: dict[str, Callable[[], str]] = {
    "environment": lambda: f"{_CHANCE.choice(['DB_PASSWORD', 'GITHUB_TOKEN', 'MY_API_KEY'])}={_word(12)}\n",
    "shortest": lambda: f"A_KEY={_word(1)}\n",
    "yaml": lambda: f"password: {_word(6)}7\n",
    "json": lambda: f'{{"apiKey": "{_word(8)}"}},',
    "headers": lambda: f"Authorization: Bearer {_word(12)}\n",
    "aws": lambda: f"AKIA{_word(16, string.ascii_uppercase)}\n",
    "github": lambda: f"ghp_{_word(36)} ",
    "addresses": lambda: f"a://u:{_word(3)}@h ",
    "known": lambda: f"{_KNOWN}\n",
    "known.base64": lambda: base64.b64encode(f"{_word(4)}{_KNOWN}{_word(3)}".encode()).decode() + "\n",
    "long": lambda: f'"token": "{_word(170)}1"\n',
    "private_keys": lambda: f"-----BEGIN PRIVATE KEY-----{_word(16)}\n,;",
}
_MISSED = {
    "names": lambda: f"{_word(3, string.ascii_uppercase)}_PUBLIC_KEY={_word(1)} ",
    "dotted": lambda: f"-pwd={_word(1, string.ascii_letters)}.b1 ",
    "texts": lambda: f'api_key="{_word(3)} b",',
    "accounts": lambda: "passwd: x:1:1:\n",
}
_ORDINARY = _filled(
    b"DB_PASSWORD=hunter2 stands in one of several lines, as in a listing of what a service was set up with\n"
    + b"a line of prose\n" * 45
)
_JSON: dict[str, Callable[[], Any]] = {
    "members": lambda: {"id": 7, "password": _word(8)},
    "records": lambda: {"user": _word(6), "token": "a1" + _word(14), "n": 7, "ok": True},
    "strings": lambda: f"DB_PASSWORD={_word(8)}",
    "known": lambda: {"v": _KNOWN},
}
_PERSONAL = {
    "mails": lambda: f"{_word(6)}@{_word(5)}.de\n",
    "phones": lambda: f"+49 30 {_word(7, string.digits)}\n",
    "ibans": lambda: f"DE89 3704 0044 {_word(4, string.digits)} 0130 00\n",
    "cards": lambda: "4111 1111 1111 1112\n",
}


async def measure(world: World, sizes: Sizes) -> Measured:
    del world
    secrets = Redactor.of({"NAME": _KNOWN})
    everything = Redactor.of({"NAME": _KNOWN}, personal=PERSONAL_KINDS)
    full = {name: _written(make) for name, make in _FULL.items()}
    makes = [*_FULL.values(), *_MISSED.values()]
    mixed = _written(lambda: _CHANCE.choice(makes)())  # noqa: PLW0108  another one each time
    missed = [_written(make) for make in _MISSED.values()]
    cases = [
        _case("redact.text", secrets, [_LINES], _nothing),
        _case("redact.worst", secrets, list(_NEAR_MISSES.values()), _nothing),
        _case("redact.worst.personal", everything, [*_NEAR_MISSES.values(), *_DIGITS.values()], _nothing),
        _case("redact.secrets", secrets, [_ORDINARY], _every_password),
        *(_case(f"redact.full.{name}", secrets, [text], _withheld) for name, text in full.items()),
        _case("redact.full.missed", secrets, missed, _withheld_in_vain),
        _case("redact.full.mixed", secrets, [mixed], _withheld),
        *(_json_case(f"redact.json.{name}", secrets, make) for name, make in _JSON.items()),
        *(
            _case(f"redact.personal.{name}", everything, [_written(make)], _not_withheld)
            for name, make in _PERSONAL.items()
        ),
    ]
    return await take_turns("redaction", cases, rounds=sizes.rounds, warm_ups=sizes.warm_ups)


def _nothing(text: bytes, redacted: bytes, tally: Counter[str]) -> None:
    assert redacted is text, tally


def _every_password(text: bytes, redacted: bytes, tally: Counter[str]) -> None:
    del redacted
    assert tally == {"password": text.count(b"DB_PASSWORD=")}, tally


def _withheld(text: bytes, redacted: bytes, tally: Counter[str]) -> None:
    del text
    assert WITHHELD in redacted
    assert tally.total() - tally[TOO_MANY] > PLACES_PER_MEBIBYTE_MAX // 2, tally  # the others were none


def _withheld_in_vain(text: bytes, redacted: bytes, tally: Counter[str]) -> None:
    del text
    assert redacted.endswith(WITHHELD), tally
    assert tally[TOO_MANY] == 1


def _not_withheld(text: bytes, redacted: bytes, tally: Counter[str]) -> None:
    assert redacted.count(b"\n") == text.count(b"\n")
    assert not tally[TOO_MANY]


def _case(
    name: str, redactor: Redactor, texts: list[bytes], check: Callable[[bytes, bytes, Counter[str]], None]
) -> Case:
    def time_ms(text: bytes) -> float:
        tally: Counter[str] = Counter()
        started = time.thread_time()
        redacted = redactor.data(text, tally)
        taken = 1000 * (time.thread_time() - started)
        check(text, redacted, tally)
        return taken

    async def take(count: int) -> list[float]:
        return [max(time_ms(text) for text in texts) for _ in range(count)]

    return Case(name=name, take=take, per_round=1)


def _json_case(name: str, redactor: Redactor, make: Callable[[], Any]) -> Case:
    value: list[Any] = [make()]
    size = len(msgspec.json.encode(value[0])) + 1
    value += [make() for _ in range(_BYTES // size)]
    encoded = msgspec.json.encode(value)

    async def take(count: int) -> list[float]:
        taken: list[float] = []
        for _ in range(count):
            tally: Counter[str] = Counter()
            started = time.thread_time()
            redactor.json(value, tally, encoded=encoded)
            taken.append(1000 * (time.thread_time() - started))
            assert tally.total() == len(value), tally
        return taken

    return Case(name=name, take=take, per_round=1)
