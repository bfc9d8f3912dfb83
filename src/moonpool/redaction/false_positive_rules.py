"""False-positive rules: which values with a secret-sounding name are not secret, and so are not redacted.

A rule gets the text before the value, the value, and the text after it (`line_finder.FalsePositiveRule`).
INVARIANT: what `prefilters` leaves out is not redacted here either.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from moonpool.redaction.named_value_patterns import SCHEME, STRONG
from moonpool.redaction.prefilters import NO_ENVIRONMENT, NO_PASSWORD

_NAME = re.compile(rb"[^A-Za-z0-9_]*([A-Za-z0-9_-]+)(.*)", re.DOTALL)
_STRONG_NAME = re.compile(STRONG.encode() + rb"\Z")
_HARMLESS_NAMES: Final = tuple(
    b"%b_KEY" % word for word in (b"PUBLIC", b"PRIMARY", b"FOREIGN", b"SORT", b"PARTITION", b"CACHE", b"ROW", b"UNIQUE")
)
_REFERENCE_TEXT: Final = (
    rb"(?i:[<{*\[]|\$[a-z_{(]|:[a-z]|%[sdr({]|%[a-z_]+%\Z|\.{3}|x{4,}\Z|your[ _-]"
    rb"|(?:env|secrets?|vars?|process|os|self|args|settings|config)\.[a-z_.]+\Z"
    rb"|[a-z_][a-z0-9_-]{0,40}:[^:]?:[0-9]+:)"  # a line of /etc/passwd
)
_EXPRESSION_TEXT: Final = rb"[A-Za-z_][A-Za-z_0-9]*+(?:\.[A-Za-z_][A-Za-z_0-9]*+)++\Z"
_REFERENCE = re.compile(_REFERENCE_TEXT)
_EXPRESSION = re.compile(_EXPRESSION_TEXT)
_NO_PASSWORD = re.compile(rb"(?i)(?:%b)[.,:;!?]*" % b"|".join(word.encode() for word in NO_PASSWORD))
_NO_ENVIRONMENT: Final = frozenset(word.encode() for word in NO_ENVIRONMENT)
_TELLING_SIGN = re.compile(rb"[0-9!@#$%^*+~?]")
_RANDOM = re.compile(
    rb"(?=[^A-Za-z]*+[A-Za-z])(?=[^0-9]*+[0-9])(?!%b)(?!%b)[A-Za-z0-9._~+/=:@!#$%%^&*-]{8,}+\Z"
    % (_EXPRESSION_TEXT, _REFERENCE_TEXT)
)
_DIGIT = re.compile(rb"[0-9]")
_KEY_IN_QUOTES = re.compile(rb"""["']\]?\s*(?:=>|[:=])\s*\\*["']\Z""")
_SCHEMES = re.compile(SCHEME.encode() + rb"\Z")


def written(before: bytes, value: bytes, after: bytes) -> int:
    """A value in quotes, or after an unambiguous word."""
    del before, after
    return 0 if _REFERENCE.match(value) else len(value)


def quoted(before: bytes, value: bytes, after: bytes) -> int:
    """A value in quotes; not text after the end of a string, as in `ask("Password: ")`."""
    text_ends = value.startswith((b")", b",", b"]", b"}", b";"))
    return 0 if text_ends and not _KEY_IN_QUOTES.search(before) else written(before, value, after)


@lru_cache(maxsize=256)
def _named(before: bytes) -> tuple[bool, bool]:
    """Whether the name is harmless, and whether it is written as an environment variable: `NAME=`."""
    name = _NAME.match(before)
    if name is None:
        return True, False
    word, rest = name.groups()
    return word.endswith(_HARMLESS_NAMES), word.isupper() and rest.rstrip(b"\"'\\") == b"="


@lru_cache(maxsize=256)
def _strongly_named(before: bytes) -> bool:
    name = _NAME.match(before)
    return name is not None and _STRONG_NAME.search(name[1]) is not None


def _of_environment(before: bytes, value: bytes, after: bytes) -> int:
    return 0 if value.lower() in _NO_ENVIRONMENT else written(before, value, after)


def password(before: bytes, value: bytes, after: bytes) -> int:
    """Without quotes, plain words that may be a variable, a type or prose are not secret."""
    _, in_capitals = _named(before)
    if in_capitals:
        return _of_environment(before, value, after)
    if _EXPRESSION.match(value):
        return 0
    if _TELLING_SIGN.search(value):
        return written(before, value, after)
    if not before.endswith((b" ", b"\t")):
        return 0
    return 0 if b":" not in before or _NO_PASSWORD.fullmatch(value) else written(before, value, after)


def secret(before: bytes, value: bytes, after: bytes) -> int:
    harmless, in_capitals = _named(before)
    if harmless:
        return 0
    if in_capitals:
        return _of_environment(before, value, after)
    annotation = b":" in before and after.startswith((b",", b")", b"]", b"|"))
    return 0 if annotation else random(before, value, after)


def quoted_secret(before: bytes, value: bytes, after: bytes) -> int:
    harmless, in_capitals = _named(before)
    if harmless:
        return 0
    if in_capitals:
        return quoted(before, value, after)
    if b" " in value or b"\t" in value:
        return 0
    if len(value) >= 4 and _strongly_named(before) and not _EXPRESSION.match(value):
        return quoted(before, value, after)
    return random(before, value, after)


def random(before: bytes, value: bytes, after: bytes) -> int:
    """Generated values: at least eight characters, with letters and digits."""
    del before, after
    return len(value) if _RANDOM.match(value) else 0


def credential(before: bytes, value: bytes, after: bytes) -> int:
    """After `Authorization`: anything that follows a scheme; without a scheme, random-looking values."""
    certain = before.endswith((b" ", b"\t")) and _SCHEMES.search(before)
    return written(before, value, after) if certain else random(before, value, after)


def bearer(before: bytes, value: bytes, after: bytes) -> int:
    return written(before, value, after) if len(value) >= 12 and _DIGIT.search(value) else 0
