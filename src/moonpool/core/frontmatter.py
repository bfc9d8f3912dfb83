"""The head of a `SKILL.md`: a small, strict reader for the part of YAML that such heads are written in. Pure.

Read are texts (plain, quoted, `|` and `>` blocks), flat lists and flat mappings of texts. A plain text may hold `: `,
which YAML forbids and many published skills do; it means itself. Everything that could mean something else to another
reader (anchors, tags, aliases, flow, tabs as indentation) is refused, with its line, where it stands under a key that
must be read; under a key that may be, it is no value, and below any other key it is passed over. No key stands there
twice.

SECURITY: whoever wrote the text is not trusted. Nothing is built from it but texts, lists and dictionaries of texts,
each of them no longer than what was given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAD_CHARS_MAX: Final = 16 * 1024
LINES_MAX: Final = 400

Value: TypeAlias = "str | list[str] | dict[str, str]"

_FENCE: Final = "---"
_KEY: Final = re.compile(r"""(\w[\w.-]*|"[^"\\]*"|'[^']*')[ ]*:(?:[ ]+(.*))?$""")
_BLOCK: Final = re.compile(r"([|>])([+-]?[1-9]?|[1-9][+-])[ ]*(?:[ ]#.*)?$")
_COMMENT: Final = re.compile(r"(?:^|[ ])#.*$")
_RESERVED: Final = "[]{}&*!%@`,"
_ESCAPES: Final = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ",
    '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_HEX: Final = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class _Line:
    number: int  # in the file
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" "))

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
            raise reader.fault(line, f"`{key}` stands on line {seen[key]} already; leave one")
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
        said = said.strip(" ")
        if match := _BLOCK.match(said):
            return self._block_text(match[1], match[2], block)
        self._check_indents(block)
        if said[:1] in {'"', "'"}:
            return self._quoted(line, _folded([said, *(one.text for one in block)]))
        plain = _COMMENT.sub("", said).strip(" ")
        if not plain:
            return self._collection(block)
        if plain.startswith("["):
            return self._flow_list(line, " ".join([plain, *(one.text.strip(" ") for one in block)]))
        return self._plain(line, plain, block)

    def _plain(self, line: _Line, plain: str, block: list[_Line]) -> str | None:
        if plain[0] in _RESERVED:
            raise self.fault(line, f"a text cannot begin with {plain[0]!r} here; write it in double quotes")
        if not block and plain in {"~", "null", "Null", "NULL"}:
            return None
        return _folded([plain, *(_COMMENT.sub("", one.text) for one in block)])

    def _collection(self, block: list[_Line]) -> Value | None:
        """A list, a mapping or a text on lines of its own."""
        lines = [one for one in block if not one.blank and not one.text.lstrip(" ").startswith("#")]
        if not lines:
            return None
        first = lines[0].text.lstrip(" ")
        if first == "-" or first.startswith("- "):
            return self._list(lines)
        if _KEY.match(first):
            return self._mapping(lines)
        if first[0] in {'"', "'"}:
            return self._quoted(lines[0], _folded([one.text for one in lines]))
        return self._plain(lines[0], _COMMENT.sub("", first).strip(" "), lines[1:])

    def _list(self, lines: Sequence[_Line]) -> list[str]:
        items: list[str] = []
        for line in lines:
            dash, _, item = line.text.lstrip(" ").partition(" ")
            if dash != "-" or line.indent != lines[0].indent:
                raise self.fault(line, "a list of texts goes one `- item` to a line")
            items.append(self._scalar(line, item))
        return items

    def _mapping(self, lines: Sequence[_Line]) -> dict[str, str]:
        """The members that are texts; lists and mappings below them are passed over."""
        members: dict[str, str] = {}
        for line in lines:
            if line.indent > lines[0].indent:
                continue
            match = _KEY.match(line.text.lstrip(" "))
            if match is None or line.indent < lines[0].indent:
                raise self.fault(line, f"{line.text.strip()[:60]!r} is not `key: value`")
            key, said = match[1].strip("\"'"), (match[2] or "").strip(" ")
            if key in members:
                raise self.fault(line, f"`{key}` is there twice; leave one")
            if said and said[0] not in "[{|>&*!":
                members[key] = self._scalar(line, said)
        return members

    def _scalar(self, line: _Line, said: str) -> str:
        said = said.strip(" ")
        if said[:1] in {'"', "'"}:
            return self._quoted(line, said)
        plain = _COMMENT.sub("", said).strip(" ")
        if plain and plain[0] in _RESERVED:
            raise self.fault(line, f"a text cannot begin with {plain[0]!r} here; write it in double quotes")
        return plain

    def _flow_list(self, line: _Line, text: str) -> list[str]:
        inner = _COMMENT.sub("", text).strip(" ")
        if not inner.endswith("]") or any(mark in inner[1:-1] for mark in "[]{}"):
            raise self.fault(line, "a text cannot begin with '[' here; write it in double quotes, or close the list")
        return [self._scalar(line, item) for item in inner[1:-1].split(",") if item.strip(" ")]

    def _block_text(self, style: str, marks: str, block: list[_Line]) -> str:
        """`|` keeps line ends, `>` makes one line of those that follow each other at the block's own indentation."""
        given = marks.strip("+-")
        first = next((one for one in block if not one.blank), None)
        if first is None:
            return ""
        indent = int(given) if given else first.indent
        lines: list[str] = []
        for line in block:
            if not line.blank and line.indent < indent:
                raise self.fault(line, f"it is indented by {line.indent}, the text it belongs to by {indent}")
            lines.append(line.text[indent:])
        return "\n".join(lines).strip("\n") if style == "|" else _folded_block(lines).strip("\n")

    def _quoted(self, line: _Line, text: str) -> str:
        quote = text[0]
        out: list[str] = []
        at = 1
        while at < len(text):
            char = text[at]
            at += 1
            if char == quote:
                if quote == "'" and text[at : at + 1] == "'":
                    out.append("'")
                    at += 1
                    continue
                if _COMMENT.sub("", text[at:]).strip(" "):
                    raise self.fault(line, f"there is text behind the closing {quote}; quote the whole value")
                return "".join(out)
            if char == "\\" and quote == '"':
                char, at = self._escape(line, text, at)
            out.append(char)
        raise self.fault(line, f"the {quote} that begins the value is not closed")

    def _escape(self, line: _Line, text: str, at: int) -> tuple[str, int]:
        """The character behind a backslash, and where the text goes on."""
        letter = text[at : at + 1]
        if letter in _HEX:
            digits = text[at + 1 : at + 1 + _HEX[letter]]
            try:
                code = int(digits, 16) if len(digits) == _HEX[letter] and digits.isalnum() else -1
            except ValueError:
                code = -1
            if 0 <= code < 0xD800 or 0xE000 <= code < 0x110000:
                return chr(code), at + 1 + len(digits)
        elif letter in _ESCAPES:
            return _ESCAPES[letter], at + 1
        raise self.fault(line, f"`\\{ascii(letter)[1:-1]}` is no escape sequence; write `\\\\` for a backslash")

    def _check_indents(self, block: Sequence[_Line]) -> None:
        for line in block:
            if line.text.lstrip(" ").startswith("\t"):
                raise self.fault(line, "a tab indents it; use spaces")


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
    """Lines of a plain or quoted text as one; a blank line is a line end."""
    text = ""
    for line in (one.strip(" ") for one in lines):
        text += f" {line}" if text and line and not text.endswith("\n") else line or "\n"
    return text.strip("\n")


def _folded_block(lines: Sequence[str]) -> str:
    text, open_line = "", False
    for line in lines:
        own = bool(line) and line[0] != " "  # lines that are indented further keep their ends
        if own and open_line:
            text += f" {line}"
        elif not line:
            text += "\n"
        else:
            text += ("\n" if text and not text.endswith("\n") else "") + line
        open_line = own
    return text
