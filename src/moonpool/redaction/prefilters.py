"""Prefilters of the search for values with a secret-sounding name: narrower patterns of the values.

They exclude certainly harmless values: `null`, `${VAR}`, `your-key`, dotted names, short numbers. So text full of these
is searched as quickly as any other. Rare cases may pass: the false-positive rules decide. INVARIANT: each matches only
what the pattern of its kind in `named_values` matches, and excludes only what `false_positive_rules` calls harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moonpool.redaction.named_value_patterns import (
    BARE,
    BARE_IN_CAPITALS,
    ENV_NAMES_OF_PASSWORDS,
    ENV_NAMES_OF_SECRETS,
    FIRST,
    IS,
    IS_ALSO,
    LINE_STOP,
    PASSWORDS,
    QUOTED,
    SCHEME,
    SECRETS,
    SPACE,
    STOP,
    STRONG,
    STRONG_IN_CAPITALS,
    WORD,
)
from moonpool.redaction.word_patterns import Exceptions, Rest, Words, mixed, of, pattern, signs, spelled, with_digit

if TYPE_CHECKING:
    from moonpool.redaction.word_patterns import Signs

_ANYTHING_ELSE: Final = (
    "str string text int integer number bool boolean bytes secretstr none null nil undefined true false yes no optional"
    " required any object array hidden password passwd secret token changed ok valid invalid incorrect wrong missing"
    " unset not set empty redacted accepted rejected expired prompt auto default files compat systemd sss ldap"
)
NO_PASSWORD: Final = tuple(_ANYTHING_ELSE.split())
_FREQUENT: Final = (
    "none null nil undefined true false yes no str string int bool any object required optional hidden password secret"
    " token set unset not empty changed wrong invalid incorrect missing expired"
)
NO_ENVIRONMENT: Final = ("true", "false", "null", "none", "yes", "no")

_DIGIT: Final = signs("[0-9]")
_LETTER: Final = signs("[A-Za-z]")
_DOT: Final = signs(r"\.")
_WORD: Final = signs(WORD)
_FIRST: Final = signs(FIRST)
_TELLING: Final = signs("[0-9!@#$%^*+~?]")
_RANDOM: Final = signs("[A-Za-z0-9._~+/=:@!#$%^&*-]")
_CREDENTIAL: Final = signs("[A-Za-z0-9._~+/=:-]")
_REFERENCES: Final = frozenset({
    *((signs(bracket),) for bracket in (r"<", r"\{", r"\*", r"\[")),
    (signs(r"\$"), signs(r"[A-Za-z_{(]")),
    (signs(":"), _LETTER),
    (signs("%"), signs("[sdrSDR({]")),
    (_DOT, _DOT, _DOT),
    (*spelled("your"), signs("[ _-]")),
})  # fmt: skip
_MASKS: Final = frozenset(spelled("x" * length) for length in range(4, 9))


def _free(allowed: Signs, unit: str) -> tuple[Rest]:
    return (Rest(allowed, f"{unit}*"),)


class _Quotes(NamedTuple):
    opening: str
    sign: str
    escape: str  # "" where there is none
    closing: str


_ALL_QUOTES: Final = (
    _Quotes('"', r'[^"\\\r\n]', r"\\[^\r\n]", r'(?:"|\\?[\r\n]|\\?\z)'),
    _Quotes("'", r"[^'\\\r\n]", r"\\[^\r\n]", r"(?:'|\\?[\r\n]|\\?\z)"),
    _Quotes(r"""\\{1,3}["']""", r"""[^"'\\\r\n]""", "", r"""(?:["'\\\r\n]|\z)"""),
)
"""A quoted value may be endless, so the closing quote is required only where it matters."""


def _no_reference(quotes: _Quotes) -> str:
    opening, sign, escape, closing = quotes
    allowed = signs(sign)
    rest = f"(?:{sign}|{escape})*" if escape else f"{sign}*"
    escapes = escape + rest if escape else ""
    exceptions = Exceptions(_REFERENCES, _MASKS)
    return opening + pattern(Words(allowed, [Rest(allowed, rest)], exceptions, end=closing, escapes=escapes))


def _in_quotes() -> str:
    return f"(?:{'|'.join(_no_reference(quotes) for quotes in _ALL_QUOTES)})"


def _mixed_in_quotes() -> str:
    texts = (quotes.opening + mixed(signs(quotes.sign), 8, escape=quotes.escape) for quotes in _ALL_QUOTES)
    return f"(?:{'|'.join(texts)})"


