"""RE2 patterns for words with exceptions, which RE2 has no syntax for: generated from a trie of the exceptions.

A pattern that skips `null`, `${VAR}` and `your-key` costs nothing for them, whereas each candidate costs microseconds.
INVARIANT: `false_positive_rules` take nothing that these patterns exclude for a secret; the patterns may match harmless
values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Signs: TypeAlias = frozenset[int]
_RUN: Final = re.compile(rb"\x01+")
_Left: TypeAlias = tuple[tuple[Signs, ...], bool]
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS: Final = frozenset(b"0123456789")


class Exceptions(NamedTuple):
    """Excluded words. Each is a sequence of the characters allowed at each position."""

    beginnings: frozenset[tuple[Signs, ...]]  # words that begin with these
    words: frozenset[tuple[Signs, ...]] = frozenset()  # words that are exactly these


class Rest(NamedTuple):
    """How a word continues when it can no longer be an exception: with `first`, then `pattern`."""

    first: Signs
    pattern: str


def signs(pattern: str) -> Signs:
    """The bytes matched by a character class, or another pattern for one character."""
    one = re.compile(pattern.encode("latin-1"))
    return frozenset(byte for byte in range(256) if one.fullmatch(bytes([byte])))


def spelled(text: str) -> tuple[Signs, ...]:
    """`text` in any case."""
    return tuple(frozenset(f"{sign.lower()}{sign.upper()}".encode()) for sign in text)


def of(allowed: Signs) -> str:
    """The character class of these bytes."""
    table = bytearray(256)
    for byte in allowed:
        table[byte] = 1
    runs = (run.span() for run in _RUN.finditer(table))
    return "[" + "".join(f"\\x{first:02x}-\\x{end - 1:02x}" for first, end in runs) + "]"


class Words(NamedTuple):
    """Words that begin with `first`, continue with one of `rests`, and are none of the exceptions."""

    first: Signs
    rests: Sequence[Rest]
    but: Exceptions
    end: str | None = ""  # what must follow a word that ends as the beginning of an exception; None: it may not end
    escapes: str = ""  # an alternative to a character, with everything after it

    @property
    def later(self) -> Signs:
        return frozenset[int]().union(*(rest.first for rest in self.rests))


def pattern(words: Words) -> str:
    start = [(shape, True) for shape in words.but.beginnings] + [(shape, False) for shape in words.but.words]
    return _branches(words, start, words.first)


def _branches(words: Words, shapes: Iterable[_Left], allowed: Signs) -> str:
    """What may follow, given the rest of each of `shapes`."""
    special = allowed & frozenset[int]().union(*(shape[0] for shape, _ in shapes))
    groups: dict[frozenset[_Left], set[int]] = {frozenset(): set(allowed - special)}
    for byte in special:
        left = frozenset((shape[1:], begins) for shape, begins in shapes if byte in shape[0])
        groups.setdefault(left, set()).add(byte)
    branches = [branch for left, group in groups.items() for branch in _after(words, left, frozenset(group))]
    return "(?:" + "|".join(sorted([words.escapes, *branches] if words.escapes else branches)) + ")"


def _after(words: Words, left: frozenset[_Left], group: Signs) -> list[str]:
    if not left:
        return [of(group & rest.first) + rest.pattern for rest in words.rests if group & rest.first]
    if any(begins and not shape for shape, begins in left):
        return []
    going_on = [(shape, begins) for shape, begins in left if shape]
    following = _branches(words, going_on, words.later)
    if words.end is not None and len(going_on) == len(left):
        following = f"(?:{following}|{words.end})"
    return [of(group) + following]


def with_digit(allowed: Signs, length: int) -> str:
    """Words of at least `length` characters, one of which is a digit.

    Each branch has its own position of the first digit, so an automaton is in only one of them.
    """
    other, digit, any_sign = of(allowed - _DIGITS), of(allowed & _DIGITS), of(allowed)
    return _first_at(other, digit, any_sign, length)


def mixed(allowed: Signs, length: int, *, first: Signs | None = None, escape: str = "") -> str:
    """Words of at least `length` characters with a digit after the first one, or a letter if the first is a digit.

    `escape` may replace a character.
    """
    first = allowed if first is None else first
    no_digit, no_letter, any_sign = (_or(of(kind), escape) for kind in (allowed - _DIGITS, allowed - _LETTERS, allowed))
    digit_later = _first_at(no_digit, of(allowed & _DIGITS), any_sign, length - 1)
    letter_later = _first_at(no_letter, of(allowed & _LETTERS), any_sign, length - 1)
    return f"(?:{_or(of(first - _DIGITS), escape)}{digit_later}|{of(first & _DIGITS)}{letter_later})"


def _or(sign: str, escape: str) -> str:
    return f"(?:{sign}|{escape})" if escape else sign


def _first_at(other: str, sign: str, any_sign: str, length: int) -> str:
    early = [f"{other}{{{at}}}{sign}{any_sign}{{{length - 1 - at},}}" for at in range(length - 1)]
    return "(?:" + "|".join([*early, f"{other}{{{length - 1},}}{sign}{any_sign}*"]) + ")"
