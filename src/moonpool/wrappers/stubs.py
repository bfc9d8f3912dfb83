"""IR -> the compact description of one tool for a model: a signature and a docstring.

    await servers.sheets.get_all_rows(sheetId: str, limit: int = 100) -> {rows: list[Row]}:
    '''All rows of a sheet.
    sheetId: The ID in the sheet's address
    limit: (<= 1000)'''
    Row = {cells: list[str], hidden?: bool}

The first line is the call as written in code. Optional parameters have a default or `...`; optional members of objects
a `?`. An object used twice is written once, by name. Descriptions are complete up to a length that few exceed
(`long_descriptions`). Learned types (`features.learned_types.model`) are marked as such: an undeclared result type, and
examples.

SECURITY: learned types are read as schemas, and examples are written as literals, so both pass `quoting`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moonpool.core.manifest import ToolDefinition
from moonpool.features.learned_types.model import DEPTH_MAX, cut_at
from moonpool.wrappers.ir import ListOf, MapOf, Ref, Scalar, TupleOf, Union
from moonpool.wrappers.long_descriptions import brief
from moonpool.wrappers.python_types import ClassNames, annotation, one_type_per_place
from moonpool.wrappers.quoting import literal, lost_name, one_line, prose, quote
from moonpool.wrappers.reading import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from moonpool.core.json import JsonObject
    from moonpool.features.learned_types.model import LearnedType
    from moonpool.wrappers.ir import Member, ObjectShape, ToolShape, TypeExpr
    from moonpool.wrappers.names import ServerNames, TreeNames


LEARNED_CHARS_MAX: Final = 600
FILE_CHARS_MAX: Final = 2 * 1024**2


def render_stub(tool: ToolDefinition, *, names: TreeNames, learned_type: LearnedType | None = None) -> str:
    """The stub of a tool of the manifest that `names` was made from; KeyError for another."""
    server, tool_names = names.find(tool.server_id, tool.name)
    return render_shape_stub(read_shape(tool), f"servers.{server.module}.{tool_names.function}", learned_type)


def render_shape_stub(shape: ToolShape, call: str, learned_type: LearnedType | None = None) -> str:
    """The stub of a tool with the call expression `call`."""
    shape, learned = with_learned_type(shape, learned_type)
    stub = Stub(shape)
    parameters = sorted(shape.input.members, key=lambda member: not member.required)
    signature = ", ".join(stub.parameter(member) for member in parameters)
    if not parameters and shape.input.extras is not None:
        signature = "**arguments"
    result = f" -> {stub.text(shape.output)}" if shape.output is not None else ""
    described = [line for member in shape.input.members for line in stub.describe(member, member.identifier)]
    named = [line for key in stub.named for line in stub.define(key)]
    about = brief(prose(shape.description)) or one_line(shape.title) or lost_name(shape.name)
    body = "\n".join(dict.fromkeys([about, *described]))
    text = [f'"""{_closed(body)}"""'] if body else []
    taught = [f"# {line}" for line in learned]
    for example in learned_type.examples if learned_type else ():
        identifiers = {member.wire_name: member.identifier for member in shape.input.members}
        given = [
            f"{identifiers[name]}={literal(json.dumps(value))}"
            for name, value in example.items()
            if name in identifiers
        ]
        taught += [f"# Example: {call.rpartition('.')[2]}({', '.join(given)})"] if given else []
    return "\n".join([f"await {call}({signature}){result}:", *text, *named, *taught])


def render_stubs(server: ServerNames, tools: Mapping[str, ToolShape]) -> str:
    """`stubs/<module>.json`: the stubs of one server by the tools' own names, null after
    `FILE_CHARS_MAX` is reached.
    """
    stubs: JsonObject = {}
    room = FILE_CHARS_MAX
    for name, shape in tools.items():
        stub = render_shape_stub(shape, f"servers.{server.module}.{server.tools[name].function}") if room > 0 else None
        stubs[name] = stub
        room -= len(stub or "")
    return json.dumps(stubs, separators=(",", ":")) + "\n"


def with_learned_type(shape: ToolShape, learned_type: LearnedType | None) -> tuple[ToolShape, list[str]]:
    """`shape` with the learned result type if none is declared, and the remark for it."""
    if learned_type is None or not learned_type.shape or shape.output is not None:
        return shape, []
    for depth in range(DEPTH_MAX, -1, -1):
        raw: JsonObject = {"name": "result", "outputSchema": cut_at(learned_type.shape, depth)}
        seen = read_shape(ToolDefinition(server_id="", name="result", raw=raw))
        stub = Stub(seen)
        parts = [stub.text(seen.output or Scalar.ANY), *(line for key in stub.named for line in stub.define(key))]
        if sum(map(len, parts)) <= LEARNED_CHARS_MAX:
            objects = {**shape.objects, **seen.objects}
            calls = "1 result" if learned_type.results == 1 else f"{learned_type.results} results"
            return replace(shape, output=seen.output, objects=objects), [f"Result type: seen in {calls}, not declared."]
    return shape, []


class Stub:
    """Types of one stub: which objects have a name, and how each is written in Python."""

    def __init__(self, shape: ToolShape, taken: Iterable[str] = ()) -> None:
        self.objects = {**shape.objects, shape.input.key: shape.input}
        uses = Counter[str]()
        roots = [member.type for member in shape.input.members]
        for root in [*roots, *([shape.output] if shape.output else [])]:
            self._count(root, uses)
        names = ClassNames(taken)
        self.named = {
            key: names.claim(each.hint) for key, each in self.objects.items() if uses[key] > 1 and each.members
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
                return self.inline(self.objects[key]) if key in self.objects else "dict"
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
        shape = self.objects[key]
        yield f"{self.named[key]} = {self.inline(shape)}"
        if key.startswith("input#"):
            for member in shape.members:
                yield from self.describe(member, f"{self.named[key]}.{self.key(member)}")

    def describe(self, member: Member, place: str) -> Iterator[str]:
        """`limit: How many (>= 1)`, and the same for nested members."""
        notes = f"({', '.join(one_line(note) for note in member.notes)})" if member.notes else ""
        text = " ".join(filter(None, [one_line(member.description), notes]))
        if text:
            yield f"{place}: {text}"
        for key in inner_keys(member.type):
            if key in self.objects and key not in self.named:
                for inner in self.objects[key].members:
                    yield from self.describe(inner, f"{place}.{self.key(inner)}")

    def inline(self, shape: ObjectShape) -> str:
        members = (f"{self.key(m)}{'' if m.required else '?'}: {self.text(m.type)}" for m in shape.members)
        return "{" + ", ".join(members) + "}"

    def key(self, member: Member) -> str:
        """The wire name of a member inside an object, quoted if needed."""
        name = member.wire_name
        return name if name.isascii() and name.isidentifier() else quote(name)

    def _count(self, expression: TypeExpr, uses: Counter[str]) -> None:
        """Count where objects are used; one inside itself counts twice, so that it gets a name."""
        for key in inner_keys(expression):
            uses[key] += 1
            if uses[key] == 1 and key in self.objects:
                for member in self.objects[key].members:
                    self._count(member.type, uses)


def inner_keys(expression: TypeExpr) -> Iterator[str]:
    """Keys of the objects that a type mentions."""
    match expression:
        case Ref(key):
            yield key
        case ListOf(item) | MapOf(item):
            yield from inner_keys(item)
        case TupleOf(items, rest):
            for each in [*items, *([rest] if rest else [])]:
                yield from inner_keys(each)
        case Union(options):
            for option in options:
                yield from inner_keys(option)
        case _:
            return


def _closed(text: str) -> str:
    """Text escaped so that it cannot end its docstring."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return text[:-1] + '\\"' if text.endswith('"') else text
