"""IR -> TypeScript types, for one server's `index.d.ts`.

Types help authors of code; the broker checks arguments against the real schema. So if a schema does not mention further
members, the interface has none, which lets an editor mark a misspelt one, and a tuple has all its items. Everything
without a better type is `unknown`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from moonpool.wrappers.ir import Choice, ListOf, MapOf, Ref, Scalar, TupleOf, Union
from moonpool.wrappers.javascript_quoting import SAFE_INTEGER_MAX, js_literal, jsdoc, property_key
from moonpool.wrappers.python_types import wrapped
from moonpool.wrappers.quoting import one_line, prose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moonpool.wrappers.ir import Member, ObjectShape, TypeExpr

TYPE_WORDS: Final = frozenset({"Array", "Promise", "Record", "ToolCallResult"})
"""Types that a generated file uses itself; no interface may have such a name."""

ANY_OBJECT: Final = "Record<string, unknown>"
_SCALARS: Final = {
    Scalar.ANY: "unknown",
    Scalar.STRING: "string",
    Scalar.INTEGER: "number",
    Scalar.NUMBER: "number",
    Scalar.BOOLEAN: "boolean",
    Scalar.NULL: "null",
}
_INDEX_PARTS_MAX: Final = 6


def type_text(expression: TypeExpr, interfaces: Mapping[str, str]) -> str:
    """A type in one line; `interfaces` names objects by key."""
    match expression:
        case Scalar():
            return _SCALARS[expression]
        case Choice(values):
            return " | ".join(dict.fromkeys(map(_literal_type, values)))
        case ListOf(item):
            return f"{_grouped(item, interfaces)}[]"
        case TupleOf(items, rest):
            places = [type_text(item, interfaces) for item in items]
            return "[" + ", ".join([*places, *([f"...{_grouped(rest, interfaces)}[]"] if rest else [])]) + "]"
        case MapOf(value):
            return f"Record<string, {type_text(value, interfaces)}>"
        case Ref(key):
            return interfaces.get(key, ANY_OBJECT)
        case Union(options):
            return " | ".join(dict.fromkeys(type_text(option, interfaces) for option in options))


def arguments_type(shape: ObjectShape, interfaces: Mapping[str, str]) -> str:
    """The type of a tool's arguments; an object without named members needs no interface."""
    if shape.members:
        return interfaces[shape.key]
    return "Record<string, never>" if shape.extras is None else type_text(MapOf(shape.extras), interfaces)


def interface(shape: ObjectShape, interfaces: Mapping[str, str]) -> Iterator[str]:
    """An object with named members."""
    yield from jsdoc([wrapped(prose(shape.description), 3)], "")
    yield f"export interface {interfaces[shape.key]} {{"
    for member in shape.members:
        yield from jsdoc([wrapped(_remark(member), 5)], "  ")
        mark = "" if member.required else "?"
        yield f"  {property_key(member.wire_name)}{mark}: {type_text(member.type, interfaces)};"
    if shape.asks_for_extras:
        yield f"  [key: string]: {_index_type(shape, interfaces)};"
    yield from ("}", "")


def _index_type(shape: ObjectShape, interfaces: Mapping[str, str]) -> str:
    """TypeScript requires named members to fit the index type, so it is the union of all types, if that is short."""
    types = dict.fromkeys(type_text(part, interfaces) for part in (shape.extras or Scalar.ANY, *_types(shape)))
    if len(types) > _INDEX_PARTS_MAX or "unknown" in types:
        return "unknown"
    return " | ".join([*types, *([] if all(member.required for member in shape.members) else ["undefined"])])


def _types(shape: ObjectShape) -> Iterator[TypeExpr]:
    yield from (member.type for member in shape.members)


def _remark(member: Member) -> str:
    default = f"Default {one_line(member.default)}." if member.default and member.default != "null" else ""
    notes = f"({', '.join(map(one_line, member.notes))})" if member.notes else ""
    facts = " ".join(filter(None, [default, notes]))
    return "\n".join(filter(None, [prose(member.description), facts]))


def _grouped(expression: TypeExpr, interfaces: Mapping[str, str]) -> str:
    """A type to which `[]` can be appended."""
    text = type_text(expression, interfaces)
    return f"({text})" if isinstance(expression, Union | Choice) else text


def _literal_type(json_text: str) -> str:
    value = json.loads(json_text)
    if isinstance(value, int) and abs(value) > SAFE_INTEGER_MAX:  # booleans are small
        return "number"
    return js_literal(json_text)
