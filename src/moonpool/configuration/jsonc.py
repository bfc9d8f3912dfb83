"""JSON that people write, with comments and trailing commas: read, and changed where it stands. Pure.

`without_comments` makes plain JSON of the same length, so that places in it are places in the text. `JsonText` puts
members and items in and takes items out; every other character stays where it is, comments among them.

INVARIANT: a change that does not read back as exactly what was meant is refused (`JsonTextError`), so no odd text, and
no slip here, can make a configuration say something else.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.core.json import JsonObject, JsonValue

# What has no end goes on to the end of the text: else each of its beginnings would be a new attempt at all of the rest.
_STRING: Final = r'("(?:[^"\\]|\\.)*+(?:"|\\?\Z))'
_STRING_OR_COMMENT: Final = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_VISIBLE: Final = re.compile(r"\S")
_READER: Final = json.JSONDecoder()


class JsonTextError(ValueError):
    """A text cannot be changed as wanted. It stays as it is."""


class _Part(NamedTuple):
    """One member or item: where it begins (a member with its name), where its value does, where that ends."""

    name: str
    begin: int
    value: int
    end: int


def without_comments(text: str) -> str:
    """Plain JSON, with blanks for comments and trailing commas; lines, columns and offsets stay."""
    return _blanked(_TRAILING_COMMA, _blanked(_STRING_OR_COMMENT, text))


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: match[1] or re.sub(r"[^\r\n]", " ", match[0]), text)


class JsonText:
    """One document; `text` is what it is by now. Paths are names of members, from the top."""

    def __init__(self, text: str) -> None:
        """Raises ValueError for what is no JSON object."""
        self.text = text
        self.value: JsonObject = self._read()

    def put(self, path: Sequence[str], value: JsonValue) -> None:
        """Set a member to `value`; objects on the way to it are made where there are none."""
        meant = copy.deepcopy(self.value)
        holder, at = meant, self._top()
        for depth, name in enumerate(path):
            part = next((one for one in self._parts(at) if one.name == name), None)
            last = depth == len(path) - 1
            if part is None:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                self._insert(at, f"{json.dumps(name)}: {json.dumps(value)}")
                holder[name] = value
                break
            if last:
                self.text = self.text[: part.value] + json.dumps(value) + self.text[part.end :]
                holder[name] = value
            else:
                holder, at = _object(holder[name]), part.value
        self._check(meant)

    def append(self, path: Sequence[str], *items: JsonValue) -> None:
        """Add items to the list at `path`, which is made where there is none. At once: each change reads all of it."""
        if not items:
            return
        at = self._find(path)
        if at is None:
            self.put(path, [*items])
            return
        meant = copy.deepcopy(self.value)
        _list(meant, path).extend(copy.deepcopy(items))
        self._insert(at, ", ".join(map(json.dumps, items)))
        self._check(meant)

    def remove(self, path: Sequence[str], item: JsonValue) -> bool:
        """Take every such item out of the list at `path`. Returns whether there was one."""
        at, found = self._find(path), False
        while at is not None and item in (items := _list(self.value, path)):
            meant, place = copy.deepcopy(self.value), items.index(item)
            del _list(meant, path)[place]
            self._cut(self._parts(at), place)
            self._check(meant)
            found = True
        return found

    def _read(self) -> JsonObject:
        value: JsonValue = json.loads(without_comments(self.text))
        if not isinstance(value, dict):
            raise ValueError("it is no JSON object")  # noqa: TRY004  as for what is no JSON at all
        return value

    def _check(self, meant: JsonObject) -> None:
        try:
            self.value = self._read()
        except (ValueError, RecursionError):
            raise JsonTextError("the change would break it; edit the file yourself") from None
        if self.value != meant:
            raise JsonTextError("the change would alter its meaning; edit the file yourself")

    def _top(self) -> int:
        return _next(without_comments(self.text), 0)

    def _find(self, path: Sequence[str]) -> int | None:
        at = self._top()
        for name in path:
            part = next((one for one in self._parts(at) if one.name == name), None)
            if part is None:
                return None
            at = part.value
        return at

    def _parts(self, at: int) -> list[_Part]:
        """What is in the object or list that begins at `at`. The text has been read, so it is well-formed."""
        bare = without_comments(self.text)
        if bare[at] not in "{[":
            raise JsonTextError(f"there is no object or list in line {bare.count(chr(10), 0, at) + 1}; put one there")
        named, parts, here = bare[at] == "{", list[_Part](), _next(bare, at + 1)
        while bare[here] not in "}]":
            begin, name = here, ""
            if named:
                name, here = _READER.raw_decode(bare, here)
                here = _next(bare, _next(bare, here) + 1)
            _, end = _READER.raw_decode(bare, here)
            parts.append(_Part(cast("str", name), begin, here, end))
            here = _next(bare, end)
            if bare[here] == ",":
                here = _next(bare, here + 1)
        return parts

    def _insert(self, at: int, new: str) -> None:
        """Put `new` behind what is in the object or list at `at`, on a line of its own where the others are."""
        text, parts = self.text, self._parts(at)
        if not parts:
            self.text = f"{text[: at + 1]}{new}{text[at + 1 :]}"
            return
        first, last = parts[0], parts[-1]
        line = text.rfind("\n", at, first.begin)
        close = _next(without_comments(text), last.end)
        comma = "" if "," in _blanked(_STRING_OR_COMMENT, text)[last.end : close] else ","
        if line < 0:
            self.text = f"{text[: last.end]}, {new}{text[last.end :]}"
            return
        margin = text[line - (text[line - 1] == "\r") : first.begin]
        margin = "\n" if margin.strip() else margin
        ends = text.find("\n", last.end, close)
        behind = last.end if ends < 0 else ends - (text[ends - 1] == "\r")
        # A remark behind the last one stays beside it; a comma that stood there already goes on doing so.
        self.text = f"{text[: last.end]}{comma}{text[last.end : behind]}{margin}{new}{text[behind:]}"

    def _cut(self, parts: Sequence[_Part], place: int) -> None:
        """Take one part out, with one comma, and no comment."""
        text, part = self.text, parts[place]
        commas = _blanked(_STRING_OR_COMMENT, text)
        if place + 1 < len(parts):
            upto = parts[place + 1].begin
            comma = commas.index(",", part.end, upto)
            between = (part.begin, upto) if text[part.end : upto].strip() == "," else None
        elif place:
            since = parts[place - 1].end
            comma = commas.index(",", since, part.begin)
            between = (since, part.end) if text[since : part.begin].strip() == "," else None
        else:
            comma = _next(commas, part.end)
            between = (part.begin, part.end) if commas[comma] != "," else None
        if between is not None:
            self.text = text[: between[0]] + text[between[1] :]
            return
        for begin, end in sorted([(part.begin, part.end), (comma, comma + 1)], reverse=True):
            self.text = self.text[:begin] + self.text[end:]


def _next(bare: str, at: int) -> int:
    found = _VISIBLE.search(bare, at)
    return found.start() if found else len(bare)


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise JsonTextError("a value on the path is not an object; edit the file yourself")
    return value


def _list(document: JsonObject, path: Sequence[str]) -> list[JsonValue]:
    value: JsonValue = document
    for name in path:
        value = _object(value).get(name)
    if not isinstance(value, list):
        raise JsonTextError(f'"{path[-1]}" is not a list; edit the file yourself')
    return value
