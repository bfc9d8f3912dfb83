"""IR -> the compact text by which a model learns one tool: a signature and a docstring.

    await servers.sheets.get_all_rows(sheetId: str, limit: int = 100) -> {rows: list[Row]}:
    '''All rows of a sheet.
    sheetId: The ID in the sheet's address
    limit: (<= 1000)'''
    Row = {cells: list[str], hidden?: bool}

The first line is the call as written in code. Optional parameters have a default or `...`; optional members of
objects a `?`. An object used twice is written once, by name. Descriptions are kept whole: a model chooses by them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from moonpool.wrappers.ir import ListOf, MapOf, Ref, Scalar, TupleOf, Union
from moonpool.wrappers.python_types import ClassNames, annotation, one_type_per_place
from moonpool.wrappers.quoting import literal, one_line, prose, quote
from moonpool.wrappers.tree import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.manifest import ToolDefinition
    from moonpool.wrappers.ir import Member, ObjectShape, ToolShape, TypeExpr
    from moonpool.wrappers.names import TreeNames


def render_stub(tool: ToolDefinition, *, names: TreeNames) -> str:
    """The stub of a tool of the manifest that `names` was made from; KeyError for another."""
    server, tool_names = names.find(tool.server_id, tool.name)
    return render_shape_stub(read_shape(tool), f"servers.{server.module}.{tool_names.function}")


def render_shape_stub(shape: ToolShape, call: str) -> str:
    """The stub of a tool that is called as `call`."""
    stub = _Stub(shape)
    parameters = sorted(shape.input.members, key=lambda member: not member.required)
    signature = ", ".join(stub.parameter(member) for member in parameters)
    if not parameters and shape.input.extras is not None:
        signature = "**arguments"
    result = f" -> {stub.text(shape.output)}" if shape.output is not None else ""
    described = [line for member in shape.input.members for line in stub.describe(member, member.identifier)]
    named = [line for key in stub.named for line in stub.define(key)]
    body = "\n".join(dict.fromkeys([prose(shape.description) or one_line(shape.title), *described]))
    text = [f'"""{_closed(body)}"""'] if body else []
    return "\n".join([f"await {call}({signature}){result}:", *text, *named])


class _Stub:
    """Types of one stub: which objects have a name, and how each is written."""

    def __init__(self, shape: ToolShape) -> None:
        self._objects = {**shape.objects, shape.input.key: shape.input}
        uses = Counter[str]()
        roots = [member.type for member in shape.input.members]
        for root in [*roots, *([shape.output] if shape.output else [])]:
            self._count(root, uses)
        names = ClassNames(())
        self.named = {
            key: names.claim(each.hint) for key, each in self._objects.items() if uses[key] > 1 and each.members
        }

    def parameter(self, member: Member) -> str:
        text = f"{member.identifier}: {self.text(member.type)}"
        if member.required:
            return text
        return f"{text} = {literal(member.default) if member.default and member.default != 'null' else '...'}"

    def text(self, expression: TypeExpr) -> str:
        """A type in one line."""
        match expression:
            case Ref(key):
                if key in self.named:
                    return self.named[key]
                return self._inline(self._objects[key]) if key in self._objects else "dict"
            case ListOf(item):
                return "list" if item is Scalar.ANY else f"list[{self.text(item)}]"
            case TupleOf():
                return self.text(ListOf(one_type_per_place(expression)))
            case MapOf(value):
                return "dict" if value is Scalar.ANY else f"dict[str, {self.text(value)}]"
            case Union(options):
                return " | ".join(dict.fromkeys(map(self.text, options)))
            case _:
                return annotation(expression, {})

    def define(self, key: str) -> Iterator[str]:
        """The lines of a named object."""
        shape = self._objects[key]
        yield f"{self.named[key]} = {self._inline(shape)}"
        if key.startswith("input#"):
            for member in shape.members:
                yield from self.describe(member, f"{self.named[key]}.{_key(member)}")

    def describe(self, member: Member, place: str) -> Iterator[str]:
        """`limit: How many (>= 1)`, and the same for what lies inside."""
        notes = f"({', '.join(one_line(note) for note in member.notes)})" if member.notes else ""
        text = " ".join(filter(None, [one_line(member.description), notes]))
        if text:
            yield f"{place}: {text}"
        for key in _inner(member.type):
            if key in self._objects and key not in self.named:
                for inner in self._objects[key].members:
                    yield from self.describe(inner, f"{place}.{_key(inner)}")

    def _inline(self, shape: ObjectShape) -> str:
        members = (f"{_key(m)}{'' if m.required else '?'}: {self.text(m.type)}" for m in shape.members)
        return "{" + ", ".join(members) + "}"

    def _count(self, expression: TypeExpr, uses: Counter[str]) -> None:
        """Count where objects are used; one inside itself counts twice, so that it gets a name."""
        for key in _inner(expression):
            uses[key] += 1
            if uses[key] == 1 and key in self._objects:
                for member in self._objects[key].members:
                    self._count(member.type, uses)


def _inner(expression: TypeExpr) -> Iterator[str]:
    """Keys of the objects that a type mentions."""
    match expression:
        case Ref(key):
            yield key
        case ListOf(item) | MapOf(item):
            yield from _inner(item)
        case TupleOf(items, rest):
            for each in [*items, *([rest] if rest else [])]:
                yield from _inner(each)
        case Union(options):
            for option in options:
                yield from _inner(option)
        case _:
            return


def _key(member: Member) -> str:
    """The name of a member inside an object, where no identifier stands in for it."""
    name = member.wire_name
    return name if name.isascii() and name.isidentifier() else quote(name)


def _closed(text: str) -> str:
    """Text that cannot end its docstring."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return text[:-1] + '\\"' if text.endswith('"') else text
