"""IR -> Python annotations and class names, for one generated module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.naming import MODULE_WORDS, pascal, safe_identifier
from moonpool.wrappers.ir import Choice, ListOf, MapOf, Ref, Scalar, TupleOf, Union
from moonpool.wrappers.leaf_schemas import union_of
from moonpool.wrappers.quoting import literal, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.wrappers.ir import Hints, Member, ToolShape, TypeExpr

_SCALARS: Final = {
    Scalar.ANY: "Any",
    Scalar.STRING: "str",
    Scalar.INTEGER: "int",
    Scalar.NUMBER: "float",
    Scalar.BOOLEAN: "bool",
    Scalar.NULL: "None",
}
HEADER: Final = "Generated; do not edit."


class ClassNames:
    """Hands out class names that are distinct in one module: `Row`, `Row2`, `Row3`, in order of request."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*MODULE_WORDS, *taken}
        self._numbers: dict[str, int] = {}  # next number by name: a file may request one name thousands of times

    def claim(self, hint: str) -> str:
        base = name = safe_identifier(pascal(hint), original=hint)
        number = self._numbers.get(base, 1)
        while name in self._taken:
            number += 1
            name = f"{base}{number}"
        self._numbers[base] = number
        self._taken.add(name)
        return name


def annotation(expression: TypeExpr, classes: Mapping[str, str], enums: Mapping[TypeExpr, str] | None = None) -> str:
    """The annotation for a type; `classes` names objects by key, `enums` names choices that have a class."""
    match expression:
        case Scalar():
            return _SCALARS[expression]
        case Choice(values):
            named = enums.get(expression) if enums else None
            if named:
                return f"{named} | str"  # plain strings are accepted, and results contain them
            return "Literal[" + ", ".join(map(literal, values)) + "]"
        case ListOf(item):
            return f"list[{annotation(item, classes, enums)}]"
        case TupleOf():
            return f"list[{annotation(one_type_per_place(expression), classes, enums)}]"
        case MapOf(value):
            return f"dict[str, {annotation(value, classes, enums)}]"
        case Ref(key):
            return classes.get(key, "dict[str, Any]")
        case Union(options):
            return " | ".join(dict.fromkeys(annotation(option, classes, enums) for option in options))


def one_type_per_place(places: TupleOf) -> TypeExpr:
    """One type for all items of a tuple: JSON has lists, and Python's lists have one item type."""
    return union_of([*places.items, *([places.rest] if places.rest else [])])


def member_notes(member: Member) -> str:
    """`optional, default 30, >= 1`, or empty."""
    words = [] if member.required else ["optional"]
    if member.default and member.default != "null":
        words.append(f"default {literal(member.default)}")
    return ", ".join([*words, *member.notes])


def describe_hints(hints: Hints) -> str:
    """The server's own annotations as text."""
    said = {
        "only reads": hints.read_only,
        "may destroy data": hints.destructive if not hints.read_only else None,
        "is safe to repeat": hints.idempotent if not hints.read_only else None,
        "reaches the outside world": hints.open_world,
    }
    words = [text for text, value in said.items() if value]
    return f"The server says that this tool {' and '.join(words)}." if words else ""


def wrapped(text: str, used: int) -> str:
    """Prose with long lines wrapped to the width left by `used` columns."""
    return "\n".join(part for line in text.split("\n") for part in (wrap(line, used) or [""]))


def input_classes(tool: ToolShape, root: str, names: ClassNames) -> dict[str, str]:
    """Class names for the objects of a tool's arguments, the root included."""
    return {
        tool.input.key: root,
        **{key: names.claim(shape.hint) for key, shape in tool.objects.items() if key.startswith("input#")},
    }


def output_classes(tool: ToolShape, root: str, names: ClassNames) -> dict[str, str]:
    """Class names for the objects of a tool's result."""
    top = tool.output_object
    return {
        key: root if shape is top else names.claim(shape.hint)
        for key, shape in tool.objects.items()
        if key.startswith("output#")
    }
