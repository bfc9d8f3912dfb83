"""The shapes of secrets that nobody told us about. Two finders, in this order: tokens that are known by their own
looks, then values whose name says that they are secret (`DB_PASSWORD=…`, `"password": "…"`, `Authorization: Bearer …`).

Only the value is replaced. Comparisons (`token == expected`), calls, references (`${VAR}`, `<token>`), masks (`****`)
and what is redacted already are left alone; `docs/reference/redaction.md` lists every kind with examples.

SECURITY: a net for accidents, not a wall: code that transforms a secret gets past it. Known values come first
(`known_values`), private keys have a finder of their own (`private_keys`), because they go over many lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from moonpool.broker.line_finder import Kind, LineFinder, hold_from_words
from moonpool.broker.private_keys import PrivateKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.broker.spans import Span, SpanFinder

_START: Final = r"(?:\b|\\[nrtbf]|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]*m)"
"""Before a token: no word character, or one that belongs to an escape in JSON, in a URL or for colours."""

_TOKENS: Final = (
    # name, shape, and what each shape begins with
    ("moonpool_key", r"mpk_[A-Za-z0-9_-]{20,}", ("mpk_",)),
    ("baponi_key", r"sk-(?:us|eu)-[A-Za-z0-9_-]{12,}", ("sk-",)),
    ("aws_access_key", r"(?:AKIA|ASIA)[A-Z0-9]{16}\b", ("AKIA", "ASIA")),
    ("github_fine_grained_pat", r"github_pat_[A-Za-z0-9_]{22,}", ("github_pat_",)),
    ("github_pat", r"ghp_[A-Za-z0-9]{30,}", ("ghp_",)),
    ("github_oauth", r"gh[ousr]_[A-Za-z0-9]{30,}", ("gho_", "ghu_", "ghs_", "ghr_")),
    ("gitlab_token", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_-]{20,}", ("gl",)),
    ("anthropic_api_key", r"sk-ant-[A-Za-z0-9_-]{16,}", ()),
    ("openai_api_key", r"sk-(?:[A-Za-z0-9]{20,}|(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,})", ()),
    ("google_api_key", r"AIza[A-Za-z0-9_-]{35}", ("AIza",)),
    ("google_oauth", r"(?:ya29\.|GOCSPX-)[A-Za-z0-9_-]{20,}", ("ya29.", "GOCSPX-")),
    ("slack_token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}", ("xox",)),
    ("slack_token", r"xapp-[0-9]-[A-Za-z0-9-]{10,}", ("xapp-",)),
    ("slack_webhook", r"hooks\.slack\.com/services/([A-Za-z0-9_/]{20,})", ("hooks.slack.com/",)),
    ("stripe_key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,}", ("sk_", "rk_", "whsec_")),
    ("npm_token", r"npm_[A-Za-z0-9]{36}", ("npm_",)),
    ("pypi_token", r"pypi-[A-Za-z0-9_-]{50,}", ("pypi-",)),
    ("huggingface_token", r"hf_[A-Za-z0-9]{30,}", ("hf_",)),
    ("docker_token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", ("dckr_",)),
    ("digitalocean_token", r"do[opr]_v1_[a-f0-9]{64}", ("doo_", "dop_", "dor_")),
    ("sendgrid_key", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", ("SG.",)),
    ("shopify_token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", ("shp",)),
    ("vault_token", r"hv[sbr]\.[A-Za-z0-9_-]{24,}", ("hvs.", "hvb.", "hvr.")),
    ("age_key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}", ("AGE-SECRET-KEY-",)),
    ("jwt", r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}", ("eyJ",)),
)
_USER: Final = r"""[^\x00-\x20\x7f/:@"'`<>\\?#]*"""
_URL_USER_HAS: Final = r"""[^\x00-\x20\x7f/"'`<>\\?#{}$*\[][^\x00-\x20\x7f/"'`<>\\?#{}]*"""
_URL: Final = rf"://{_USER}:({_URL_USER_HAS})@"

# What follows is about names and their values. (?i:…) where case does not matter.
_PASSWORD_NAMES: Final = r"(?i:password|passwd|passphrase|passcode|[_-]pwd)[0-9]*"  # noqa: S105  a pattern
_STRONG: Final = (
    r"(?i:(?:access|refresh|auth|api|bearer|id|session|secret|bot|app|client|user|oauth2?|github|gitlab|slack|npm|pypi"
    r"|hf|personal|deploy|service|admin|login|jwt|security|private|registration|csrf|xsrf|vault|webhook)[_-]?token"
    r"|(?:client|app|api|consumer|shared|webhook|signing|jwt|oauth|auth|session|hmac|aws|bot|master)[_-]?secret"
    r"|(?:api|access|secret|private|auth|encryption|signing|master|account|shared|storage|license|deploy|hmac|ssh|gpg"
    r"|webhook|subscription|admin|service)[_-]?(?:access[_-]?)?key|credentials?)"
)
_BARE: Final = r"(?:(?m:^)|--|[^A-Za-z0-9_\n-])(?i:token|secret|auth)"
_IN_CAPITALS: Final = r"\b[A-Z0-9_]*"  # then case matters: as in the environment
_ENV_NAMES_OF_PASSWORDS: Final = rf"{_IN_CAPITALS}(?:(?:PASSWORD|PASSWD|PASSPHRASE)[A-Z0-9_]*|_PASS|_PWD)"
_ENV_NAMES_OF_SECRETS: Final = rf"{_IN_CAPITALS}(?:TOKEN|SECRET|_KEY|APIKEY|_PAT|_CREDENTIALS|_DSN)[0-9]*"
_PASSWORDS: Final = rf"(?:{_PASSWORD_NAMES}|(?i:[_-]pass)|{_ENV_NAMES_OF_PASSWORDS})"
_SECRETS: Final = rf"(?:{_STRONG}|{_BARE}|{_ENV_NAMES_OF_SECRETS})"
_IS: Final = r"""\\{0,3}["']?\]?[ \t]*(?::[ \t]*[A-Za-z_][A-Za-z0-9_.\[\] |]*)?(?:=>|:=|=|:)[ \t]*[bBrRuU]?"""
"""Between a name and a quoted value: JSON, Python, JavaScript, Ruby, PHP, Go; a second `=` does not fit in."""
_QUOTED: Final = r"""(?:"((?:[^"\\\r\n]|\\[^\r\n])+)|'((?:[^'\\\r\n]|\\[^\r\n])+)|\\{1,3}["']([^"'\\\r\n]+))"""
_SPACE: Final = r" \t\n\f\r"
r"""In brackets. SECURITY: not `\s`, which is one character more in Python's engine than in RE2: they must agree."""
_WORD: Final = rf"""[^{_SPACE}"'`\\()&;,<>\[\]{{}}|]"""
_FIRST: Final = rf"""[^{_SPACE}"'`\\()&;,<>\[\]{{}}|=$%*]"""
_IS_ALSO: Final = r"[ \t]*[=:][ \t]*"
_TELLING: Final = rf"((?:{_FIRST}{_WORD}*[0-9!@#$%^*+~?]|[0-9!@#^+~?]|[$%][0-9]){_WORD}*)"
"""Without quotes: no mere word, which is rather a variable, a type or prose, nor a reference."""
_NUMBERED: Final = rf"((?:{_FIRST}{_WORD}*)?[0-9]{_WORD}*)"
_MERE: Final = rf"([A-Za-z\x80-\xff]{_WORD}*)"
_STOP: Final = rf"""(?:[{_SPACE}"'`\\)&;,<>\]}}|]|\z)"""
_LINE_STOP: Final = r"""(?:[ \t]*(?:[\r\n"'`\\]|\z)|[ \t]+#)"""
_ENV_WORD: Final = rf"""=([^{_SPACE}"'`\\()=<{{*\[][^{_SPACE}"'`\\()]*)(?:[{_SPACE}"'`\\)]|\z)"""
_SCHEME: Final = r"(?i:bearer|basic|token|apikey|digest|negotiate)[ \t]+"
_CREDENTIAL: Final = r"([A-Za-z0-9._~+/=:-]{4,})"

_NAME = re.compile(rb"[^A-Za-z0-9_]*([A-Za-z0-9_-]+)(.*)", re.DOTALL)
_STRONG_NAME = re.compile(_STRONG.encode() + rb"\Z")
_HARMLESS_NAME = re.compile(rb"(?:PUBLIC|PRIMARY|FOREIGN|SORT|PARTITION|CACHE|ROW|UNIQUE)_KEY\Z")
_REFERENCE = re.compile(
    rb"(?i)[<{*\[]|\$[a-z_{(]|:[a-z]|%[sdr({]|%[a-z_]+%\Z|\.{3}|x{4,}\Z|your[ _-]"
    rb"|(?:env|secrets?|vars?|process|os|self|args|settings|config)\.[a-z_.]+\Z"
    rb"|[a-z_][a-z0-9_-]*:[^:]?:[0-9]+:"  # a line of /etc/passwd
)
_NO_PASSWORD = re.compile(
    rb"(?i)(?:str|string|text|int|integer|number|bool|boolean|bytes|secretstr|none|null|nil|undefined|true|false|yes|no"
    rb"|optional|required|any|object|array|hidden|password|passwd|secret|token|changed|ok|valid|invalid|incorrect|wrong"
    rb"|missing|unset|not|set|empty|redacted|accepted|rejected|expired|prompt|auto|default|files|compat|systemd|sss|ldap)[.,:;!?]*"
)
_NO_ENVIRONMENT: Final = frozenset({b"true", b"false", b"null", b"none", b"yes", b"no"})
_TELLING_SIGN = re.compile(rb"[0-9!@#$%^*+~?]")
_RANDOM_VALUE = re.compile(rb"[A-Za-z0-9._~+/=:@!#$%^&*-]+")
_LETTER = re.compile(rb"[A-Za-z]")
_DIGIT = re.compile(rb"[0-9]")
_EXPRESSION = re.compile(rb"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)+")
_KEY_IN_QUOTES = re.compile(rb"""["']\]?\s*(?:=>|[:=])\s*\\*["']\Z""")


def _written(before: bytes, value: bytes, after: bytes) -> int:
    """A value in quotes, or behind a word that leaves no doubt."""
    del before, after
    return 0 if _REFERENCE.match(value) else len(value)


def _quoted(before: bytes, value: bytes, after: bytes) -> int:
    """A value in quotes; not what comes behind a text that ends, as in `ask("Password: ")`."""
    text_ends = value.startswith((b")", b",", b"]", b"}", b";"))
    return 0 if text_ends and not _KEY_IN_QUOTES.search(before) else _written(before, value, after)


@lru_cache(maxsize=256)
def _in_capitals(before: bytes) -> bool:
    """Whether it is written as in the environment: `NAME=`."""
    name = _NAME.match(before)
    return name is not None and name[1].isupper() and name[2].rstrip(b"\"'\\") == b"="


@lru_cache(maxsize=256)
def _harmless(before: bytes) -> bool:
    name = _NAME.match(before)
    return name is None or _HARMLESS_NAME.search(name[1]) is not None


@lru_cache(maxsize=256)
def _strongly_named(before: bytes) -> bool:
    name = _NAME.match(before)
    return name is not None and _STRONG_NAME.search(name[1]) is not None


def _of_environment(before: bytes, value: bytes, after: bytes) -> int:
    return 0 if value.lower() in _NO_ENVIRONMENT else _written(before, value, after)


def _password(before: bytes, value: bytes, after: bytes) -> int:
    """Without quotes, mere words are left alone where they may be a variable, a type or prose."""
    if _in_capitals(before):
        return _of_environment(before, value, after)
    if _EXPRESSION.fullmatch(value):
        return 0
    if _TELLING_SIGN.search(value):
        return _written(before, value, after)
    if not before.endswith((b" ", b"\t")):
        return 0
    return 0 if b":" not in before or _NO_PASSWORD.fullmatch(value) else _written(before, value, after)


def _secret(before: bytes, value: bytes, after: bytes) -> int:
    if _harmless(before):
        return 0
    if _in_capitals(before):
        return _of_environment(before, value, after)
    annotation = b":" in before and after.startswith((b",", b")", b"]", b"|"))
    return 0 if annotation else _random(before, value, after)


def _quoted_secret(before: bytes, value: bytes, after: bytes) -> int:
    if _harmless(before):
        return 0
    if _in_capitals(before):
        return _quoted(before, value, after)
    if b" " in value or b"\t" in value:
        return 0
    strong = len(value) >= 4 and _strongly_named(before) and not _EXPRESSION.fullmatch(value)
    return _quoted(before, value, after) if strong else _random(before, value, after)


def _random(before: bytes, value: bytes, after: bytes) -> int:
    """What a generator makes: eight characters and more, with letters and digits."""
    random = len(value) >= 8 and _RANDOM_VALUE.fullmatch(value) and _LETTER.search(value) and _DIGIT.search(value)
    return _written(before, value, after) if random and not _EXPRESSION.fullmatch(value) else 0


def _credential(before: bytes, value: bytes, after: bytes) -> int:
    """Behind `Authorization`: whatever follows a scheme; without one, what looks random."""
    certain = before.endswith((b" ", b"\t")) and _SCHEMES.search(before)
    return _written(before, value, after) if certain else _random(before, value, after)


def _bearer(before: bytes, value: bytes, after: bytes) -> int:
    return _written(before, value, after) if len(value) >= 12 and _DIGIT.search(value) else 0


_SCHEMES = re.compile(_SCHEME.encode() + rb"\Z")
_NAMED: Final = (
    Kind("authorization", rf"(?i:authorization){_IS}\\{{0,3}}[\"']?(?:{_SCHEME})?{_CREDENTIAL}", _credential),
    Kind("authorization", rf"\b(?i:bearer)[ \t]+{_CREDENTIAL}", _bearer),
    Kind("password", rf"{_PASSWORDS}{_IS}{_QUOTED}", _quoted),
    Kind("password", rf"{_PASSWORDS}{_IS_ALSO}{_TELLING}{_STOP}", _password, word=True),
    Kind("password", rf"{_PASSWORDS}[ \t]*:[ \t]+{_MERE}{_LINE_STOP}", _password, word=True),
    Kind("password", rf"{_ENV_NAMES_OF_PASSWORDS}{_ENV_WORD}", _password, word=True),
    Kind("password", rf"--[a-z-]*password[ \t]+{_TELLING}{_STOP}", _password, word=True),
    Kind("password", rf"(?i:<(?:[A-Za-z0-9_-]+:)?[A-Za-z0-9_-]*password)>([^<>{_SPACE}]+)</", _written),
    Kind("secret", rf"{_SECRETS}{_IS}{_QUOTED}", _quoted_secret),
    Kind("secret", rf"{_SECRETS}{_IS_ALSO}{_NUMBERED}{_STOP}", _secret, word=True),
    Kind("secret", rf"{_ENV_NAMES_OF_SECRETS}{_ENV_WORD}", _secret, word=True),
    Kind("secret", rf"--[a-z-]*(?:token|secret|api-key)[ \t]+{_NUMBERED}{_STOP}", _random, word=True),
)
_NAMED_WORDS: Final = ("pass", "pwd", "token", "secret", "key", "credential", "auth", "bearer", "_pat", "_dsn")
_NAMED_HINT: Final = (
    r"(?:(?i:password|passwd|passphrase|passcode|[_-]pwd|[_-]pass)[A-Za-z0-9_]*"
    rf"|{_STRONG}|(?i:authorization|token|secret|auth)[0-9]*|(?:_KEY|APIKEY|_PAT|_CREDENTIALS|_DSN)[0-9]*)"
    r"""(?:[ \t\]"']|\\+[t"'u09]*)*(?:[:=]|[>])|(?i:bearer)(?:[ \t]|\\t)+[A-Za-z0-9._~+/=:-]{12}"""
    r"|--[a-z-]*(?:password|token|secret|api-key)(?:[ \t]|\\t)"
)


_UNPLAIN: Final = re.compile(rb'["\\\x00-\x1f]')


def _token_finder() -> LineFinder:
    kinds = [Kind(name, _START + _grouped(shape)) for name, shape, _ in _TOKENS] + [Kind("basic_auth_url", _URL)]
    hint = "|".join(f"(?:{shape})" for _, shape, _ in _TOKENS) + f"|{_URL}"
    words = [word for _, _, beginnings in _TOKENS for word in beginnings]
    return LineFinder(kinds, hint=hint, hold=hold_from_words([*words, "://"], any_case=False))


def _grouped(shape: str) -> str:
    return shape if re.search(r"(?<!\\)\((?!\?)", shape) else f"({shape})"


class NamedValues(LineFinder):
    """Finder of values whose name says that they are secret."""

    def __init__(self) -> None:
        super().__init__(_NAMED, hint=_NAMED_HINT, hold=hold_from_words(_NAMED_WORDS, any_case=True))

    def names(self, name: str) -> bool:
        """Whether a text may be secret because it is the member `name` of an object."""
        return self.contains(name.encode("utf-8", "replace") + b"=")

    def members(self, members: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """What is secret in the UTF-8 of each text, because the member of an object that has it is called so."""
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
            if index >= 0 and stop <= at + len(members[index][1].encode("utf-8", "surrogatepass")):  # not in a name
                found[index].append((start - at, stop - at, kind))
        return found


def secret_finders() -> list[SpanFinder]:
    """Finders of all kinds of secrets, in the order in which they must search."""
    return [PrivateKeys(), _token_finder(), NamedValues()]
