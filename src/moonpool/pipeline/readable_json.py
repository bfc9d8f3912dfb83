"""JSON for a person who decides on it: all of it where it fits, else every member of it with what is inside cut short.

SECURITY: it was written by code that wants approval. It must not be able to push a member out of sight by putting long
ones around it: long strings and lists are cut each by itself, in their middle, and only where that does not help is
anything left out as a whole. That something is missing is said before anything else, and where it is missing it is said
outside quotes, where no text can say it. Nothing in it is acted on by a terminal, or unseen.

What only looks like a secret may be hidden (`hides`); that counts as missing, too. Who says what: `shown_arguments`.
"""

from __future__ import annotations

import json
import sys
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from moonpool.core.phrases import clip, printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from moonpool.core.json import JsonObject, JsonValue

ARGUMENTS_CHARS_MAX: Final = 4000
"""Of the arguments in a question. Whoever puts it to a person shows all of that."""
NOT_ALL: Final = "(not all of it is shown)"
_STEPS: Final = ((1000, 200), (400, 100), (200, 50), (100, 20), (60, 10), (40, 6), (24, 4), (16, 2))
"""How long a text and how large a container may be, from generous to strict."""
_T = TypeVar("_T")

Hides: TypeAlias = "Callable[[str, str], Sequence[tuple[int, int]]]"
"""Which parts (from, to) of a text are not to be shown, in order; the second argument names the member that has it."""


def _hides_nothing(text: str, member: str) -> Sequence[tuple[int, int]]:
    del text, member
    return ()


def readable_json(value: JsonValue, length_max: int, hides: Hides = _hides_nothing) -> str:
    """`value` as indented JSON of at most `length_max` characters, or what is most worth seeing of it."""
    if whole := all_but_hidden(value, length_max, hides):
        return whole
    room = length_max - len(NOT_ALL) - 1
    for text_max, items_max in _STEPS:
        shown = _fitting(_Pieces(text_max, items_max, hides).of(value), room)
        if shown is not None:
            return f"{NOT_ALL}\n{shown}"
    ends, most = json.dumps(value, ensure_ascii=False, indent=2), room  # too many members to cut each by itself
    while len(shown := printable(clip(ends, most))) > room and most:
        most = max(0, most - (len(shown) - room + 1) // 2 - 1)
    return f"{NOT_ALL}\n{shown}"


def all_but_hidden(value: JsonValue, length_max: int, hides: Hides = _hides_nothing) -> str:
    """`value` as indented JSON, which begins with NOT_ALL where something is hidden; empty when it is longer."""
    if not _may_fit(value, length_max):  # writing out 16 MB of characters that nobody sees takes seconds
        return ""
    pieces = _Pieces(sys.maxsize, sys.maxsize, hides)
    shown = _fitting(pieces.of(value), length_max)
    if shown is not None and pieces.hidden:
        shown = f"{NOT_ALL}\n{shown}"
    return shown if shown is not None and len(shown) <= length_max else ""


def in_one_line(shown: str) -> str:
    """Arguments as they are shown, without the line breaks between them: texts in JSON hold none."""
    return " ".join(line.strip() for line in shown.split("\n"))


def _written(text: str) -> str:
    return printable_json(encode_basestring(text))  # in a tenth of the time of json.dumps


def _may_fit(value: JsonValue, room: int) -> bool:
    """False for what is certainly too long; found out without looking at all of it."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        room -= len(one) if isinstance(one, str | list | dict) else 1
        if room < 0:
            return False
        if isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one
    return True


def _fitting(pieces: Iterator[str], room: int) -> str | None:
    kept: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            return None
        kept.append(piece)
    return "".join(kept)


class _Pieces:
    """Writes a value in pieces, texts and containers cut to `text_max` characters and `items_max` items."""

    def __init__(self, text_max: int, items_max: int, hides: Hides) -> None:
        self._text_max, self._items_max, self._hides = text_max, items_max, hides
        self.hidden = False  # something was

    def of(self, value: JsonValue, depth: int = 0, member: str = "") -> Iterator[str]:
        if isinstance(value, str):
            yield self._text(value, member)
        elif isinstance(value, dict) and value:
            yield from self._members(value, depth)
        elif isinstance(value, list) and value:
            yield from self._items(value, depth, member)
        else:
            yield json.dumps(value)

    def _members(self, value: JsonObject, depth: int) -> Iterator[str]:
        names = list(value)
        # At the top all of them, or nothing is shown so.
        head, tail = _ends(names, self._items_max if depth else len(names))
        line = "\n" + "  " * (depth + 1)
        yield "{"
        for place, name in enumerate([*head, *tail]):
            if place:
                yield ","
            if place == len(head):
                yield line + _left_out(len(names) - len(head) - len(tail), "members")
            yield f"{line}{self._text(name, '')}: "
            yield from self.of(value[name], depth + 1, name)
        yield f"{line[:-2]}}}"

    def _items(self, value: list[JsonValue], depth: int, member: str) -> Iterator[str]:
        head, tail = _ends(value, self._items_max)
        line = "\n" + "  " * (depth + 1)
        yield "["
        for place, item in enumerate([*head, *tail]):
            if place:
                yield ","
            if place == len(head):
                yield line + _left_out(len(value) - len(head) - len(tail), "items")
            yield line
            yield from self.of(item, depth + 1, member)
        yield f"{line[:-2]}]"

    def _text(self, text: str, member: str) -> str:
        """In quotes. What is longer when it is written out counts as long as that."""
        length_max = self._text_max
        whole = _written(text) if len(text) <= length_max else ""
        if whole and len(whole) <= 2 * length_max + 2:
            return self._quoted(text, member)
        most = min(length_max, len(text) - 1)
        tail = most // 4
        while True:
            start, end = text[: most - tail], text[len(text) - tail :]
            if most <= 2 or len(_written(start)) + len(_written(end)) <= 2 * length_max + 4:
                left_out = _left_out(len(text) - most, "characters")
                return f"{self._quoted(start, member)} {left_out} {self._quoted(end, member)}"
            most //= 2
            tail = most // 4

    def _quoted(self, text: str, member: str) -> str:
        """`text` in quotes, around what of it is hidden."""
        shown: list[str] = []
        at = 0
        for start, end in self._hides(text, member):
            shown += [_written(text[at:start])] if start > at else []
            shown.append(f"…[{end - start:,} characters hidden]…")
            at = end
        self.hidden = self.hidden or bool(shown)
        return " ".join([*shown, *([_written(text[at:])] if at < len(text) or not shown else [])])


def _ends(parts: Sequence[_T], most: int) -> tuple[Sequence[_T], Sequence[_T]]:
    """All of them, or the first and the last of them."""
    if len(parts) <= most:
        return parts, ()
    tail = max(1, most // 4)
    return parts[: most - tail], parts[len(parts) - tail :]


def _left_out(count: int, what: str) -> str:
    return f"…[{count:,} {what} left out]…"
