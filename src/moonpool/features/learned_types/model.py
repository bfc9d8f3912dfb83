"""What calls that worked teach about a tool: the shape of its results, and arguments that it took. Pure.

A shape is a JSON Schema of types and nothing else: no value, no text, no bound. It is shown for tools that declare no
result type, as "seen, not declared". Shapes of several results are merged. An example is one call's arguments, cut
short.

SECURITY: member names of a result are the server's words, and they reach a model that reads the definition. A name that
does not look like a member's (too long, too many words, an address, a number, an id) turns its object into a dictionary
type; so do objects whose members differ from result to result. What is left is quoted by whoever renders it.
INVARIANT: `infer`, `merge` and `shorten` end for every JSON value; depth, members and nodes are bounded.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.core.json import JsonObject, JsonValue

DEPTH_MAX: Final = 6
MEMBERS_MAX: Final = 40
NODES_MAX: Final = 400
ITEMS_READ_MAX: Final = 20
SHAPE_CHARS_MAX: Final = 8_000
EXAMPLES_MAX: Final = 2
EXAMPLE_CHARS_MAX: Final = 300
TEXT_CHARS_MAX: Final = 40

_ALIKE_MIN: Final = 2  # so many members of one object shape are entries, not members
_NAME: Final = re.compile(r"[A-Za-z_$@][A-Za-z0-9_$-]{0,39}", re.ASCII)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.ASCII)
_NAME_WORDS_MAX: Final = 5
_LIKE_DATA: Final = re.compile(r"[0-9]{3}|(?=[a-f]*[0-9])[0-9a-f]{8}|-[0-9]|[0-9]-", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedType:
    """What is known of one definition of one tool."""

    results: int = 0  # how many went into `shape`
    shape: JsonObject | None = None
    examples: tuple[JsonObject, ...] = ()

    def with_result(self, data: JsonValue) -> LearnedType:
        """The lesson after one more result."""
        seen = infer(data)
        shape = bounded(seen if self.shape is None else merge(self.shape, seen))
        return LearnedType(results=self.results + 1, shape=shape, examples=self.examples)

    def with_example(self, arguments: JsonObject) -> LearnedType:
        """The lesson with one more example, if it shows members that the others do not."""
        short = shorten(arguments)
        known = {frozenset(example) for example in self.examples}
        if not short or len(self.examples) >= EXAMPLES_MAX or frozenset(short) in known:
            return self
        return LearnedType(results=self.results, shape=self.shape, examples=(*self.examples, short))

    def to_json(self) -> JsonObject:
        return {"results": self.results, "shape": self.shape, "examples": list(self.examples)}

    @classmethod
    def from_json(cls, stored: JsonValue) -> LearnedType:
        """Read what `to_json` wrote. Raises ValueError for another shape."""
        if not isinstance(stored, dict):
            raise ValueError("not a learned type")  # noqa: TRY004  one error for every wrong shape
        results, shape, examples = stored.get("results"), stored.get("shape"), stored.get("examples")
        if not isinstance(results, int) or not isinstance(shape, dict | None) or not isinstance(examples, list):
            raise ValueError("not a learned type")  # noqa: TRY004
        kept = tuple(example for example in examples[:EXAMPLES_MAX] if isinstance(example, dict))
        return cls(results=results, shape=shape, examples=kept)


def infer(value: JsonValue) -> JsonObject:
    """The shape of one value."""
    return _infer(value, 0, [NODES_MAX])


def merge(one: JsonObject, other: JsonObject, depth: int = 0) -> JsonObject:
    """The shape of values that have either shape."""
    if one == other or not other:
        return one
    if not one or depth > DEPTH_MAX:
        return other if not one else {}
    options: dict[str, JsonObject] = {}
    for option in (*_options(one), *_options(other)):
        kind = str(option.get("type"))
        options[kind] = _merge_same(options[kind], option, depth) if kind in options else option
    if "integer" in options and "number" in options:
        del options["integer"]
    kept: list[JsonValue] = [options[kind] for kind in sorted(options, key=lambda kind: (kind == "null", kind))]
    return options[next(iter(options))] if len(kept) == 1 else {"anyOf": kept}


def bounded(shape: JsonObject) -> JsonObject:
    """`shape`, or as many of its levels as fit."""
    for depth in range(DEPTH_MAX, -1, -1):
        cut = cut_at(shape, depth)
        if len(json.dumps(cut)) <= SHAPE_CHARS_MAX:
            return cut
    return {}


def cut_at(shape: JsonObject, depth: int) -> JsonObject:
    """`shape` with at most `depth` levels of members below it."""
    cut = dict(shape)
    if isinstance(options := cut.get("anyOf"), list):
        cut["anyOf"] = [cut_at(option, depth) for option in options if isinstance(option, dict)]
    for word in ("items", "additionalProperties"):
        if isinstance(inner := cut.get(word), dict):
            cut[word] = cut_at(inner, depth - (word != "items")) if depth > 0 else {}
    if isinstance(members := cut.get("properties"), dict):
        if depth <= 0:
            return {"type": "object", "additionalProperties": {}}
        cut["properties"] = {name: cut_at(one, depth - 1) for name, one in members.items() if isinstance(one, dict)}
    return cut


def shorten(arguments: JsonObject) -> JsonObject:
    """Arguments as an example: long texts and lists cut, what is too large left out."""
    short: JsonObject = {}
    room = EXAMPLE_CHARS_MAX
    for name, value in list(arguments.items())[:MEMBERS_MAX]:
        shown = _short(value, 0)
        room -= len(json.dumps(name)) + len(json.dumps(shown)) + 4
        if room < 0:
            break
        short[name] = shown
    return short


def _short(value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARS_MAX else value[: TEXT_CHARS_MAX - 1] + "…"
    if isinstance(value, list):
        return [_short(item, depth + 1) for item in value[:2]] if depth < 3 else []
    if isinstance(value, dict):
        return (
            {name[:TEXT_CHARS_MAX]: _short(one, depth + 1) for name, one in list(value.items())[:8]}
            if depth < 3
            else {}
        )
    return value


def _infer(value: JsonValue, depth: int, room: list[int]) -> JsonObject:
    room[0] -= 1
    match value:
        case None:
            return {"type": "null"}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            if depth >= DEPTH_MAX or room[0] <= 0:
                return {"type": "array"}
            items = merged(_infer(item, depth + 1, room) for item in value[:ITEMS_READ_MAX])
            return {"type": "array", "items": items} if items else {"type": "array"}
        case dict():
            return _infer_object(value, depth, room)


def _infer_object(value: JsonObject, depth: int, room: list[int]) -> JsonObject:
    if depth >= DEPTH_MAX or room[0] <= 0:
        return _dictionary({})
    named = len(value) <= MEMBERS_MAX and all(map(_is_member_name, value))
    members = {
        name: _infer(one, depth + 1, room) for name, one in list(value.items())[: None if named else ITEMS_READ_MAX]
    }
    if not named or _alike(members.values()):
        return _dictionary(merged(members.values()))
    return _object(members, required=frozenset(members))


def _merge_same(one: JsonObject, other: JsonObject, depth: int) -> JsonObject:
    """Merge two shapes of one type."""
    if one.get("type") == "array":
        items = merge(_inner(one, "items"), _inner(other, "items"), depth + 1)
        return {"type": "array", "items": items} if items else {"type": "array"}
    if one.get("type") != "object":
        return one
    left, right = _members(one), _members(other)
    if left is not None and right is not None:
        union = {**left, **right}
        shared = left.keys() & right.keys()
        if (left and right and 3 * len(shared) < len(union)) or len(union) > MEMBERS_MAX:
            return _dictionary(merged([*left.values(), *right.values()], depth + 1))
        for name in shared:
            union[name] = merge(left[name], right[name], depth + 1)
        return _object(union, required=_required(one) & _required(other))
    values = [_inner(each, "additionalProperties") for each in (one, other)]
    return _dictionary(merged([*values, *(left or {}).values(), *(right or {}).values()], depth + 1))


def merged(shapes: Iterable[JsonObject], depth: int = 0) -> JsonObject:
    """All of `shapes` as one."""
    whole: JsonObject = {}
    for shape in shapes:
        whole = merge(whole, shape, depth)
    return whole


def _alike(shapes: Iterable[JsonObject]) -> bool:
    """Whether members are entries of a dictionary: several objects with the same members."""
    names = [frozenset(_members(shape) or ()) for shape in shapes]
    return len(names) >= _ALIKE_MIN and bool(names[0]) and len(set(names)) == 1


def _is_member_name(name: str) -> bool:
    if not _NAME.fullmatch(name) or _LIKE_DATA.search(name):
        return False
    return len(_WORDS.findall(name)) <= _NAME_WORDS_MAX


def _object(members: Mapping[str, JsonObject], *, required: frozenset[str]) -> JsonObject:
    names: list[JsonValue] = [name for name in members if name in required]
    return {"type": "object", "properties": dict(members), "required": names}


def _dictionary(values: JsonObject) -> JsonObject:
    return {"type": "object", "additionalProperties": values}


def _members(shape: JsonObject) -> dict[str, JsonObject] | None:
    members = shape.get("properties")
    if not isinstance(members, dict):
        return None
    return {name: one for name, one in members.items() if isinstance(one, dict)}


def _required(shape: JsonObject) -> frozenset[str]:
    names = shape.get("required")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def _inner(shape: JsonObject, word: str) -> JsonObject:
    inner = shape.get(word)
    return inner if isinstance(inner, dict) else {}


def _options(shape: JsonObject) -> list[JsonObject]:
    options = shape.get("anyOf")
    return [option for option in options if isinstance(option, dict)] if isinstance(options, list) else [shape]
