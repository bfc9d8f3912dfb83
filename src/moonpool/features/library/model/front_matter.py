"""The head of a `SKILL.md`: flat YAML, read key by key. Pure.

Keys are found line by line, so a key that nobody asks for may hold anything. A plain string means itself, also with the
`: ` that YAML forbids and many published skills write; every other value is read by PyYAML (`yaml_strings`).
Values are strings, flat lists and flat mappings of strings: `yes`, `1.0` and dates stay strings. Anchors, aliases and
tags are refused, with their line, where they stand under a key that must be read; under a key that may be, they are no
value. No key stands there twice.

SECURITY: whoever wrote the text is not trusted. The head is bounded before it is parsed, nesting while it is; nothing
is built from it but strings, lists and dictionaries of strings, each of them no longer than what was given: PyYAML's
constructors of other types are not used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from moonpool.core.yaml_strings import Value

HEAD_CHARS_MAX: Final = 16 * 1024
LINES_MAX: Final = 400

_FENCE: Final = "---"
_KEY: Final = re.compile(r"""(\w[\w.-]*|"[^"\\]*"|'[^']*')[ ]*:(?:[ ]+(.*))?$""")
_COMMENT: Final = re.compile(r"(?:^|[ ])#.*$")
_NOT_PLAIN: Final = tuple("\"'|>[]{}&*!%@`,")
_NOTHING: Final = frozenset({"~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class _Line:
    number: int  # in the file
    text: str

    @property
    def blank(self) -> bool:
        return not self.text.strip(" ")


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """What the head says under the keys that were asked for, and the text below it."""

    values: dict[str, Value]
    keys: tuple[str, ...]  # all of the head's, in its order
    body: str


def read_frontmatter(
    text: str, *, source: str, wanted: frozenset[str], optional: frozenset[str] = frozenset()
) -> Frontmatter:
    """Split `text` into head and body and read the head. Line ends are LF afterwards.

    Raises InputError; not for what cannot be read under an `optional` key.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    first, _, rest = text.partition("\n")
    if first.rstrip(" ") != _FENCE:
        raise InputError(f"{source} does not begin with a line `---`; put name and description between two of them")
    head, body = _split(rest, source)
    reader = _Reader(source)
    values: dict[str, Value] = {}
    seen: dict[str, int] = {}
    for line, key, said, block in reader.entries(head):
        if key in seen:
            raise reader.fault(line, f"`{key}` is on line {seen[key]} already; keep one")
        seen[key] = line.number
        try:
            value = reader.value(line, said, block) if key in wanted or key in optional else None
        except InputError:
            if key in wanted:
                raise
            continue
        if value is not None:
            values[key] = value
    return Frontmatter(values, tuple(seen), body)


def _split(text: str, source: str) -> tuple[list[_Line], str]:
    """The head's lines, and what comes after its second `---`."""
    lines: list[_Line] = []
    start = 0
    while start < len(text) and start <= HEAD_CHARS_MAX and len(lines) <= LINES_MAX:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        start = end + 1
        if line.rstrip(" ") == _FENCE:
            return lines, text[start:]
        lines.append(_Line(len(lines) + 2, line.rstrip(" ")))
    if start >= len(text):
        raise InputError(f"{source} has no second line `---`; put one below name and description")
    raise InputError(
        f"{source} has no second line `---` within {LINES_MAX} lines and {HEAD_CHARS_MAX} characters; put one below"
        " name and description"
    )


class _Reader:
    """Reads one head; says where something is wrong."""

    def __init__(self, source: str) -> None:
        self._source = source

    def fault(self, line: _Line, why: str) -> InputError:
        return InputError(f"{self._source} line {line.number}: {why}")

    def entries(self, lines: Sequence[_Line]) -> Iterator[tuple[_Line, str, str, list[_Line]]]:
        """Each key with its line, what stands behind the colon, and the lines that belong to it."""
        at = 0
        while at < len(lines):
            line = lines[at]
            at += 1
            if line.blank or line.text.startswith("#"):
                continue
            if line.text[0] in " \t":
                raise self.fault(line, "it is indented, but belongs to nothing above it")
            match = _KEY.match(line.text)
            if match is None:
                raise self.fault(line, f"{line.text[:60]!r} is not `key: value`")
            end = at
            while end < len(lines) and _belongs(lines[end]):
                end += 1
            yield line, match[1].strip("\"'"), match[2] or "", _trimmed(lines[at:end])
            at = end

    def value(self, line: _Line, said: str, block: list[_Line]) -> Value | None:
        """What a key's lines mean; None for nothing."""
        lines = [said.strip(" "), *(one.text for one in block)]
        bare = [_COMMENT.sub("", one).strip() for one in lines]
        first = next(filter(None, bare), None)
        if first is None or (len(lines) == 1 and first in _NOTHING):
            return None
        collection = not bare[0] and (first == "-" or first.startswith("- ") or _KEY.match(first))
        if not collection and not first.startswith(_NOT_PLAIN):
            return _folded(bare)
        from moonpool.core.yaml_strings import YamlValueError, read_value  # noqa: PLC0415  few heads need it

        try:
            return read_value(lines)
        except YamlValueError as error:
            raise InputError(f"{self._source} line {line.number + error.line}: {error}") from None


def _belongs(line: _Line) -> bool:
    """Whether a line goes on with the key above it."""
    return line.blank or line.text[0] in " \t]}" or line.text == "-" or line.text.startswith("- ")


def _trimmed(lines: Sequence[_Line]) -> list[_Line]:
    """Without blank lines at the end."""
    end = len(lines)
    while end and lines[end - 1].blank:
        end -= 1
    return list(lines[:end])


def _folded(lines: Sequence[str]) -> str:
    """The lines of a plain string as one; a blank line is a line end."""
    text = ""
    for line in lines:
        text += f" {line}" if text and line and not text.endswith("\n") else line or "\n"
    return text.strip("\n")
