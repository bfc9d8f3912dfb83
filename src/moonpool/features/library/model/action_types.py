"""Annotations of an action's code as text and as JSON Schema, and the classes that they refer to. Pure.

Annotations are read as they are written: names, attributes, subscripts, unions, literals. Anything else could be code,
and is `Any`. Classes of the module itself (dataclasses, TypedDicts, models, enums) are shown with their fields; types
from elsewhere are shown by name.

SECURITY: bounded: depth, number of classes and of fields. No expression that could be a call is ever shown.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.json import JsonObject, JsonValue

DEPTH_MAX: Final = 6
CLASSES_MAX: Final = 50
FIELDS_MAX: Final = 100
ENUM_MAX: Final = 100
SCHEMA_CHARS_MAX: Final = 64 * 1024
"""About what the schemas of one module come to; types beyond that are not described."""
_SCHEMA_CHARS: Final = 16  # that a schema counts beside its texts
_TEXT_CHARS_MAX: Final = 2_000
_INT_BITS_MAX: Final = 63  # what every reader of JSON takes; one of thousands of digits cannot even be printed
_SIMPLE: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "None": "null",
    "bytes": "string",
    "dict": "object",
    "Mapping": "object",
    "list": "array",
    "Sequence": "array",
    "Iterable": "array",
    "tuple": "array",
    "set": "array",
    "frozenset": "array",
}
_WRAPPING: Final = frozenset({"Annotated", "Final", "ClassVar", "Required", "NotRequired", "ReadOnly"})
_ENUMS: Final = frozenset({"Enum", "StrEnum", "IntEnum"})


def is_shown(value: object) -> bool:
    """Whether a constant can be written into source and JSON: neither endless nor huge, and text that is Unicode."""
    match value:
        case str():
            return len(value) <= _TEXT_CHARS_MAX and not any("\ud800" <= char <= "\udfff" for char in value)
        case bytes():
            return len(value) <= _TEXT_CHARS_MAX
        case int():
            return value.bit_length() <= _INT_BITS_MAX
        case float():
            return math.isfinite(value)
        case _:
            return value is None or value is Ellipsis


def printable(text: str) -> str:
    """`text` in one line; what does not print is a space."""
    return "".join(char if char.isprintable() else " " for char in text)


def is_literal(node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is a literal and nothing else."""
    match node:
        case ast.Constant(value=value):
            return is_shown(value)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() as value)):
            return is_shown(value)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return depth < DEPTH_MAX and len(items) <= ENUM_MAX and all(is_literal(one, depth + 1) for one in items)
        case ast.Dict(keys=keys, values=values):
            parts = [*keys, *values]
            return (
                depth < DEPTH_MAX
                and len(parts) <= 2 * ENUM_MAX
                and all(one is not None and is_literal(one, depth + 1) for one in parts)
            )
        case _:
            return False