def _telling() -> str:
    rests = [Rest(_TELLING, f"{WORD}*"), Rest(_WORD - _TELLING, rf"{WORD}*[0-9!@#$%^*+~?]{WORD}*")]
    return f"(?:{pattern(Words(_FIRST, rests, Exceptions(_REFERENCES), end=None))}|[$%][0-9]{WORD}*)"


def _mere() -> str:
    """No dotted name, no word that is not a password, no reference."""
    name, start = "[A-Za-z0-9_]*", "[A-Za-z_]"
    other = rf"""[^{SPACE}"'`\\()&;,<>\[\]{{}}|A-Za-z0-9_.]{WORD}*"""
    no_start = rf"""[^{SPACE}"'`\\()&;,<>\[\]{{}}|A-Za-z_]{WORD}*"""
    first = "[A-Za-z\\x80-\\xff]"
    dotted = rf"{first}{name}(?:(?:\.{start}{name})*\.(?:{no_start})?|(?:\.{start}{name})+{other}|{other}\.{WORD}*)"
    words = frozenset(spelled(word) for word in _FREQUENT.split())
    undotted = _WORD - _DOT
    exceptions = Exceptions(_REFERENCES, words | _MASKS)
    return f"(?:{pattern(Words(signs(first), _free(undotted, of(undotted)), exceptions))}|{dotted})"


def _environment() -> str:
    later = rf"""[^{SPACE}"'`\\()]"""
    first = signs(rf"""[^{SPACE}"'`\\()=<{{*\[]""")
    before_quotes = signs("[bBrRuU>]")  # `TOKEN=b"…"`, `TOKEN=>"…"`: the value is in the quotes
    words = frozenset(spelled(word) for word in NO_ENVIRONMENT) | _MASKS | {(before_quotes,)}
    word = pattern(Words(first, _free(signs(later), later), Exceptions(_REFERENCES, words)))
    return rf"""=(?:{word}(?:[{SPACE}"'`\\)]|\z)|[bBrRuU](?:[{SPACE}`)]|\\[^"'\\]|\z))"""


def _numbered() -> str:
    rests = [Rest(_DIGIT, f"{WORD}*"), Rest(_WORD - _DIGIT, f"{WORD}*[0-9]{WORD}*")]
    return pattern(Words(_FIRST, rests, Exceptions(_REFERENCES), end=None))


_SECRETS_IN_CAPITALS: Final = f"(?:{ENV_NAMES_OF_SECRETS}|{STRONG_IN_CAPITALS}|{BARE_IN_CAPITALS})"
_MIXED_WORD: Final = mixed(_WORD & _RANDOM, 8, first=_FIRST & _RANDOM)
_ELEMENT: Final = rf"[^<>{SPACE}]"

AUTHORIZATION: Final = (
    rf"(?i:authorization){IS}\\{{0,3}}[\"']?(?:{SCHEME}[A-Za-z0-9._~+/=:-]{{4,}}|{mixed(_CREDENTIAL, 8)})"
)
BEARER: Final = rf"\b(?i:bearer)[ \t]+{with_digit(_CREDENTIAL, 12)}"
PASSWORD_IN_QUOTES: Final = PASSWORDS + IS + _in_quotes()
PASSWORD: Final = PASSWORDS + IS_ALSO + _telling() + STOP
PASSWORD_OF_LINE: Final = rf"{PASSWORDS}[ \t]*:[ \t]+{_mere()}{LINE_STOP}"
PASSWORD_OF_ENVIRONMENT: Final = ENV_NAMES_OF_PASSWORDS + _environment()
PASSWORD_OPTION: Final = rf"--[a-z-]*password[ \t]+{_telling()}{STOP}"
PASSWORD_ELEMENT: Final = (
    r"(?i:<(?:[A-Za-z0-9_-]+:)?[A-Za-z0-9_-]*password)>"
    + pattern(Words(signs(_ELEMENT), _free(signs(_ELEMENT), _ELEMENT), Exceptions(_REFERENCES, _MASKS)))
    + "</"
)
SECRET_IN_QUOTES: Final = (
    f"(?:{_SECRETS_IN_CAPITALS}={QUOTED}|{STRONG}{IS}{_in_quotes()}"
    f"|(?:{BARE}|{ENV_NAMES_OF_SECRETS}){IS}{_mixed_in_quotes()})"
)
SECRET: Final = f"(?:{_SECRETS_IN_CAPITALS}={_numbered()}|{SECRETS}{IS_ALSO}{_MIXED_WORD}){STOP}"
SECRET_OF_ENVIRONMENT: Final = ENV_NAMES_OF_SECRETS + _environment()
SECRET_OPTION: Final = rf"--[a-z-]*(?:token|secret|api-key)[ \t]+{_MIXED_WORD}{STOP}"
