r"""Strings as servers may read them: escapes decoded, compatibility letters normalised.

A server that builds an address or a path from a string decodes it, perhaps twice, and resolves `..`. So a pattern must
give the same result in every reading of a string, and a separate `..`, encoded or not, makes a string unreadable.

Letters, digits, `-._~` and separators need no escapes: a pattern must give the same result with and without them. All
other readings only count against a string: other escapes (`%20`), backslashes as slashes, `//` and `/./` may match a
stricter rule but never help an allow rule.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from moonpool.core.hidden_characters import all_seen, is_seen
from moonpool.policy.findings import UnreadableError, agreed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from moonpool.core.json import JsonValue

TEXT_CHARS_MAX: Final = 16_384
"""A longer string is not searched: it is UNREADABLE."""
_ROUNDS_MAX: Final = 6

_NEEDLESS = re.compile(r"%(2[5def]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5[cf]|7e)", re.IGNORECASE)
_WIDE_ESCAPE = re.compile(r"%u([0-9a-f]{4})", re.IGNORECASE)
_ENCODED_DOT = re.compile(r"%(?:2e|u002e)", re.IGNORECASE)
_ODD_ESCAPE = re.compile(r"%(?:00|c[01]|e0%[89]|f0%8)", re.IGNORECASE)
"""NUL, which ends a string in some programs, and overlong UTF-8, which some decode to dots and separators."""
_STAYING = re.compile(r"(?<!:)/(?:\.?/)+")
"""`//` and `/./`, which do not change a path; not the two slashes after a scheme."""
_CONTROL: Final = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029])
"""Including tabs and line ends, which URL parsers drop."""
_BESIDE = r"/\\?#&;=:\s\"'"
_LONE_DOTS = re.compile(rf"(?<![^{_BESIDE}])\.\.(?![^{_BESIDE}])")


def searchable(value: JsonValue) -> str:
    """`value` as a string that can be searched. Raises UnreadableError."""
    if not isinstance(value, str):
        raise UnreadableError("it is not a string")
    if len(value) > TEXT_CHARS_MAX:
        raise UnreadableError(f"it has more than {TEXT_CHARS_MAX} characters")
    if value.encode(errors="replace").decode() != value:
        raise UnreadableError("it has half a surrogate pair")
    if "\0" in value:
        raise UnreadableError("it has a NUL, at which some programs end a string")
    return value


def is_plain(text: str) -> bool:
    """Whether there is only one way to read the characters of `text`."""
    return text.isascii() and "%" not in text and text.isprintable()


def matches(text: str, match: Callable[[str], bool]) -> bool:
    """Whether `match` accepts `text` in every reading. Raises UnreadableError if readings differ."""
    decoded = text
    if is_plain(text):
        found = match(text)
    else:
        found = agreed(match(one) for one in (text, _to_the_end(text, _without_needless)))
        decoded = _to_the_end(text, _decoded)
    walked = _STAYING.sub("/", decoded.replace("\\", "/")).removeprefix("./")
    # SECURITY: these readings only count against a string, so that a rule may name what they remove.
    if not found and any(one != text and match(one) for one in (decoded, walked)):
        raise UnreadableError("decoded or without needless separators it is a different string to the rule")
    return found


def check_dots(text: str) -> None:
    """Raise UnreadableError for a string whose dots may lead to another place."""
    if is_plain(text) and not has_lone_dots(text):
        return
    for one in _rounds(text, _decoded):
        if _ENCODED_DOT.search(one):
            raise UnreadableError("it has an encoded dot")
        check_escapes(one)
        plain = _without_forms(one)
        if has_lone_dots(plain) or has_lone_dots(plain.translate(_CONTROL)):
            raise UnreadableError('it has a ".." that may lead elsewhere')


def check_escapes(text: str) -> None:
    """Raise UnreadableError for escapes that programs decode in different ways."""
    if found := _ODD_ESCAPE.search(text):
        raise UnreadableError(f"it has the escape {found[0]}")


def has_lone_dots(text: str) -> bool:
    """Whether `..` stands between separators, blanks or the ends of `text`."""
    return _LONE_DOTS.search(text) is not None


def is_one_of(text: str, choices: Collection[JsonValue]) -> bool:
    """Equality with a string of a rule. Raises UnreadableError for one that is equal only after decoding."""
    if text in choices:
        return True
    before, nul, _ = text.partition("\0")
    if nul and before in choices:
        raise UnreadableError("it has a NUL, at which some programs end a string")
    if len(text) <= TEXT_CHARS_MAX:
        matches(text, lambda one: one in choices)
    return False


def _rounds(text: str, decode: Callable[[str], str]) -> Iterator[str]:
    """`text`, then the result of each round of decoding. Raises UnreadableError if there are too many rounds."""
    for _ in range(_ROUNDS_MAX):
        yield text
        if (further := decode(text)) == text:
            return
        text = further
    raise UnreadableError("it is percent-encoded too many times")


def _to_the_end(text: str, decode: Callable[[str], str]) -> str:
    return [*_rounds(text, decode)][-1]


def _without_needless(text: str) -> str:
    return _NEEDLESS.sub(_character, _without_forms(text))


def _decoded(text: str) -> str:
    """Decode one kind of escapes per round, so that every dot is checked."""
    plain = unquote(_without_forms(text))
    return plain if plain != text else _WIDE_ESCAPE.sub(_character, text)


def _without_forms(text: str) -> str:
    """`text` with compatibility letters normalised and without invisible ones. Raises UnreadableError."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    if len(plain) > 2 * TEXT_CHARS_MAX:  # one letter may expand to eighteen
        raise UnreadableError("its letters expand to too many others")
    if all_seen("".join(plain.split())):
        return plain
    return "".join(char for char in plain if is_seen(char) or char.isspace())


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))
