"""Group `redaction`: 1 MB of text through every finder of secrets. A sample is the slowest of several texts.

The texts are full of what only resembles secrets: that is where a backtracking search takes minutes. Text that is full
of real ones, or of numbers that might be cards, costs time for each; that is in rows without a budget.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from bench.sampling import Case, take_turns
from moonpool.broker.personal_data import PERSONAL_KINDS
from moonpool.broker.redaction import Redactor

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World

_BYTES = 1_000_000


def _filled(piece: bytes) -> bytes:
    return (piece * (_BYTES // len(piece) + 1))[:_BYTES]


_NEAR_MISSES = {
    "comparisons": _filled(b"if token == expected and password != other: key=value\n"),
    "equals": _filled(b"password="),
    "names": _filled(b"API_TOKEN_"),
    "urls": _filled(b"://a:b"),
    "at": _filled(b"a@"),
    "tokens": _filled(b"eyJhbGciOi-eyJ.ghp_abc sk-ant-x AKIAIOSF "),
    "keys": _filled(b"-----BEGIN RSA PRIVATE KEY-----\n"),
    "one_word": _filled(b"aGVsbG8gd29ybGQ"),
}
_DIGITS = {
    "digits": _filled(b"1234567890"),
    "at": _filled(b"a@"),
    "mails": _filled(b"first.last@host "),
    "times": _filled(b"2026-11-21 18:51:56,123 1700000000 "),
}
_LINES = _filled(b"the quick brown fox jumps over the lazy dog, 12 times a day\n")
_SECRETS = _filled(b"DB_PASSWORD=hunter2 is a password in a line of ordinary length, as in a listing\n")
_CARDS = _filled(b"4111 1111 1111 1112\n")


async def measure(world: World, sizes: Sizes) -> Measured:
    del world
    secrets = Redactor.of({"NAME": "a-known-value-4711"})
    everything = Redactor.of({"NAME": "a-known-value-4711"}, personal=PERSONAL_KINDS)
    cases = [
        _case("redact.text", secrets, [_LINES]),
        _case("redact.worst", secrets, list(_NEAR_MISSES.values())),
        _case("redact.worst.personal", everything, [*_NEAR_MISSES.values(), *_DIGITS.values()]),
        _case("redact.secrets", secrets, [_SECRETS]),
        _case("redact.cards", everything, [_CARDS]),
    ]
    return await take_turns("redaction", cases, rounds=sizes.rounds)


def _case(name: str, redactor: Redactor, texts: list[bytes]) -> Case:
    async def take(count: int) -> list[float]:
        return [max(_time_ms(redactor, text) for text in texts) for _ in range(count)]

    return Case(name=name, take=take, per_round=1)


def _time_ms(redactor: Redactor, text: bytes) -> float:
    tally: Counter[str] = Counter()
    started = time.perf_counter()
    redacted = redactor.data(text, tally)
    taken = 1000 * (time.perf_counter() - started)
    assert tally.total() == (text.count(b"DB_PASSWORD=")), tally
    assert len(redacted) >= _BYTES
    return taken