class Types:
    """The types of one module. `text` notes which classes it came across; `definitions` gives those."""

    def __init__(self, module: ast.Module) -> None:
        self._classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
        self._aliases = dict(_aliases(module))
        self._wanted: dict[str, None] = {}
        self._left = SCHEMA_CHARS_MAX

    def text(self, node: ast.expr | None) -> str:
        """The annotation as code writes it; `Any` for what is none."""
        if node is None:
            return "Any"
        node = _unquoted(node)
        if not _is_type(node):
            return "Any"
        for one in ast.walk(node):
            name = one.id if isinstance(one, ast.Name) else _quoted_name(one)
            if name in self._classes or name in self._aliases:
                self._wanted.setdefault(name)
        text = ast.unparse(node)
        return text if len(text) <= _TEXT_CHARS_MAX else "Any"

    def definitions(self) -> list[str]:
        """The classes and aliases that texts so far refer to, and those that these refer to, as source."""
        shown: dict[str, str] = {}
        while len(shown) < CLASSES_MAX and (name := next((one for one in self._wanted if one not in shown), None)):
            if name in self._classes:
                shown[name] = self._class_text(self._classes[name])
            else:
                shown[name] = f"{name} = {self.text(self._aliases[name])}"
        return [shown[name] for name in shown]

    def note(self, node: ast.expr | None) -> str:
        """What `Annotated[..., "text"]` says."""
        match node:
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[_, *notes])) if _name(value) == "Annotated":
                texts = [one.value for one in notes if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                return printable(texts[0])[:_TEXT_CHARS_MAX] if texts else ""
            case _:
                return ""

    def schema(self, node: ast.expr | None, depth: int = 0) -> JsonObject:
        """JSON Schema of an annotation; {} for what is not known.

        SECURITY: bounded in all, not in depth only: classes that refer to each other a hundred times over would be
        described 100 ** DEPTH_MAX times.
        """
        if node is None or depth > DEPTH_MAX or not self._spend():
            return {}
        match _unquoted(node):
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return _union([self.schema(left, depth + 1), self.schema(right, depth + 1)])
            case ast.Subscript(value=value, slice=inside):
                return self._generic(_name(value), inside, depth)
            case ast.Name() | ast.Attribute() as named:
                return self._named(_name(named), depth)
            case _:
                return {}

    def _spend(self, *texts: object) -> bool:
        """Whether there is room for a schema with these texts."""
        self._left -= _SCHEMA_CHARS + sum(_SCHEMA_CHARS + len(str(text)) for text in texts)
        return self._left > 0

    def _named(self, name: str, depth: int) -> JsonObject:
        if name in self._classes:
            return self._class_schema(self._classes[name], depth)
        if name in self._aliases:
            return self.schema(self._aliases[name], depth + 1)
        if name in {"datetime", "date", "time"}:
            return {"type": "string", "format": "date-time" if name == "datetime" else name}
        return {"type": _SIMPLE[name]} if name in _SIMPLE else {}

    def _generic(self, name: str, inside: ast.expr, depth: int) -> JsonObject:
        items = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if name in _WRAPPING and items:
            return self.schema(items[0], depth + 1)
        if name == "Optional":
            return _union([self.schema(inside, depth + 1), {"type": "null"}])
        if name == "Union":
            return _union([self.schema(one, depth + 1) for one in items[:ENUM_MAX]])
        if name == "Literal":
            values = [one.value for one in items[:ENUM_MAX] if isinstance(one, ast.Constant)]
            shown = [one for one in values if isinstance(one, str | int | bool | None) and is_shown(one)]
            return {"enum": [*shown]} if shown and self._spend(*shown) else {}
        kind = _SIMPLE.get(name)
        if kind == "object" and len(items) == 2:
            return {"type": "object", "additionalProperties": self.schema(items[1], depth + 1)}
        if kind == "array" and items:
            return {"type": "array", "items": self.schema(items[0], depth + 1)} if name != "tuple" else {"type": kind}
        return {}

    def _class_schema(self, node: ast.ClassDef, depth: int) -> JsonObject:
        if _is_enum(node):
            values = [value for _, value in _enum_members(node)]
            return {"enum": [*values]} if values and self._spend(*values) else {}
        fields = _fields(node)
        if depth >= DEPTH_MAX or not self._spend(*(ast.unparse(field.target) for field in fields)):
            return {"type": "object"}
        properties: JsonObject = {}
        required: list[JsonValue] = []
        for field in fields:
            assert isinstance(field.target, ast.Name)
            properties[field.target.id] = self.schema(field.annotation, depth + 1)
            optional = isinstance(field.annotation, ast.Subscript) and _name(field.annotation.value) == "NotRequired"
            if field.value is None and not optional:
                required.append(field.target.id)
        schema: JsonObject = {"type": "object", "properties": properties}
        return {**schema, "required": required} if required else schema

    def _class_text(self, node: ast.ClassDef) -> str:
        """A class with its fields; no method, no decorator but `dataclass`."""
        bases = [ast.unparse(one) for one in node.bases if _is_type(one)]
        head = f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"
        decorators = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
        start = ["@dataclass"] if any(_name(one) == "dataclass" for one in decorators) else []
        body = [f"    {name} = {value!r}" for name, value in _enum_members(node)] if _is_enum(node) else []
        for field in _fields(node):
            assert isinstance(field.target, ast.Name)
            shown = "" if field.value is None else ast.unparse(field.value) if is_literal(field.value) else "..."
            body.append(f"    {field.target.id}: {self.text(field.annotation)}{shown and f' = {shown}'}")
        return "\n".join([*start, head, *(body or ["    ..."])])


def _aliases(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names that stand for types: `Name = Literal["a"]`, `Name: TypeAlias = ...`, `type Name = ...`."""
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_type(value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _is_type(value):
                yield name, value
            case _ if type(node).__name__ == "TypeAlias":  # `type X = ...`, which Python 3.11 does not know
                yield node.name.id, node.value  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
            case _:
                continue


def _is_type(node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is made of what types are made of; calls, lambdas and arithmetic are not."""
    if depth > 2 * DEPTH_MAX:
        return False
    match node:
        case ast.Name():
            return True
        case ast.Constant(value=value):
            return not isinstance(value, float | bytes) and is_shown(value)
        case ast.Attribute(value=value):
            return _is_type(value, depth + 1)
        case ast.Subscript(value=value, slice=inside):
            return _is_type(value, depth + 1) and _is_type(inside, depth + 1)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(_is_type(one, depth + 1) for one in items)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _is_type(left, depth + 1) and _is_type(right, depth + 1)
        case _:
            return False


def _unquoted(node: ast.expr) -> ast.expr:
    """`"Commit"` -> `Commit`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= _TEXT_CHARS_MAX:
        try:
            return ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return node
    return node


def _quoted_name(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _union(schemas: list[JsonObject]) -> JsonObject:
    flat = [one for schema in schemas for one in _branches(schema)]
    return {} if any(not one for one in flat) else {"anyOf": [*flat]}


def _branches(schema: JsonObject) -> list[JsonObject]:
    branches = schema.get("anyOf")
    return [one for one in branches if isinstance(one, dict)] if isinstance(branches, list) else [schema]


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    found = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    return [one for one in found if isinstance(one.target, ast.Name) and not one.target.id.startswith("_")][:FIELDS_MAX]


def _is_enum(node: ast.ClassDef) -> bool:
    return any(_name(one) in _ENUMS for one in node.bases)


def _enum_members(node: ast.ClassDef) -> Iterator[tuple[str, str | int]]:
    for one in node.body[:ENUM_MAX]:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() | int() as value)):
                if is_shown(value):
                    yield name, value
            case _:
                continue
