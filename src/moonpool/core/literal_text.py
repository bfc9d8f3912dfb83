"""Python literals that servers print where others print JSON, as server-sqlite its rows. Pure, linear in the text.

SECURITY: the text is a server's. Nothing is evaluated, and Python's parser, which takes a hundred times the text's
memory, does not see it: what differs from JSON is rewritten, and what is not strict JSON then is no literal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from moonpool.core.json import JsonValue

CHARS_MAX: Final = 256 * 1024
"""Longer text stays text. This much takes the event loop 10 to 40 ms."""
_DIFFERENT: Final = re.compile(
    r"'(?:[^'\\\n]|\\[^\n])*'|\"(?:[^\"\\\n]|\\[^\n])*\"|['\"]"  # strings, and one without an end
    r"|\b(?:True|False|None)\b|[()]"
    r"|(?<=[^\[({, \t\r\n]),[ \t\r\n]*(?=[\])}])"  # a comma behind the last
)
_WRITTEN: Final = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\\'\"nrt]))")
_SIMPLE: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


def literal_value(text: str) -> JsonValue:
    """The list, tuple (as a list) or dict with string keys that `text` prints; None when it is anything else."""
    if len(text) > CHARS_MAX or not text.lstrip(" \t\r\n").startswith(("[", "(", "{")):
        return None
    try:
        value = msgspec.json.decode(_DIFFERENT.sub(_as_json, text))
    except (ValueError, OverflowError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None  # pyright: ignore[reportUnknownVariableType]  JSON


def _as_json(found: re.Match[str]) -> str:
    text = found.group()
    if text[0] not in "'\"":
        return _WRITTEN.get(text, "")
    if len(text) == 1:  # said at once: looking for its end again from each later quote would be quadratic
        raise ValueError("a string without an end")
    text = text[1:-1]
    if "\\" in text:
        if "\\" in _ESCAPE.sub("", text):
            raise ValueError("an escape that `repr` does not print")
        text = _ESCAPE.sub(_character, text)
    return msgspec.json.encode(text).decode()


def _character(escape: re.Match[str]) -> str:
    simple = escape.group(4)
    return _SIMPLE[simple] if simple else chr(int(escape.group(1) or escape.group(2) or escape.group(3), 16))
