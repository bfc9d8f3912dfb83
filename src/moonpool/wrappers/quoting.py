"""Untrusted strings -> Python source that means exactly these strings.

SECURITY: names, descriptions, enum members and defaults come from servers. Everything in generated code passes one of
these functions: `quote` and `literal` for values, `docstring` and `comment` for prose. Prose stays readable: whitespace
is normalised, unprintable characters (control characters, bidirectional overrides, lone surrogates, line separators)
are escaped. `tests/wrappers/test_hostile.py` attacks this.
"""

from __future__ import annotations

import json
import re
import textwrap
from inspect import cleandoc
from typing import TYPE_CHECKING, Final

from moonpool.core.hidden_characters import all_seen, is_seen, without_looks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonValue

WIDTH: Final = 110
_INDENT_MAX: Final = 12
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_DATA_URI: Final = re.compile(r"data:[\w.+/-]*;base64,[\w+/=]{40,}", re.ASCII)


def quote(text: str) -> str:
    """A string literal, in double quotes if that needs no escaping."""
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if '"' not in text and "'" not in text else quoted


def literal(json_text: str) -> str:
    """The Python literal for JSON text."""
    return _literal(json.loads(json_text))


def prose(text: str) -> str:
    """Text of several lines without unprintable characters, with its relative indentation."""
    if "base64," in text:
        text = _DATA_URI.sub("data:…", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\n" not in text:
        return one_line(text)
    lines = (
        " " * min(_INDENT_MAX, len(line) - len(line.lstrip(" "))) + one_line(line)
        for line in cleandoc(text).split("\n")
    )
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")


def one_line(text: str) -> str:
    """Text on one line: every run of whitespace becomes one space, unprintable characters are escaped."""
    text = without_looks(" ".join(text.split()))
    return text if all_seen(text) else "".join(map(_printable, text))


def docstring(paragraphs: Iterable[str], indent: str) -> list[str]:
    r"""Source lines of a docstring; each paragraph is text that went through `prose`, `one_line` or `wrap`.

    Backslashes are doubled, so that escape sequences in the text have no effect; three quotes cannot end it.
    """
    body = "\n\n".join(paragraph for paragraph in paragraphs if paragraph.strip())
    lines = body.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').split("\n")
    if len(lines) == 1 and not lines[0].endswith('"') and len(lines[0]) + len(indent) + 6 <= WIDTH + 10:
        return [f'{indent}"""{lines[0]}"""']
    first = "" if lines[0].startswith('"') else lines.pop(0)
    rest = (f"{indent}{line}".rstrip() for line in lines)
    return [f'{indent}"""{first}', *rest, f'{indent}"""']


def comment(text: str, indent: str) -> list[str]:
    """Source lines of a comment; none for empty text."""
    return [f"{indent}# {line}" for line in wrap(one_line(text), len(indent) + 2)]


def wrap(line: str, used: int, *, hanging: str = "") -> list[str]:
    """Wrap one line of prose at spaces to the width left by `used` columns."""
    width = WIDTH - used
    if len(line) <= width:
        return [line] if line else []
    return textwrap.wrap(line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _literal(value: JsonValue) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quote(name)}: {_literal(item)}" for name, item in value.items()) + "}"
    return repr(value)


def _printable(character: str) -> str:
    return character if is_seen(character) else character.encode("unicode_escape", "surrogatepass").decode()


def lost_name(name: str) -> str:
    """A tool's own name, printable, if its ASCII identifier cannot show it; else empty."""
    return one_line(name) if any(char.isalnum() and not char.isascii() for char in name) else ""
