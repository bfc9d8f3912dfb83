"""IR -> the compact description of one tool for Node code: the TypeScript counterpart of `stubs`.

    /** All rows of a sheet.
    sheetId: The ID in the sheet's address
    limit: (default 100, <= 1000) */
    export function getAllRows(args: {sheetId: string, limit?: number}): Promise<ToolCallResult<{rows: Row[]}>>;
    type Row = {cells: string[], hidden?: boolean};
    // import from ./servers/sheets/index.js

Objects are written inline; an object used twice is written once, by name.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.wrappers.ir import MapOf, Scalar
from moonpool.wrappers.javascript_quoting import js_literal, property_key
from moonpool.wrappers.long_descriptions import brief
from moonpool.wrappers.quoting import lost_name, one_line, prose
from moonpool.wrappers.reading import read_shape
from moonpool.wrappers.stubs import Stub, with_learned_type
from moonpool.wrappers.typescript_types import TYPE_WORDS, type_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.manifest import ToolDefinition
    from moonpool.features.learned_types.model import LearnedType
    from moonpool.wrappers.ir import Member, ObjectShape, ToolShape, TypeExpr
    from moonpool.wrappers.names import TreeNames


def render_typescript_stub(tool: ToolDefinition, *, names: TreeNames, learned_type: LearnedType | None = None) -> str:
    """The stub of a tool of the manifest that `names` was made from; KeyError for another."""
    server, tool_names = names.find(tool.server_id, tool.name)
    shape, learned = with_learned_type(read_shape(tool), learned_type)
    stub = _TypeScriptStub(shape)
    described = [line for member in shape.input.members for line in stub.describe(_noted(member), member.wire_name)]
    about = brief(prose(shape.description)) or one_line(shape.title) or lost_name(shape.name)
    body = "\n".join(dict.fromkeys([about, *described]))
    lines = [f"/** {_closed(body)} */"] if body else []
    result = stub.text(shape.output) if shape.output is not None else "unknown"
    lines.append(f"export function {tool_names.node}({stub.arguments()}): Promise<ToolCallResult<{result}>>;")
    lines += [line for key in stub.named for line in stub.define(key)]
    lines += [f"// {line}" for line in learned]
    for example in learned_type.examples if learned_type else ():
        known = {member.wire_name for member in shape.input.members}
        given = [f"{property_key(name)}: {_literal(value)}" for name, value in example.items() if name in known]
        lines += [f"// Example: {tool_names.node}({{{', '.join(given)}}})"] if given else []
    return "\n".join([*lines, f"// import from ./servers/{server.module}/index.js"])


class _TypeScriptStub(Stub):
    """The same choice of named objects, written as TypeScript."""

    def __init__(self, shape: ToolShape) -> None:
        super().__init__(shape, TYPE_WORDS)
        self._input = shape.input
        self._written = dict(self.named)
        for key, each in self.objects.items():  # innermost first
            if key not in self.named:
                self._written[key] = self.inline(each) if each.members else type_text(MapOf(Scalar.ANY), {})

    def arguments(self) -> str:
        """`args: {…}` with a `?` if nothing is required."""
        if not self._input.members:
            return "args?: Record<string, unknown>" if self._input.extras is not None else ""
        optional = "" if any(member.required for member in self._input.members) else "?"
        return f"args{optional}: {self._written[self._input.key]}"

    def text(self, expression: TypeExpr) -> str:
        return type_text(expression, self._written)

    def define(self, key: str) -> Iterator[str]:
        shape = self.objects[key]
        yield f"type {self.named[key]} = {self.inline(shape)};"
        if key.startswith("input#"):
            for member in shape.members:
                for line in self.describe(_noted(member), f"{self.named[key]}.{self.key(member)}"):
                    yield f"// {line}"

    def inline(self, shape: ObjectShape) -> str:
        return (
            "{"
            + ", ".join(f"{self.key(m)}{'' if m.required else '?'}: {self.text(m.type)}" for m in shape.members)
            + "}"
        )

    def key(self, member: Member) -> str:
        return property_key(member.wire_name)


def _noted(member: Member) -> Member:
    """A member with its default in its notes, because a TypeScript signature cannot show it."""
    if not member.default or member.default == "null":
        return member
    return replace(member, notes=(f"default {one_line(member.default)}", *member.notes))


def _literal(value: object) -> str:
    return js_literal(json.dumps(value))


def _closed(text: str) -> str:
    """Text escaped so that it cannot end its comment."""
    return text.replace("*/", "*\\/")
