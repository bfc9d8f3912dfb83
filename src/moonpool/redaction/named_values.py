"""Finder of values with a secret-sounding name: `DB_PASSWORD=…`, `"password": "…"`, `Authorization: Bearer …`.

Parts of its patterns: `named_value_patterns`; its first search: `prefilters`; harmless values: `false_positive_rules`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from moonpool.redaction import false_positive_rules as rules
from moonpool.redaction import prefilters
from moonpool.redaction.line_finder import Kind, LineFinder, hold_from_words
from moonpool.redaction.named_value_patterns import (
    CREDENTIAL,
    ENV_NAMES_OF_PASSWORDS,
    ENV_NAMES_OF_SECRETS,
    ENV_WORD,
    IS,
    IS_ALSO,
    LINE_STOP,
    MERE,
    NUMBERED,
    PASSWORDS,
    QUOTED,
    SCHEME,
    SECRETS,
    SPACE,
    STOP,
    STRONG,
    TELLING,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.redaction.spans import Span

NAMED: Final = (
    Kind(
        "authorization",
        rf"(?i:authorization){IS}\\{{0,3}}[\"']?(?:{SCHEME})?{CREDENTIAL}",
        rules.credential,
        prefilter=prefilters.AUTHORIZATION,
    ),
    Kind("authorization", rf"\b(?i:bearer)[ \t]+{CREDENTIAL}", rules.bearer, prefilter=prefilters.BEARER),
    Kind("password", PASSWORDS + IS + QUOTED, rules.quoted, prefilter=prefilters.PASSWORD_IN_QUOTES),
    Kind("password", PASSWORDS + IS_ALSO + TELLING + STOP, rules.password, prefilter=prefilters.PASSWORD, word=True),
    Kind(
        "password",
        rf"{PASSWORDS}[ \t]*:[ \t]+{MERE}{LINE_STOP}",
        rules.password,
        prefilter=prefilters.PASSWORD_OF_LINE,
        word=True,
    ),
    Kind(
        "password",
        ENV_NAMES_OF_PASSWORDS + ENV_WORD,
        rules.password,
        prefilter=prefilters.PASSWORD_OF_ENVIRONMENT,
        word=True,
    ),
    Kind(
        "password",
        rf"--[a-z-]*password[ \t]+{TELLING}{STOP}",
        rules.password,
        prefilter=prefilters.PASSWORD_OPTION,
        word=True,
    ),
    Kind(
        "password",
        rf"(?i:<(?:[A-Za-z0-9_-]+:)?[A-Za-z0-9_-]*password)>([^<>{SPACE}]+)</",
        rules.written,
        prefilter=prefilters.PASSWORD_ELEMENT,
    ),
    Kind("secret", SECRETS + IS + QUOTED, rules.quoted_secret, prefilter=prefilters.SECRET_IN_QUOTES),
    Kind("secret", SECRETS + IS_ALSO + NUMBERED + STOP, rules.secret, prefilter=prefilters.SECRET, word=True),
    Kind(
        "secret", ENV_NAMES_OF_SECRETS + ENV_WORD, rules.secret, prefilter=prefilters.SECRET_OF_ENVIRONMENT, word=True
    ),
    Kind(
        "secret",
        rf"--[a-z-]*(?:token|secret|api-key)[ \t]+{NUMBERED}{STOP}",
        rules.random,
        prefilter=prefilters.SECRET_OPTION,
        word=True,
    ),
)
NAMED_WORDS: Final = ("pass", "pwd", "token", "secret", "key", "credential", "auth", "bearer", "_pat", "_dsn")
NAMED_HINT: Final = (
    r"(?:(?i:password|passwd|passphrase|passcode|[_-]pwd|[_-]pass)[A-Za-z0-9_]*"
    rf"|{STRONG}|(?i:authorization|token|secret|auth)[0-9]*|(?:_KEY|APIKEY|_PAT|_CREDENTIALS|_DSN)[0-9]*)"
    r"""(?:[ \t\]"']|\\+[t"'u09]*)*(?:[:=]|[>])|(?i:bearer)(?:[ \t]|\\t)+[A-Za-z0-9._~+/=:-]{12}"""
    r"|--[a-z-]*(?:password|token|secret|api-key)(?:[ \t]|\\t)"
)


_UNPLAIN: Final = re.compile(rb'["\\\x00-\x1f]')


class NamedValues(LineFinder):
    """Finder of values with a secret-sounding name."""

    def __init__(self) -> None:
        super().__init__(NAMED, hint=NAMED_HINT, hold=hold_from_words(NAMED_WORDS, any_case=True))

    def names(self, name: str) -> bool:
        """Whether a string may be secret because it is the member `name` of an object."""
        return self.contains(name.encode("utf-8", "replace") + b"=")

    def members(self, members: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """The spans of secrets in the UTF-8 of each string, by the name of its member."""
        lines: list[bytes] = []
        places: list[int] = []  # where each value begins
        end = 0
        for name, value in members:
            before = b'"%b": "' % _UNPLAIN.sub(b"_", name.encode("utf-8", "replace"))
            lines.append(b'%b%b"\n' % (before, _UNPLAIN.sub(b"_", value.encode("utf-8", "surrogatepass"))))
            places.append(end + len(before))
            end += len(lines[-1])
        found: list[list[Span]] = [[] for _ in members]
        for start, stop, kind in self.scan(b"".join(lines), 0, final=True).spans:
            index = bisect_right(places, start) - 1
            at = places[index]
            if index >= 0 and stop <= at + len(members[index][1].encode("utf-8", "surrogatepass")):  # not inside a name
                found[index].append((start - at, stop - at, kind))
        return found
