"""IR -> `mcptools/`: ipybox's form. One module per tool with `Params`, `Result` and `run`.

`Params` and `Result` derive from the guest's small `Model`: environments need no pydantic, and exactly what was given
is sent. A module looks up missing names (`run_parsed`...) in `mcpparse.<server>.<tool>`, which belongs to the author of
sandbox code; regeneration never touches it (X-28).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from moonpool.core.naming import name_enum_members
from moonpool.wrappers.ir import Choice, ListOf, MapOf, Scalar, Union
from moonpool.wrappers.python_types import (
    HEADER,
    ClassNames,
    annotation,
    describe_hints,
    input_classes,
    output_classes,
    wrapped,
)
from moonpool.wrappers.quoting import docstring, literal, one_line, prose, quote
from moonpool.wrappers.servers_tree import server_title, summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from moonpool.core.json import JsonValue
    from moonpool.wrappers.ir import Member, ObjectShape, ToolShape, TypeExpr
    from moonpool.wrappers.names import ServerNames

_PLAIN: Final[Mapping[Scalar, tuple[type, ...]]] = {
    Scalar.STRING: (str,),
    Scalar.INTEGER: (int,),
    Scalar.NUMBER: (int, float),
    Scalar.BOOLEAN: (bool,),
    Scalar.NULL: (type(None),),
}
_OWN_WORDS: Final = frozenset({"Params", "Result", "run", "run_async"})
_ALWAYS: Final = frozenset({"Model", "ToolRunnerError"})
_CLIENT_WORDS: Final = ("Model", "ToolRunnerError", "alias", "extension", "pack", "run_tool", "run_tool_sync")


def render_tool(tool: ToolShape) -> str:
    """`mcptools/<module>/<tool>.py`."""
    claimed = ClassNames(_OWN_WORDS)
    classes = {**input_classes(tool, "Params", claimed), **output_classes(tool, "Result", claimed)}
    shapes = [*tool.objects.values(), tool.input]
    enums = _name_enums(shapes, claimed)
    types = [line for choice, name in enums.items() for line in _enum(choice, name)]
    types += [line for shape in shapes for line in _model(shape, classes, enums)]
    result = _result(tool, classes, enums)
    call = [
        f"        server_id={quote(tool.server_id)},",
        f"        name={quote(tool.name)},",
        "        arguments=pack(params, kwargs, Params),",
        f"        result={'Result' if tool.output_object else 'str' if result == 'str' else 'object'},",
        "    )",
    ]
    functions = [
        f"def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> {result}:",
        *docstring(_paragraphs(tool, result), "    "),
        "    return run_tool_sync(",
        *call,
        "",
        "",
        f"async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> {result}:",
        '    """`run` for `await`."""',
        "    return await run_tool(",
        *call,
        "",
        "",
        "__getattr__ = extension(__name__)",
    ]
    body = "\n".join([*types, *functions])
    head = [
        *docstring(
            [f"Tool {quote(one_line(tool.name))} of the server {quote(one_line(tool.server_id))}. {HEADER}"], ""
        ),
        "",
        "from __future__ import annotations",
        "",
        *(["from enum import StrEnum"] if enums else []),
        f"from typing import {'Any, Literal' if 'Literal[' in body else 'Any'}",
        "",
        f"from client.mcp_client import {', '.join(w for w in _CLIENT_WORDS if w in _ALWAYS or f'{w}(' in body)}",
    ]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def render_server(server: ServerNames, tools: Mapping[str, ToolShape]) -> str:
    """`mcptools/<module>/__init__.py`."""
    lines = [f"{server.tools[name].module}: {summary(tool)}" for name, tool in tools.items()]
    about = [
        f"{server_title(server)}: each tool is a module with Params, run and, where it is known, Result.",
        "\n".join(lines),
    ]
    modules = sorted(tool.module for tool in server.tools.values())
    return "\n".join([*docstring(about, ""), "", *_exports(modules), ""])


def render_root(servers: Sequence[ServerNames]) -> str:
    """`mcptools/__init__.py`."""
    about = ["MCP tools as Python modules: mcptools.<server>.<tool> with Params, Result and run."]
    return "\n".join([*docstring(about, ""), "", *_exports(server.module for server in servers), ""])


def _exports(names: Iterable[str]) -> list[str]:
    return ["__all__ = [", *(f"    {quote(name)}," for name in names), "]"]


def _paragraphs(tool: ToolShape, result: str) -> Iterator[str]:
    yield wrapped(prose(tool.description) or one_line(tool.title) or f"Call {quote(one_line(tool.name))}.", 4)
    yield describe_hints(tool.hints)
    if result == "str":
        yield "Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused."
    else:
        yield "Raises ToolRunnerError when the tool fails or is refused."


def _result(tool: ToolShape, classes: Mapping[str, str], enums: Mapping[TypeExpr, str]) -> str:
    if tool.output is None:
        return "str"
    return "Result | str" if tool.output_object else annotation(tool.output, classes, enums)


def _model(shape: ObjectShape, classes: Mapping[str, str], enums: Mapping[TypeExpr, str]) -> Iterator[str]:
    yield f"class {classes[shape.key]}(Model):"
    described = prose(shape.description) or ("" if shape.members else "Any members.")
    yield from docstring([wrapped(described, 4)], "    ") if described else ()
    if shape.description and shape.members:
        yield ""
    for member in shape.members:
        yield f"    {member.identifier}: {_field(member, annotation(member.type, classes, enums))}"
        if remark := _remark(member):
            yield from docstring([wrapped(remark, 4)], "    ")
    yield from ("", "")


def _field(member: Member, type_text: str) -> str:
    """`int = 30`: an optional member has a default; one that is sent under another name is an `alias`.

    A default of a wrong type is written the same way, because type checkers do not check it there.
    """
    optional = not member.required
    default = literal(member.default) if member.default and member.default != "null" else "None"
    if optional and default == "None" and type_text != "Any" and not type_text.endswith("None"):
        type_text += " | None"
    if member.identifier != member.wire_name or (optional and default != "None" and not _is_of(member)):
        ending = f", default={default}" if optional else ""
        return f"{type_text} = alias({quote(member.wire_name)}{ending})"
    return f"{type_text} = {default}" if optional else type_text


def _is_of(member: Member) -> bool:
    return member.default is not None and _holds(member.type, json.loads(member.default))


def _holds(expression: TypeExpr, value: JsonValue) -> bool:
    """Whether `value` has the Python type that `annotation` writes for `expression`. An object is no class."""
    match expression:
        case Scalar.ANY:
            return True
        case Scalar():
            return type(value) in _PLAIN[expression]
        case Choice(values) if len(values) > 1 and all(one.startswith('"') for one in values):
            return isinstance(value, str)  # an enum's values, and any other string
        case Choice(values):
            return json.dumps(value) in values
        case ListOf(item):
            return isinstance(value, list) and all(_holds(item, one) for one in value)
        case MapOf(item):
            return isinstance(value, dict) and all(_holds(item, one) for one in value.values())
        case Union(options):
            return any(_holds(option, value) for option in options)
        case _:
            return False


def _remark(member: Member) -> str:
    notes = f"({', '.join(map(one_line, member.notes))})" if member.notes else ""
    return " ".join(filter(None, [one_line(member.description), notes]))


def _name_enums(shapes: Iterable[ObjectShape], names: ClassNames) -> dict[TypeExpr, str]:
    """Choices of two or more strings get a class named after the first member that uses them: `Sort.stars` (I-015)."""
    enums: dict[TypeExpr, str] = {}
    for shape in reversed(list(shapes)):
        for member in shape.members:
            for choice in _choices(member.type):
                if choice not in enums and len(choice.values) > 1 and all(v.startswith('"') for v in choice.values):
                    enums[choice] = names.claim(member.wire_name)
    return enums


def _choices(expression: TypeExpr) -> Iterator[Choice]:
    match expression:
        case Choice():
            yield expression
        case ListOf(item):
            yield from _choices(item)
        case Union(options):
            for option in options:
                yield from _choices(option)
        case _:
            return


def _enum(expression: TypeExpr, name: str) -> Iterator[str]:
    assert isinstance(expression, Choice)
    values = [str(json.loads(value)) for value in expression.values]
    members = name_enum_members(values)
    yield f"class {name}(StrEnum):"
    yield from (f"    {members[value]} = {quote(value)}" for value in values)
    yield from ("", "")
