"""JSON Schema -> IR. Reads draft-07 and 2020-12, trusts nothing, gives up nowhere.

Types only help whoever writes code: the broker validates arguments against the real schema. So what cannot be
expressed becomes `any` with a warning, never an exception (H-040), and an unreadable definition gives a wrapper that
takes any arguments.

INVARIANT: `read_tool` ends for every JSON value: depth, nodes, members and texts are bounded, and a `$ref` is followed
inside its document only.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from moonpool.core.naming import name_parameters
from moonpool.wrappers.ir import (
    Choice,
    Hints,
    ListOf,
    MapOf,
    Member,
    ObjectShape,
    Ref,
    Scalar,
    ToolShape,
    TupleOf,
    TypeExpr,
    Union,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import ToolDefinition

DEPTH_MAX: Final = 24
NODES_MAX: Final = 5_000
MEMBERS_MAX: Final = 400
OPTIONS_MAX: Final = 64
CHOICES_MAX: Final = 64
CHOICES_CHARS_MAX: Final = 4_096
TYPE_PARTS_MAX: Final = 200
DESCRIPTION_CHARS_MAX: Final = 16_384
MEMBER_DESCRIPTION_CHARS_MAX: Final = 2_048
DEFAULT_CHARS_MAX: Final = 512
NOTE_CHARS_MAX: Final = 160
WARNINGS_MAX: Final = 20

_DIALECTS: Final = ("json-schema.org/draft-07/schema", "json-schema.org/draft/2020-12/schema", "draft/2019-09/schema")
_TYPES: Final = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.ANY}
_JSON_INTEGER_LIMIT: Final = 2**53 - 1  # generators write it where they mean "no bound"
_BOUNDS: Final = (
    ("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"),
    ("multipleOf", "multiple of"), ("minLength", "length >="), ("maxLength", "length <="), ("minItems", "items >="),
    ("maxItems", "items <="), ("minProperties", "members >="), ("maxProperties", "members <="),
)  # fmt: skip


def read_tool(tool: ToolDefinition) -> ToolShape:
    """Read one definition; what is wrong with it stands in `warnings`."""
    warnings: list[str] = []
    arguments = _Reader(tool.input_schema, "input", warnings)
    root = arguments.read_root()
    results = _Reader(tool.output_schema, "output", warnings)
    output = None if tool.output_schema is None else results.read(results.root, "", "Result")
    return ToolShape(
        server_id=tool.server_id,
        name=tool.name,
        title=_clip(tool.title, NOTE_CHARS_MAX),
        description=_clip(tool.description, DESCRIPTION_CHARS_MAX),
        input=root,
        output=output,
        objects={**arguments.objects, **results.objects},
        hints=_read_hints(tool.annotations),
        warnings=tuple(warnings),
    )


def untyped_tool(tool: ToolDefinition, reason: str) -> ToolShape:
    """The wrapper of last resort: any arguments, any result."""
    root = ObjectShape(key="input#", hint="Input", members=(), extras=Scalar.ANY)
    description = _clip(tool.description, DESCRIPTION_CHARS_MAX)
    return ToolShape(
        server_id=tool.server_id, name=tool.name, title="", description=description, input=root, output=None,
        objects={}, warnings=(reason,),
    )  # fmt: skip


def union_of(options: Iterable[TypeExpr]) -> TypeExpr:
    """The union without duplicates, nested unions or a needless wrapping; null comes last, choices are merged."""
    flat: dict[TypeExpr, None] = {}
    choices: dict[str, None] = {}
    for option in options:
        for part in option.options if isinstance(option, Union) else (option,):
            if isinstance(part, Choice):
                choices.update(dict.fromkeys(part.values))
            else:
                flat[part] = None
    if Scalar.ANY in flat:
        return Scalar.ANY
    if len(choices) > CHOICES_MAX or sum(map(len, choices)) > CHOICES_CHARS_MAX:
        flat = dict.fromkeys(_type_of(json.loads(text)) for text in choices) | flat
        choices = {}
    parts = [Choice(tuple(choices))] if choices else []
    ordered: list[TypeExpr] = [*parts, *(part for part in flat if part is not Scalar.NULL)]
    if Scalar.NULL in flat:
        ordered.append(Scalar.NULL)
    if not ordered:
        return Scalar.ANY
    return ordered[0] if len(ordered) == 1 else Union(tuple(ordered))


@dataclass(slots=True)
class _Reader:
    """Reads one schema document."""

    root: JsonValue
    document: str  # "input" or "output": keeps the keys of both apart
    warnings: list[str]
    objects: dict[str, ObjectShape] = field(default_factory=dict[str, ObjectShape])
    _by_content: dict[object, Ref] = field(default_factory=dict[object, Ref])
    _open: set[str] = field(default_factory=lambda: {"#"})
    _done: dict[str, TypeExpr] = field(default_factory=dict[str, TypeExpr])
    _nodes: int = 0

    def read_root(self) -> ObjectShape:
        """The arguments as an object, whatever the schema is."""
        dialect = self.root.get("$schema") if isinstance(self.root, dict) else None
        if isinstance(dialect, str) and not dialect.rstrip("#").endswith(_DIALECTS):
            self._warn(f"unknown $schema {_clip(dialect, 80)!r}, read as 2020-12")
        schema = self._follow(self.root)
        if not isinstance(schema, dict):
            if schema is not True:
                self._warn("inputSchema is not an object schema")
            schema = {}
        elif schema.get("type", "object") != "object" and "object" not in _strings(schema.get("type")):
            self._warn("inputSchema does not describe an object")
        return self._object_shape(schema, "", "Input", 0)

    def read(self, schema: JsonValue, path: str, hint: str, depth: int = 0) -> TypeExpr:
        """The type that `schema`, found at `path`, describes."""
        self._nodes += 1
        if depth > DEPTH_MAX or self._nodes > NODES_MAX:
            self._warn("schema is too deep or too large; the rest is untyped")
            return Scalar.ANY
        if not isinstance(schema, dict):
            if not isinstance(schema, bool):
                self._warn(f"no schema at {_clip(path, 80) or 'the root'}")
            return Scalar.ANY
        reference = schema.get("$ref", schema.get("$dynamicRef"))
        if reference is not None:
            return self._read_reference(reference, hint, depth)
        expression = self._read_plain(schema, path, hint, depth)
        if schema.get("nullable") is True:
            expression = union_of([expression, Scalar.NULL])
        if _has_more_parts(expression, TYPE_PARTS_MAX):  # shared references multiply where they are written out
            self._warn("a type is too large to write down; untyped")
            return Scalar.ANY
        return expression

    def _read_plain(self, schema: JsonObject, path: str, hint: str, depth: int) -> TypeExpr:
        if "const" in schema:
            return _choice([schema["const"]])
        if isinstance(values := schema.get("enum"), list):
            return _choice(values)
        if isinstance(schema.get("properties"), dict) or self._merges(schema):
            shape = self._object_shape(schema, path, hint, depth)
            null = [Scalar.NULL] if "null" in _strings(schema.get("type")) else []
            return union_of([self._keep(shape), *null])
        for word in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(word), list) and options:
                return self._read_options(options, f"{path}/{word}", hint, depth)
        if isinstance(parts := schema.get("allOf"), list) and parts:
            read = [
                self.read(part, f"{path}/allOf/{at}", hint, depth + 1) for at, part in enumerate(parts[:OPTIONS_MAX])
            ]
            return next((part for part in read if part is not Scalar.ANY), Scalar.ANY)
        kinds = _strings(schema.get("type")) or list(_guess_type(schema))
        return union_of(self._read_kind(kind, schema, path, hint, depth) for kind in kinds)

    def _read_options(self, options: list[JsonValue], path: str, hint: str, depth: int) -> TypeExpr:
        if len(options) > OPTIONS_MAX:
            self._warn(f"more than {OPTIONS_MAX} alternatives; untyped")
            return Scalar.ANY
        return union_of(
            self.read(option, f"{path}/{at}", _title(option, hint), depth + 1) for at, option in enumerate(options)
        )

    def _read_kind(self, kind: str, schema: JsonObject, path: str, hint: str, depth: int) -> TypeExpr:
        if kind == "array":
            return self._read_array(schema, path, hint, depth)
        if kind == "object":
            return self._read_map(schema, path, hint, depth)
        if kind not in _TYPES:
            self._warn(f"unknown type {_clip(kind, 40)!r}")
        return _TYPES.get(kind, Scalar.ANY)

    def _read_array(self, schema: JsonObject, path: str, hint: str, depth: int) -> TypeExpr:
        items, prefix = schema.get("items", True), schema.get("prefixItems")
        if isinstance(items, list):  # draft-07 spells a tuple so
            prefix, items = items, schema.get("additionalItems", True)
        rest = self.read(items, f"{path}/items", _singular(hint), depth + 1) if items is not False else None
        if not isinstance(prefix, list) or not prefix:
            return ListOf(rest or Scalar.ANY)
        places = tuple(
            self.read(item, f"{path}/prefixItems/{at}", f"{hint} {at + 1}", depth + 1)
            for at, item in enumerate(prefix[:OPTIONS_MAX])
        )
        return TupleOf(places, rest)

    def _read_map(self, schema: JsonObject, path: str, hint: str, depth: int) -> TypeExpr:
        values: list[JsonValue] = []
        if isinstance(patterns := schema.get("patternProperties"), dict):
            values = list(patterns.values())[:OPTIONS_MAX]
        if isinstance(extra := schema.get("additionalProperties"), dict):
            values.append(extra)
        return MapOf(
            union_of(self.read(v, f"{path}/values/{at}", _singular(hint), depth + 1) for at, v in enumerate(values))
        )

    def _read_reference(self, reference: JsonValue, hint: str, depth: int) -> TypeExpr:
        target = self._find(reference)
        if target is None:
            return Scalar.ANY
        pointer = str(reference)
        if pointer in self._done:
            return self._done[pointer]
        if pointer in self._open:
            return self._recursion(pointer, target)
        self._open.add(pointer)
        name = pointer.rpartition("/")[2]
        expression = self.read(target, pointer[1:], name or hint, depth + 1)
        self._open.discard(pointer)
        self._done[pointer] = expression
        return expression

    def _recursion(self, pointer: str, target: JsonValue) -> TypeExpr:
        """A reference to something still being read: a named object, or nothing that a name could stand for."""
        if isinstance(target, dict) and (target.get("properties") or self._merges(target)):
            return Ref(f"{self.document}#{pointer[1:]}")
        return Scalar.ANY

    def _find(self, reference: JsonValue) -> JsonValue:
        """What a reference points at; None, with a warning, when it leaves the document or hits nothing."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            self._warn(f"$ref {_clip(str(reference), 80)!r} is not followed: it does not point into this schema")
            return None
        node: JsonValue = self.root
        for part in reference.split("/")[1:]:
            step = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(step)
            elif isinstance(node, list) and step.isascii() and step.isdigit() and int(step[:9]) < len(node):
                node = node[int(step[:9])]
            else:
                node = None
        if not isinstance(node, dict | bool):
            self._warn(f"$ref {_clip(reference, 80)!r} points at nothing")
            return None
        return node

    def _follow(self, schema: JsonValue) -> JsonValue:
        """The schema behind a chain of references, with the keywords beside them."""
        for _ in range(DEPTH_MAX):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            target = self._find(schema["$ref"])
            beside = {word: value for word, value in schema.items() if word != "$ref"}
            schema = {**target, **beside} if isinstance(target, dict) else beside
        return {}

    def _merges(self, schema: JsonObject) -> bool:
        """Whether `allOf` puts one object together."""
        parts = schema.get("allOf")
        return isinstance(parts, list) and bool(parts) and all(self._is_object(part) for part in parts[:OPTIONS_MAX])

    def _is_object(self, part: JsonValue) -> bool:
        seen = self._follow(part)
        return isinstance(seen, dict) and ("properties" in seen or set(seen) <= {"required", "description", "title"})

    def _object_shape(self, schema: JsonObject, path: str, hint: str, depth: int) -> ObjectShape:
        found: dict[str, tuple[str, JsonValue]] = {}
        required: set[str] = set()
        for certain, part_path, part in self._object_parts(schema, path, 0):
            properties = part.get("properties")
            for name, value in properties.items() if isinstance(properties, dict) else ():
                found.setdefault(name, (f"{part_path}/properties/{name}", value))
            required.update(_strings(part.get("required")) if certain else ())
        if len(found) > MEMBERS_MAX:
            self._warn(f"more than {MEMBERS_MAX} members; the others are accepted, but not listed")
        kept = dict(list(found.items())[:MEMBERS_MAX])
        identifiers = name_parameters(kept)
        extra = schema.get("additionalProperties", bool(found) or not isinstance(schema.get("properties"), dict))
        extras = self.read(extra, f"{path}/additionalProperties", hint, depth + 1) if extra is not False else None
        return ObjectShape(
            key=f"{self.document}#{path}",
            hint=hint,
            members=tuple(
                self._member(name, identifiers[name], name in required, value, at, depth)
                for name, (at, value) in kept.items()
            ),
            extras=extras,
            description=_text(schema.get("description")),
        )

    def _object_parts(self, schema: JsonObject, path: str, depth: int) -> Iterator[tuple[bool, str, JsonObject]]:
        """The schemas that name members of one object: itself, all of `allOf`, and what anyOf and oneOf may add."""
        self._nodes += 1
        yield True, path, schema
        for word in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(word)
            for at, part in enumerate(parts[:OPTIONS_MAX] if isinstance(parts, list) and depth < 4 else ()):
                if self._nodes <= NODES_MAX and isinstance(followed := self._follow(part), dict):
                    for certain, where, each in self._object_parts(followed, f"{path}/{word}/{at}", depth + 1):
                        yield certain and word == "allOf", where, each

    def _member(self, name: str, identifier: str, required: bool, schema: JsonValue, path: str, depth: int) -> Member:
        seen = self._follow(schema)
        words = seen if isinstance(seen, dict) else {}
        return Member(
            wire_name=name,
            identifier=identifier,
            type=self.read(schema, path, name, depth + 1),
            required=required,
            default=_json_text(words["default"], DEFAULT_CHARS_MAX) if "default" in words else None,
            description=_text(words.get("description")),
            notes=tuple(dict.fromkeys(_notes(words))),
        )

    def _keep(self, shape: ObjectShape) -> TypeExpr:
        """File a named object; one that says the same as an earlier one is that one. No members: a dictionary."""
        if not shape.members:
            return MapOf(shape.extras or Scalar.ANY)
        content = (shape.members, shape.extras)
        if shape.key[len(self.document) :] not in self._open and (known := self._by_content.get(content)):
            return known
        self.objects[shape.key] = shape
        return self._by_content.setdefault(content, Ref(shape.key))

    def _warn(self, text: str) -> None:
        warning = f"{self.document}: {text}"
        if len(self.warnings) < WARNINGS_MAX and warning not in self.warnings:
            self.warnings.append(warning)


