"""Which texts in a server's configuration are secrets: what no output, message or log of ours may show.

By their name (`token`, `API_KEY`), by their place (the password in a URL, what follows `Authorization: Bearer`), or
because they look random (a part of a URL's path). Values of `env`, `headers` and the like are secrets unless they are
plainly none (`looks_secret`). Options and members of JSON are mostly ordinary: there a name or a random look decides.

SECURITY: when in doubt a value is a secret; the exceptions are values that are no secret for anybody and would make
outputs unreadable if blanked. What is found here is what `redaction.known_values` searches.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SECRET_LENGTH_MIN: Final = 6
"""Shorter values are left alone: blanking every `abc` would destroy outputs and hide nothing."""

_SECRET_NAME: Final = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|cookie|session|bearer|dsn|signature", re.IGNORECASE
)
_PATHS: Final = (
    re.compile(r"(?:~|\.{1,2})?/[^\s]*"),
    re.compile(r"[A-Za-z]:\\.*"),  # on Windows
)
_PLAIN_VALUES: Final = (
    re.compile(r"[+-]?\d{1,11}(?:\.\d+)*"),  # a number, a port, a version
    re.compile(r"[A-Za-z]{1,12}"),  # one word: production, warning, disabled
    re.compile(r"[a-z]{1,12}(?:[_-][a-z]{1,12}){1,2}"),  # a choice: read_only, dark-mode; passphrases have more words
    re.compile(r"[A-Za-z]+(?:/[A-Za-z_+.-]+)+"),  # Europe/Berlin, application/json
    re.compile(r"[a-z]{2}_[A-Z]{2}(?:\.[A-Za-z0-9-]+)?"),  # en_GB.UTF-8
)
_SCHEMES: Final = frozenset({"bearer", "basic", "token", "apikey"})

_KIND: Final = "access|api|auth|bearer|client|encryption|private|refresh|secret|session|signing"
_CERTAIN_NAME: Final = re.compile(
    rf"(?:.*[-_.])?(?:(?:{_KIND})[-_.]?key|(?:{_KIND})?(?:token|secret|password|passwd|passphrase|pass|pwd|credentials?)"
    r"|bearer|dsn|pat)[0-9]*",
    re.IGNORECASE,
)
"""Names of options whose last word says secret."""
_LIKELY_NAME: Final = re.compile(
    r"(?:.*[-_.])?(?:key|auth|authorization|session|cookie|signature)[0-9]*", re.IGNORECASE
)
"""The same, where a plain word is rather a choice."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNMENT: Final = re.compile(r"-{0,2}([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*[=:][ \t]*(.+)", re.DOTALL)

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_RUN: Final = re.compile(r"[A-Za-z0-9]{12,}")
_CHANGES_MIN: Final = ((24, 0.15), (16, 0.25), (0, 0.45))
"""What `_changes` must be in so many signs and more with a digit among them."""
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]{20,}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_ASSIGNMENTS_MAX: Final = 3  # in each other: --env=NAME=value
_JSON_BYTES_MAX: Final = 256 * 1024


def looks_random(text: str) -> bool:
    """Whether a part of `text` looks generated: a UUID, or twelve and more letters and digits in no order.

    Small letters, capitals and digits follow each other in words and names mostly in groups; in what a generator made
    every second or third sign is of another kind than the one before.
    """
    if _UUID.search(text) is not None or any(_is_mixed(run) for run in _RUN.findall(text)):
        return True
    return any(_is_base64url(part.replace("-", "").replace("_", "")) for part in _BASE64URL.findall(text))


def _is_mixed(run: str) -> bool:
    if any(map(str.isdigit, run)):
        return _changes(run) >= next(share for length, share in _CHANGES_MIN if len(run) >= length)
    return len(run) >= 20 and _changes(run) >= 0.45


def _is_base64url(signs: str) -> bool:
    return len(signs) >= 18 and len({*map(_kind, signs)}) == 3 and _changes(signs) >= 0.4


def _changes(run: str) -> float:
    """The share of signs that are of another kind than the one before."""
    return sum(_kind(one) != _kind(other) for one, other in pairwise(run)) / (len(run) - 1)


def _kind(sign: str) -> int:
    return sign.isdigit() + 2 * sign.isupper()


def _is_path(value: str) -> bool:
    """A path, and not base64 that begins with `/`."""
    if not any(pattern.fullmatch(value) for pattern in _PATHS):
        return False
    encoded = _BASE64.fullmatch(value) is not None and ("+" in value or value.endswith("="))
    return not encoded and not looks_random(value)


def _is_plain(value: str) -> bool:
    return _is_path(value) or any(pattern.fullmatch(value) for pattern in _PLAIN_VALUES)


def looks_secret(name: str, value: str) -> bool:
    """Whether `value`, given under `name`, must never be shown.

    No: under 6 characters; a URL (its credentials are found separately); a path, number, version, locale, time zone or
    media type; one plain word, or up to three in small letters joined by `_` or `-`, unless the name itself says secret
    (`key`, `token`, `password`, `auth`...).
    Everything else: yes.
    """
    value = value.strip()
    if len(value) < SECRET_LENGTH_MIN or value.lower() in {"enabled", "disabled"}:
        return False
    if value.startswith(("http://", "https://")):
        return False  # what is secret inside a URL is found by `secrets_in_url`
    return _SECRET_NAME.search(name) is not None or not _is_plain(value)


def secrets_in(name: str, value: str) -> Iterator[str]:
    """Every text inside one configured value that the redactor must know."""
    if looks_secret(name, value):
        yield from _with_parts(value)
    yield from _inside(value)


def secrets_in_arguments(arguments: Iterable[str]) -> Iterator[str]:
    """What is secret in the arguments of a command: behind or in an option whose name says so, in URLs, in JSON, in
    `NAME=value` and `Name: value`, or because it looks random.
    """
    option = ""  # the one before, if its value may follow
    for argument in arguments:
        is_option = argument.startswith("-") and not (_says_secret(option) and looks_random(argument))
        if not is_option:
            yield from _given(option, argument)
        elif "=" not in argument:
            yield from _named("", argument[2:] if argument[1:2] != "-" else "")  # -pVALUE
        else:
            yield from _given("", argument)
        option = argument.lstrip("-") if is_option and "=" not in argument else ""


def _given(name: str, value: str) -> Iterator[str]:
    """What is secret in what was given under `name`: the value, or in `NAME=value` and `Name: value` what is behind."""
    for _ in range(_ASSIGNMENTS_MAX):
        yield from _inside(value)
        plain = "://" not in value.partition("=")[0] and not value.lstrip().startswith(("{", "["))
        assigned = _ASSIGNMENT.fullmatch(value) if plain else None
        if assigned is None or _says_secret(name):
            yield from _named(name, value)
        if assigned is None:
            return
        name, value = assigned[1], assigned[2]


def secrets_in_url(text: str) -> Iterator[str]:
    """What is secret in a URL, as written and decoded: the password, values in the query and the fragment, and what
    looks random in them, as the user, or in the path.
    """
    try:
        parts = urlsplit(text)
        found = [parts.password] if parts.password else []
    except ValueError:
        return
    if not parts.scheme or not parts.netloc:
        return
    given = [*parse_qsl(parts.query), *parse_qsl(parts.fragment)]
    found += [value for name, value in given if looks_secret(name, value)]
    for place in (parts.username or "", *parts.path.split("/"), parts.fragment):
        found += [piece for piece in {place, *re.split(r"[:;,=@&]", place)} if looks_random(unquote(piece))]
    for value in found:
        if len(value) >= SECRET_LENGTH_MIN:
            yield from {value, unquote(value)}


def _inside(value: str) -> Iterator[str]:
    """What is secret in a URL or in JSON that a value is."""
    yield from secrets_in_url(value.strip())
    for name, member in _members(value):
        yield from secrets_in_url(member)
        yield from _named(name, member)


def _named(name: str, value: str) -> Iterator[str]:
    value = value.strip()
    if len(value) < SECRET_LENGTH_MIN or "://" in value or _is_path(value):
        return
    told = _says(_CERTAIN_NAME, name) or (_says(_LIKELY_NAME, name) and not _is_plain(value))
    if told or (looks_random(value) and not re.search(r"[\s/@]", value)):
        yield from _with_parts(value)


def _says_secret(name: str) -> bool:
    return _says(_CERTAIN_NAME, name) or _says(_LIKELY_NAME, name)


def _says(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.fullmatch(_HUMP.sub("-", name)) is not None


def _with_parts(value: str) -> Iterator[str]:
    """A secret, and what is one in it: behind `Bearer`, and the password in `Basic`."""
    yield value.strip()
    scheme, _, token = value.strip().partition(" ")
    token = token.strip()
    if scheme.lower() not in _SCHEMES or len(token) < SECRET_LENGTH_MIN:
        return
    yield token
    try:
        password = base64.b64decode(token, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return
    if len(password) >= SECRET_LENGTH_MIN:
        yield password


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The texts in JSON by the name of their member, if `text` is an object or a list."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > _JSON_BYTES_MAX:
        return
    try:
        left: list[tuple[str, Any]] = [("", json.loads(text))]
    except (ValueError, RecursionError):
        return
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += cast("dict[str, Any]", value).items()
        elif isinstance(value, list):
            left += [(name, item) for item in cast("list[Any]", value)]
        elif isinstance(value, str):
            yield name, value
