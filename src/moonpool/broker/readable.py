"""JSON for a person who is to judge it: all of it where it fits, else every member of it with what is inside cut short.

SECURITY: what is judged was written by code that wants a yes. It must not be able to push a member out of sight by
putting long ones around it: long texts and lists are cut each by itself, in their middle, and only where that does not
help is anything left out as a whole. That something is missing is said before anything else, and where it is missing
it is said outside quotes, where no text can say it. Nothing in it is acted on by a terminal, or unseen.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar

from moonpool.broker.phrases import clip, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from moonpool.core.json import JsonObject, JsonValue

ARGUMENTS_CHARS_MAX: Final = 4000
"""Of the arguments in a question. Whoever puts it to a person shows all of that."""
NOT_ALL: Final = "(not all of it is shown)"
_STEPS: Final = ((1000, 200), (400, 100), (200, 50), (100, 20), (60, 10), (40, 6), (24, 4), (16, 2))
"""How long a text and how large a container may be, from generous to strict."""
_T = TypeVar("_T")


def readable_json(value: JsonValue, length_max: int) -> str:
    """`value` as indented JSON of at most `length_max` characters, or what is most worth seeing of it."""
    if _may_fit(value, length_max) and len(whole := _written(value)) <= length_max:
        return whole
    room = length_max - len(NOT_ALL) - 1
    for text_max, items_max in _STEPS:
        shown = _fitting(_pieces(value, text_max, items_max, 0), room)
        if shown is not None:
            return f"{NOT_ALL}\n{shown}"
    ends, most = json.dumps(value, ensure_ascii=False, indent=2), room
    while len(shown := printable(clip(ends, most))) > room and most:
        most = max(0, most - (len(shown) - room + 1) // 2 - 1)
    return f"{NOT_ALL}\n{shown}"


def _written(value: JsonValue) -> str:
    return printable(json.dumps(value, ensure_ascii=False, indent=2))


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


def _pieces(value: JsonValue, text_max: int, items_max: int, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield _text(value, text_max)
    elif isinstance(value, dict) and value:
        yield from _members(value, text_max, items_max, depth)
    elif isinstance(value, list) and value:
        yield from _items(value, text_max, items_max, depth)
    else:
        yield json.dumps(value)


def _members(value: JsonObject, text_max: int, items_max: int, depth: int) -> Iterator[str]:
    names = list(value)
    head, tail = _ends(names, items_max if depth else len(names))  # at the top all of them, or nothing is shown so
    line = "\n" + "  " * (depth + 1)
    yield "{"
    for place, name in enumerate([*head, *tail]):
        if place:
            yield ","
        if place == len(head):
            yield line + _left_out(len(names) - len(head) - len(tail), "members")
        yield f"{line}{_text(name, text_max)}: "
        yield from _pieces(value[name], text_max, items_max, depth + 1)
    yield f"{line[:-2]}}}"


def _items(value: list[JsonValue], text_max: int, items_max: int, depth: int) -> Iterator[str]:
    head, tail = _ends(value, items_max)
    line = "\n" + "  " * (depth + 1)
    yield "["
    for place, item in enumerate([*head, *tail]):
        if place:
            yield ","
        if place == len(head):
            yield line + _left_out(len(value) - len(head) - len(tail), "items")
        yield line
        yield from _pieces(item, text_max, items_max, depth + 1)
    yield f"{line[:-2]}]"


def _ends(parts: Sequence[_T], most: int) -> tuple[Sequence[_T], Sequence[_T]]:
    """All of them, or the first and the last of them."""
    if len(parts) <= most:
        return parts, ()
    tail = max(1, most // 4)
    return parts[: most - tail], parts[len(parts) - tail :]


def _text(text: str, length_max: int) -> str:
    """In quotes. What is longer when it is written out counts as long as that."""
    whole = _written(text) if len(text) <= length_max else ""
    if whole and len(whole) <= 2 * length_max + 2:
        return whole
    most = min(length_max, len(text) - 1)
    tail = most // 4
    while True:
        head = most - tail
        start, end = _written(text[:head]), _written(text[len(text) - tail :])
        if most <= 2 or len(start) + len(end) <= 2 * length_max + 4:
            return f"{start} {_left_out(len(text) - most, 'characters')} {end}"
        most //= 2
        tail = most // 4


def _left_out(count: int, what: str) -> str:
    return f"…[{count:,} {what} left out]…"