def _choice(values: list[JsonValue]) -> TypeExpr:
    """A choice of scalars; other values, and more of them than help, are told by type only."""
    if not values:
        return Scalar.ANY
    if len(values) > CHOICES_MAX or any(isinstance(value, float | list | dict) for value in values):
        return union_of(_type_of(value) for value in values)
    nulls = [Scalar.NULL] if None in values else []
    texts = [_json_text(value, DEFAULT_CHARS_MAX) for value in values if value is not None]
    if None in texts:
        return union_of(_type_of(value) for value in values)
    choice = Choice(tuple(dict.fromkeys(text for text in texts if text is not None)))
    return union_of([choice, *nulls] if choice.values else nulls)


def _type_of(value: JsonValue) -> TypeExpr:
    match value:
        case None:
            return Scalar.NULL
        case bool():
            return Scalar.BOOLEAN
        case int():
            return Scalar.INTEGER
        case float():
            return Scalar.NUMBER
        case str():
            return Scalar.STRING
        case list():
            return ListOf(Scalar.ANY)
        case dict():
            return MapOf(Scalar.ANY)


def _has_more_parts(expression: TypeExpr, limit: int) -> bool:
    """Whether a type, written out, has more than `limit` parts; looks at no more of them than that."""
    waiting, seen = [expression], 0
    while waiting and seen <= limit:
        part = waiting.pop()
        seen += 1
        if isinstance(part, ListOf):
            waiting.append(part.item)
        elif isinstance(part, MapOf):
            waiting.append(part.value)
        elif isinstance(part, Union):
            waiting.extend(part.options)
        elif isinstance(part, TupleOf):
            waiting.extend([*part.items, *([part.rest] if part.rest else [])])
    return seen > limit


