r"""Texts as servers may read them: escapes worked off, compatibility letters made plain.

A server that builds an address or a path of a text decodes it, perhaps twice, and walks up at `..`. So a pattern has to
find the same in every reading of a text, and a text with a `..` that stands alone or with an encoded dot is not read.

Percent escapes of letters, digits, `-._~`, separators and of `%` itself are worked off where a pattern is compared;
others (`%20`) make no other text of it. For dots everything is worked off: all escapes, `%u002e`, overlong UTF-8.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from moonpool.core.hidden_characters import all_seen, is_seen
from moonpool.core.policy.findings import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Collection

    from moonpool.core.json import JsonValue

TEXT_CHARS_MAX: Final = 16_384
"""A longer text is not searched: it is UNREADABLE."""
_ROUNDS_MAX: Final = 4

_NEEDLESS = re.compile(r"%(2[5def]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5[cf]|7e)", re.IGNORECASE)
_WIDE_ESCAPE = re.compile(r"%u([0-9a-f]{4})", re.IGNORECASE)
_ENCODED_DOT = re.compile(r"%(?:2e|u002e)", re.IGNORECASE)
_ODD_ESCAPE = re.compile(r"%(?:00|c[01]|e0%[89]|f0%8)", re.IGNORECASE)
"""NUL, at which some programs end a text, and overlong UTF-8, in which some read dots and separators."""
_BESIDE = r"/\\?#&;=:\s\"'"
_LONE_DOTS = re.compile(rf"(?<![^{_BESIDE}])\.\.(?![^{_BESIDE}])")


def searchable(value: JsonValue) -> str:
    """`value` as a text that can be searched. Raises UnreadableError."""
    if not isinstance(value, str):
        raise UnreadableError("it is not a text")
    if len(value) > TEXT_CHARS_MAX:
        raise UnreadableError(f"it has more than {TEXT_CHARS_MAX} characters")
    if value.encode(errors="replace").decode() != value:
        raise UnreadableError("it has half a surrogate pair")
    return value


def is_plain(text: str) -> bool:
    """Whether there is one way to read the letters of `text`."""
    return text.isascii() and "%" not in text and text.isprintable()


def readings(text: str) -> list[str]:
    """`text`, and what else a server may read in it. Raises UnreadableError."""
    if is_plain(text):
        return [text]
    decoded = text
    for _ in range(_ROUNDS_MAX):
        if (further := _NEEDLESS.sub(_character, decoded)) == decoded:
            return list(dict.fromkeys([text, _without_forms(decoded)]))
        decoded = further
    raise UnreadableError("it is percent-encoded more often than anybody would")


def check_dots(text: str) -> None:
    """Raise UnreadableError for a text that may lead elsewhere than its letters say."""
    if is_plain(text) and not has_lone_dots(text):
        return
    for _ in range(_ROUNDS_MAX):
        if _ENCODED_DOT.search(text):
            raise UnreadableError("it has an encoded dot")
        check_escapes(text)
        plain = _without_forms(text)
        printed = plain if plain.isprintable() else "".join(filter(str.isprintable, plain))  # some drop line ends
        if has_lone_dots(plain) or has_lone_dots(printed):
            raise UnreadableError('it has a ".." that may lead elsewhere')
        if (further := _WIDE_ESCAPE.sub(_character, unquote(text))) == text:
            return
        text = further
    raise UnreadableError("it is percent-encoded more often than anybody would")


def check_escapes(text: str) -> None:
    """Raise UnreadableError for escapes that programs decode in different ways."""
    if found := _ODD_ESCAPE.search(text):
        raise UnreadableError(f"it has the escape {found[0]}")


def has_lone_dots(text: str) -> bool:
    """Whether `..` stands between separators, blanks or the ends of `text`."""
    return _LONE_DOTS.search(text) is not None


def is_one_of(text: str, choices: Collection[JsonValue]) -> bool:
    """Equality with a text of a rule. Raises UnreadableError for one that only a decoder takes for it."""
    if text in choices:
        return True
    if len(text) <= TEXT_CHARS_MAX and (found := [one for one in readings(text) if one in choices]):
        raise UnreadableError(f"it becomes {found[0][:60]!r} when it is decoded")
    return False


def _without_forms(text: str) -> str:
    """`text` with compatibility letters made plain and without unseen ones. Raises UnreadableError."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    if len(plain) > 2 * TEXT_CHARS_MAX:  # one letter may stand for eighteen
        raise UnreadableError("its letters stand for too many others")
    return plain if all_seen(plain) else "".join(char for char in plain if is_seen(char) or char.isspace())


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))
