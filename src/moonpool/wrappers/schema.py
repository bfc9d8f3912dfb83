"""JSON Schema -> IR. Reads draft-07 and 2020-12, trusts nothing, never fails.

Types only help authors of code: the broker validates arguments against the real schema. So what cannot be expressed
becomes `any` with a warning, never an exception (H-040), and an unreadable definition gives a wrapper that takes any
arguments.

INVARIANT: `read_tool` ends for every JSON value: depth, nodes, members and strings are bounded, and a `$ref` is
followed inside its document only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.naming import name_parameters
from moonpool.wrappers.ir import (
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
)
from moonpool.wrappers.leaf_schemas import (
    DEFAULT_CHARS_MAX,
    NOTE_CHARS_MAX,
    choice_of,
    clip,
    guess_types,
    has_more_parts,
    json_text,
    member_text,
    notes_of,
    singular,
    strings,
    title_of,
    union_of,
)
from moonpool.wrappers.references import find, follow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import ToolDefinition

DEPTH_MAX: Final = 24
NODES_MAX: Final = 5_000
MEMBERS_MAX: Final = 400
OPTIONS_MAX: Final = 64
TYPE_PARTS_MAX: Final = 200
DESCRIPTION_CHARS_MAX: Final = 16_384
WARNINGS_MAX: Final = 20

_DIALECTS: Final = ("json-schema.org/draft-07/schema", "json-schema.org/draft/2020-12/schema", "draft/2019-09/schema")
_TYPES: Final = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.ANY}


def read_tool(tool: ToolDefinition) -> ToolShape:
    """Read one definition; problems are in `warnings`."""
    warnings: list[str] = []
    arguments = _Reader(tool.input_schema, "input", warnings)
    root = arguments.read_root()
    results = _Reader(tool.output_schema, "output", warnings)
    output = None if tool.output_schema is None else results.read(results.root, "", "Result")
    return ToolShape(
        server_id=tool.server_id,
        name=tool.name,
        title=clip(tool.title, NOTE_CHARS_MAX),
        description=clip(tool.description, DESCRIPTION_CHARS_MAX),
        input=root,
        output=output,
        objects={**arguments.objects, **results.objects},
        hints=_read_hints(tool.annotations),
        warnings=tuple(warnings),
    )


def untyped_tool(tool: ToolDefinition, reason: str) -> ToolShape:
    """The wrapper of last resort: any arguments, any result."""
    root = ObjectShape(key="input#", hint="Input", members=(), extras=Scalar.ANY)
    description = clip(tool.description, DESCRIPTION_CHARS_MAX)
    return ToolShape(
        server_id=tool.server_id, name=tool.name, title="", description=description, input=root, output=None,
        objects={}, warnings=(reason,),
    )  # fmt: skip


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
        """The arguments as an object, for any schema."""
        dialect = self.root.get("$schema") if isinstance(self.root, dict) else None
        if isinstance(dialect, str) and not dialect.rstrip("#").endswith(_DIALECTS):
            self._warn(f"unknown $schema {clip(dialect, 80)!r}, read as 2020-12")
        schema = self._follow(self.root)
        if not isinstance(schema, dict):
            if schema is not True:
                self._warn("inputSchema is not an object schema")
            schema = {}
        elif schema.get("type", "object") != "object" and "object" not in strings(schema.get("type")):
            self._warn("inputSchema does not describe an object")
        return self._object_shape(schema, "", "Input", 0)

    def read(self, schema: JsonValue, path: str, hint: str, depth: int = 0) -> TypeExpr:
        """The type described by `schema` at `path`."""
        self._nodes += 1
        if depth > DEPTH_MAX or self._nodes > NODES_MAX:
            self._warn("schema is too deep or too large; the rest is untyped")
            return Scalar.ANY
        if not isinstance(schema, dict):
            if not isinstance(schema, bool):
                self._warn(f"no schema at {clip(path, 80) or 'the root'}")
            return Scalar.ANY
        reference = schema.get("$ref", schema.get("$dynamicRef"))
        if reference is not None:
            return self._read_reference(reference, hint, depth)
        expression = self._read_plain(schema, path, hint, depth)
        if schema.get("nullable") is True:
            expression = union_of([expression, Scalar.NULL])
        if has_more_parts(expression, TYPE_PARTS_MAX):  # shared references multiply when written out
            self._warn("a type is too large to write down; untyped")
            return Scalar.ANY
        return expression

    def _read_plain(self, schema: JsonObject, path: str, hint: str, depth: int) -> TypeExpr:
        if "const" in schema:
            return choice_of([schema["const"]])
        if isinstance(values := schema.get("enum"), list):
            return choice_of(values)
        if isinstance(schema.get("properties"), dict) or self._merges(schema):
            shape = self._object_shape(schema, path, hint, depth)
            null = [Scalar.NULL] if "null" in strings(schema.get("type")) else []
            return union_of([self._keep(shape), *null])
        for word in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(word), list) and options:
                return self._read_options(options, f"{path}/{word}", hint, depth)
        if isinstance(parts := schema.get("allOf"), list) and parts:
            read = [
                self.read(part, f"{path}/allOf/{at}", hint, depth + 1) for at, part in enumerate(parts[:OPTIONS_MAX])
            ]
            return next((part for part in read if part is not Scalar.ANY), Scalar.ANY)
        kinds = strings(schema.get("type")) or list(guess_types(schema))
        return union_of(self._read_kind(kind, schema, path, hint, depth) for kind in kinds)

    def _read_options(self, options: list[JsonValue], path: str, hint: str, depth: int) -> TypeExpr:
        if len(options) > OPTIONS_MAX:
            self._warn(f"more than {OPTIONS_MAX} alternatives; untyped")
            return Scalar.ANY
        return union_of(
            self.read(option, f"{path}/{at}", title_of(option, hint), depth + 1) for at, option in enumerate(options)
        )

    def _read_kind(self, kind: str, schema: JsonObject, path: str, hint: str, depth: int) -> TypeExpr:
        if kind == "array":
            return self._read_array(schema, path, hint, depth)
        if kind == "object":
            return self._read_map(schema, path, hint, depth)
        if kind not in _TYPES:
            self._warn(f"unknown type {clip(kind, 40)!r}")
        return _TYPES.get(kind, Scalar.ANY)

    def _read_array(self, schema: JsonObject, path: str, hint: str, depth: int) -> TypeExpr:
        items, prefix = schema.get("items", True), schema.get("prefixItems")
        if isinstance(items, list):  # a tuple in draft-07
            prefix, items = items, schema.get("additionalItems", True)
        rest = self.read(items, f"{path}/items", singular(hint), depth + 1) if items is not False else None
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
            union_of(self.read(v, f"{path}/values/{at}", singular(hint), depth + 1) for at, v in enumerate(values))
        )

    def _read_reference(self, reference: JsonValue, hint: str, depth: int) -> TypeExpr:
        target = find(self.root, reference, self._warn)
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
        """A reference to a schema that is still being read: a named object, or a type that cannot be named."""
        if isinstance(target, dict) and (target.get("properties") or self._merges(target)):
            return Ref(f"{self.document}#{pointer[1:]}")
        return Scalar.ANY

    def _follow(self, schema: JsonValue) -> JsonValue:
        return follow(self.root, schema, self._warn)

    def _merges(self, schema: JsonObject) -> bool:
        """Whether `allOf` combines parts of one object."""
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
                found.setdefault(name, (f"{part_path}/properties/{_pointer_part(name)}", value))
            required.update(strings(part.get("required")) if certain else ())
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
            asks_for_extras=extras is not None and "additionalProperties" in schema,
            description=member_text(schema.get("description")),
        )

    def _object_parts(self, schema: JsonObject, path: str, depth: int) -> Iterator[tuple[bool, str, JsonObject]]:
        """The schemas that declare members of one object: itself, all of `allOf`, and, as optional, those in anyOf and
        oneOf.
        """
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
            default=json_text(words["default"], DEFAULT_CHARS_MAX) if "default" in words else None,
            description=member_text(words.get("description")),
            notes=tuple(dict.fromkeys(notes_of(words))),
        )

    def _keep(self, shape: ObjectShape) -> TypeExpr:
        """Register a named object, reusing an equal earlier one. No members: a dictionary."""
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


def _pointer_part(name: str) -> str:
    """Escape a name for a JSON Pointer; keys of objects are pointers, so they are unique."""
    return name.replace("~", "~0").replace("/", "~1")


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