def _guess_type(schema: JsonObject) -> Iterator[str]:
    """What a schema without `type` speaks of."""
    if schema.keys() & {"items", "prefixItems", "minItems", "maxItems"}:
        yield "array"
    if schema.keys() & {"additionalProperties", "patternProperties"}:
        yield "object"
    if schema.keys() & {"minLength", "maxLength", "pattern"}:
        yield "string"


def _notes(schema: JsonObject) -> Iterator[str]:
    """A member's constraints in few words."""
    for option in (*_parts(schema, "anyOf"), *_parts(schema, "oneOf")):  # `int | None` keeps its bounds inside
        if "properties" not in option:
            yield from _notes({word: value for word, value in option.items() if word not in {"anyOf", "oneOf"}})
    for word, sign in _BOUNDS:
        bound = schema.get(word)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and _meant(word, bound):
            yield f"{sign} {bound}"
    for word in ("pattern", "format"):
        if isinstance(text := schema.get(word), str) and 0 < len(text) <= NOTE_CHARS_MAX:
            yield f"{word} {text}"
    if isinstance(items := schema.get("items"), dict) and isinstance(text := items.get("format"), str):
        yield f"items of format {_clip(text, NOTE_CHARS_MAX)}"


def _parts(schema: JsonObject, word: str) -> list[JsonObject]:
    options = schema.get(word)
    return [option for option in options[:4] if isinstance(option, dict)] if isinstance(options, list) else []


