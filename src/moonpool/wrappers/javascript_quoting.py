r"""Untrusted strings -> JavaScript and TypeScript source that means exactly these strings.

The counterpart of `quoting` (whose `prose` and `one_line` make strings printable first). Values become string literals
with `js_quote` and `js_literal`; prose becomes a JSDoc block.

SECURITY: a JSDoc block ends at the first `*/`, so that is written `*\/`. An `@` that follows no letter is written `\@`:
a server must not add tags (`@deprecated`) or TypeScript directives (`@ts-expect-error`).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from moonpool.wrappers.quoting import WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonValue

SAFE_INTEGER_MAX: Final = 2**53 - 1
_TAG: Final = re.compile(r"(?<!\w)@")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)


def js_quote(text: str) -> str:
    """A string literal in double quotes. Unprintable characters, including line separators, are escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_js_character, text)) + '"'


def js_literal(json_text: str) -> str:
    """The literal for JSON text of a scalar; also a TypeScript type."""
    return _literal(json.loads(json_text))


def property_key(name: str) -> str:
    """A member's name in an interface: unchanged if it is an identifier, else quoted."""
    return name if _IDENTIFIER.fullmatch(name) else js_quote(name)


def jsdoc(paragraphs: Iterable[str], indent: str) -> list[str]:
    """Source lines of a JSDoc block, none for no text; each paragraph went through `prose` or `one_line`."""
    body = "\n\n".join(paragraph for paragraph in paragraphs if paragraph.strip())
    if not body:
        return []
    lines = _TAG.sub(r"\\@", body.replace("*/", "*\\/")).split("\n")
    if len(lines) == 1 and len(lines[0]) + len(indent) + 7 <= WIDTH + 10:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]


def _literal(value: JsonValue) -> str:
    return js_quote(value) if isinstance(value, str) else json.dumps(value)


def _js_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\u{{{code:x}}}"
