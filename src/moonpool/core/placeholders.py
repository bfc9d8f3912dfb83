"""Placeholders: values that stand in for results of calls that a dry run does not make. Pure.

A placeholder is made from the tool's output schema and fits it as far as a few rules can tell: required members, the
first of an enum, formats, bounds, easy patterns, `$ref` within the schema. It is bounded in depth and size, so that a
schema which refers to itself ends. Whoever makes one checks it against the schema.

Strings and integers that the schema leaves free are marks (`Mark`): each is unique within its rehearsal and has a form
that is found again in arguments of later calls, so a plan can say "here goes what call 2 will have returned".

SECURITY: schemas are hostile. Nothing here recurses deeper than `DEPTH_MAX` or makes more than `NODES_MAX` values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.schema_reading import (
    ImpossibleError,
    bound,
    count,
    escaped,
    finite,
    merged,
    regex_of,
    says_null,
    type_of,
    value_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.core.json import JsonObject, JsonValue

DEPTH_MAX: Final = 16
NODES_MAX: Final = 900
_NUMBER_BASE: Final = 1_997_000_000  # fits 32 bits for every call of a rehearsal
_LEAVES_PER_CALL: Final = 1000
_TEXT_CHARS_MAX: Final = 10_000
FOUND: Final = re.compile(
    r"placeholder-[0-9]{1,4}-[0-9]{1,3}(?![0-9])|00000000-0000-4000-8000-[0-9a-f]{12}|(?<![0-9.])1997[0-9]{6}(?![0-9])"
)
"""What a mark looks like. Bounded repetitions only, so it runs in linear time on text of a guest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A free value of a placeholder: what stands there, and where in the call's data it stands (a JSON pointer)."""

    value: str | int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A value and the marks in it, by what `FOUND` finds of each."""

    value: JsonValue
    marks: Mapping[str, Mark] = field(default_factory=dict[str, Mark])


def text_placeholder(number: int) -> Placeholder:
    """For call `number` of a tool without an output schema: a string."""
    core = f"placeholder-{number}-0"
    return Placeholder(value=core, marks={core: Mark(value=core, path="")})


def schema_placeholder(schema: JsonValue, number: int, *, whole: bool = True) -> Placeholder | None:
    """A value for `schema`, for call `number` of a rehearsal; None when these rules find none.

    `whole` also fills members and lists that the schema does not insist on.
    """
    maker = _Maker(schema, number, whole=whole)
    try:
        return Placeholder(value=maker.make(schema, "", 0), marks=maker.marks)
    except (ImpossibleError, OverflowError):  # bounds like 1e-300
        return None


class _Maker:
    """Makes one value."""

    def __init__(self, root: JsonValue, number: int, *, whole: bool) -> None:
        self._root, self._number, self._whole = root, number, whole
        self._nodes = 0
        self.marks: dict[str, Mark] = {}

    def make(self, schema: JsonValue, path: str, depth: int) -> JsonValue:
        self._step()
        if depth > DEPTH_MAX or schema is False:
            raise ImpossibleError
        if not isinstance(schema, dict):
            return self._text({}, path)
        schema = self._flat(schema, depth)
        if "const" in schema:
            return schema["const"]
        if isinstance(values := schema.get("enum"), list) and values:
            return values[0]
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), list) and options:
                return self._first_of(schema, key, options, path, depth)
        return self._typed(schema, type_of(schema), path, depth)

    def _step(self) -> None:
        """SECURITY: every value made and every schema merged counts, so no schema costs more than `NODES_MAX`."""
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise ImpossibleError

    def _first_of(self, schema: JsonObject, key: str, options: list[JsonValue], path: str, depth: int) -> JsonValue:
        rest = {name: value for name, value in schema.items() if name != key}
        for option in sorted(options, key=says_null):
            marks = dict(self.marks)
            try:
                return self.make(merged(rest, option), path, depth + 1)
            except ImpossibleError:
                self.marks = marks
        raise ImpossibleError

    def _typed(self, schema: JsonObject, kind: str, path: str, depth: int) -> JsonValue:
        match kind:
            case "object":
                return self._object(schema, path, depth)
            case "array":
                return self._array(schema, path, depth)
            case "integer" | "number":
                return self._number_in(schema, kind, path)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._text(schema, path)

    def _flat(self, schema: JsonObject, depth: int) -> JsonObject:
        """`schema` with what it refers to and all of `allOf` in it."""
        for _ in range(DEPTH_MAX):
            if isinstance(ref := schema.get("$ref"), str):
                rest = {name: value for name, value in schema.items() if name != "$ref"}
                schema = merged(rest, self._referred(ref))
            elif isinstance(parts := schema.get("allOf"), list):
                schema = {name: value for name, value in schema.items() if name != "allOf"}
                for part in parts:
                    self._step()
                    schema = merged(schema, part if not isinstance(part, dict) else self._flat_once(part, depth))
            else:
                return schema
        raise ImpossibleError

    def _flat_once(self, part: JsonObject, depth: int) -> JsonObject:
        if depth >= DEPTH_MAX or not ({"$ref", "allOf"} & part.keys()):
            return part
        return self._flat(part, depth + 4)

    def _referred(self, ref: str) -> JsonValue:
        if not ref.startswith("#"):
            raise ImpossibleError
        found = value_at(self._root, ref[1:])
        if found is None:
            raise ImpossibleError
        return found

    def _object(self, schema: JsonObject, path: str, depth: int) -> JsonObject:
        properties = schema.get("properties")
        declared: JsonObject = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        made: JsonObject = {}
        for name in dict.fromkeys([*needed, *(declared if self._whole else ())]):
            try:
                made[name] = self.make(declared.get(name, True), f"{path}/{escaped(name)}", depth + 1)
            except ImpossibleError:
                if name in needed:
                    raise
        others = schema.get("additionalProperties", True)
        for index in range(count(schema.get("minProperties"))):
            if len(made) >= count(schema.get("minProperties")):
                break
            name = f"placeholder{index}"
            made[name] = self.make(others, f"{path}/{name}", depth + 1)
        return made

    def _array(self, schema: JsonObject, path: str, depth: int) -> list[JsonValue]:
        first, rest = schema.get("prefixItems"), schema.get("items", True)
        if isinstance(rest, list):  # before 2020-12
            first, rest = rest, schema.get("additionalItems", True)
        tuple_items = first if isinstance(first, list) else []
        least = count(schema.get("minItems"))
        wanted = max(least, len(tuple_items) or 1) if self._whole else least
        if "maxItems" in schema:
            wanted = min(wanted, max(least, count(schema["maxItems"])))
        made: list[JsonValue] = []
        for index in range(wanted):
            item = tuple_items[index] if index < len(tuple_items) else rest
            try:
                made.append(self.make(item, f"{path}/{index}", depth + 1))
            except ImpossibleError:
                if index < least:
                    raise
                break
        return made

    def _number_in(self, schema: JsonObject, kind: str, path: str) -> int | float:
        low, high = bound(schema, "minimum", "exclusiveMinimum", 1), bound(schema, "maximum", "exclusiveMaximum", -1)
        step = finite(schema.get("multipleOf"))
        leaf = len(self.marks) + 1
        marked = _NUMBER_BASE + self._number * _LEAVES_PER_CALL + leaf
        free = (low is None or low <= marked) and (high is None or marked <= high) and (not step or marked % step == 0)
        if free and leaf < _LEAVES_PER_CALL:
            self.marks[str(marked)] = Mark(value=marked, path=path)
            return marked
        value = low if low is not None else (high if high is not None else 0)
        if step:
            value = math.ceil(value / step) * step
            if high is not None and value > high:
                value = math.floor(high / step) * step
        if kind == "integer":
            value = math.ceil(value) if low is not None else math.floor(value)
        return int(value) if value == int(value) else value

    def _text(self, schema: JsonObject, path: str) -> str:
        leaf = len(self.marks) + 1
        core = f"placeholder-{self._number}-{leaf}"
        pattern, least, most = schema.get("pattern"), count(schema.get("minLength")), schema.get("maxLength")
        longest = count(most) if isinstance(most, int) else _TEXT_CHARS_MAX
        uuid = f"00000000-0000-4000-8000-{self._number:06x}{leaf:06x}"
        shaped = {
            "uri": f"https://placeholder.invalid/{core}",
            "url": f"https://placeholder.invalid/{core}",
            "email": f"{core}@placeholder.invalid",
            "hostname": f"{core}.invalid",
            "uuid": uuid,
        }
        value = shaped.get(str(schema.get("format")), core).ljust(least, "x")
        regex = regex_of(pattern)
        if leaf < _LEAVES_PER_CALL and len(value) <= longest and str(schema.get("format")) not in _FIXED:
            found = FOUND.search(value)
            if found is not None and (regex is None or regex.search(value) is not None):
                self.marks[found[0]] = Mark(value=value, path=path)
                return value
        fixed = _FIXED.get(str(schema.get("format")))
        return _plain_text(regex, least, longest, (fixed,) if fixed else ())


_FIXED: Final = {
    "date-time": "2000-01-01T00:00:00Z",
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "byte": "",
}


def _plain_text(regex: Any, least: int, longest: int, first: Iterable[str]) -> str:
    """A string of these bounds, without a mark of its origin."""
    tried = (*first, *_FIXED.values(), "placeholder", "#000000", "1.0.0", "/", "https://placeholder.invalid/", "en-US")
    lengths = range(max(least, 1), min(longest, least + 64, _TEXT_CHARS_MAX) + 1)
    repeated = (char * length for length in lengths for char in ("a", "A", "0"))
    for text in (*tried, *repeated):
        if least <= len(text) <= longest and (regex is None or regex.search(text) is not None):
            return text
    if regex is not None or least > _TEXT_CHARS_MAX:
        raise ImpossibleError
    return "x" * min(least, longest)