def _meant(word: str, bound: float) -> bool:
    return (
        math.isfinite(bound)
        and abs(bound) != _JSON_INTEGER_LIMIT
        and not (bound == 0 and word.startswith("min") and word != "minimum")
    )


def _read_hints(annotations: JsonObject) -> Hints:
    def flag(name: str) -> bool | None:
        value = annotations.get(name)
        return value if isinstance(value, bool) else None

    return Hints(
        read_only=flag("readOnlyHint"),
        destructive=flag("destructiveHint"),
        idempotent=flag("idempotentHint"),
        open_world=flag("openWorldHint"),
    )


def _json_text(value: JsonValue, chars_max: int) -> str | None:
    """JSON in ASCII, or None when it is too long or no JSON (NaN)."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return text if len(text) <= chars_max else None


def _strings(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _text(value: JsonValue) -> str:
    return _clip(value, MEMBER_DESCRIPTION_CHARS_MAX) if isinstance(value, str) else ""


def _title(schema: JsonValue, fallback: str) -> str:
    title = schema.get("title") if isinstance(schema, dict) else None
    return title if isinstance(title, str) and 0 < len(title) <= 60 else fallback


def _singular(hint: str) -> str:
    """`entities` -> `entity`, `rows` -> `row`: a better name for an item's type."""
    if hint.endswith("ies") and len(hint) > 4:
        return hint[:-3] + "y"
    return hint[:-1] if hint.endswith("s") and not hint.endswith(("ss", "us", "is")) and len(hint) > 3 else hint


def _clip(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
