"""IR -> `servers/`: the guide's form (H-007). One async function per tool, its `_sync` twin, TypedDicts for types.

A package imports a tool's file when the tool is first used (`client.packages` in the guest), so a large server costs
only the tools that are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.naming import pascal
from moonpool.wrappers.ir import MapOf, Scalar
from moonpool.wrappers.python_types import (
    HEADER,
    ClassNames,
    annotation,
    describe_hints,
    input_classes,
    member_notes,
    output_classes,
    wrapped,
)
from moonpool.wrappers.quoting import comment, docstring, literal, one_line, prose, quote, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Sized

    from moonpool.wrappers.ir import Member, ObjectShape, ToolShape
    from moonpool.wrappers.names import ServerNames, ToolNames

_TYPING: Final = ("Any", "Literal", "NotRequired", "TypedDict")


def render_tool(tool: ToolShape, names: ToolNames) -> str:
    """`servers/<module>/<tool>.py`."""
    claimed = ClassNames({names.function, names.sync_function})
    stem = pascal(names.function)
    input_class, output_class = claimed.claim(f"{stem} Input"), claimed.claim(f"{stem} Result")
    classes = {**input_classes(tool, input_class, claimed), **output_classes(tool, output_class, claimed)}
    shapes = [*tool.objects.values(), *([tool.input] if tool.input.members else [])]
    types = [line for shape in shapes for line in _typed_dict(shape, classes)]
    wire_names = {m.identifier: m.wire_name for m in tool.input.members if m.identifier != m.wire_name}
    given = input_class if tool.input.members else annotation(MapOf(tool.input.extras or Scalar.ANY), classes)
    result = "Any" if tool.output is None else annotation(tool.output, classes)
    constants = [*_wire_names(wire_names), "", ""] if wire_names else []
    signature = f"(arguments: {given} | Model | None = None, /, **kwargs: Any) -> ToolCallResult[{result}]:"
    call = (
        f"server_id={quote(tool.server_id)}, name={quote(tool.name)}, "
        f"arguments=pack(arguments, kwargs{', WIRE_NAMES' if wire_names else ''})"
    )
    functions = [
        *_signature(f"async def {names.function}", signature),
        *docstring(_paragraphs(tool, classes), "    "),
        f"    return await call_tool({call})",
        "",
        "",
        *_signature(f"def {names.sync_function}", signature),
        f'    """`{names.function}` without `await`."""',
        f"    return call_tool_sync({call})",
    ]
    body = "\n".join([*types, *constants, *functions])
    head = [
        *docstring(
            [f"Tool {quote(one_line(tool.name))} of the server {quote(one_line(tool.server_id))}. {HEADER}"], ""
        ),
        "",
        "from __future__ import annotations",
        "",
        f"from typing import {', '.join(word for word in _TYPING if word in body)}",
        "",
        "from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack",
    ]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def render_server(server: ServerNames, tools: Mapping[str, ToolShape]) -> str:
    """`servers/<module>/__init__.py`."""
    lines = [f"{server.tools[name].function}: {summary(tool)}" for name, tool in tools.items()]
    usage = f"import servers.{server.module}; await servers.{server.module}.<tool>(...)"
    about = [
        f"{server_title(server)}: {count_tools(lines)} of the server {quote(one_line(server.server_id))}.",
        usage + ", or <tool>_sync(...) without await.",
        "\n".join(lines),
    ]
    exported = sorted(name for tool in server.tools.values() for name in (tool.function, tool.sync_function))
    return "\n".join(
        [
            *docstring(about, ""),
            "",
            "from client.packages import open_server",
            "",
            *_block("__all__ = [", [f"{quote(name)}," for name in exported], "]"),
            "",
            *_block(
                "open_server(__name__, {",
                [f"{quote(t.function)}: ({quote(t.file)}, {quote(t.sync_function)})," for t in server.tools.values()],
                "})",
            ),
            "del open_server  # a tool may be called that",
            "",
        ]
    )


def render_root(servers: Sequence[ServerNames]) -> str:
    """`servers/__init__.py`."""
    lines = [f"{server.module}: {server_title(server)}, {count_tools(server.tools)}" for server in servers]
    about = ["MCP servers as Python packages.", "\n".join(lines)]
    return "\n".join(
        [
            *docstring(about, ""),
            "",
            "from client.packages import open_servers",
            "",
            *_block("__all__ = [", [f"{quote(server.module)}," for server in servers], "]"),
            "",
            "open_servers(__name__, __all__)",
            "del open_servers",
            "",
        ]
    )


def summary(tool: ToolShape, chars_max: int = 120) -> str:
    """The first sentence of the description, or the title."""
    text = one_line(tool.description.lstrip()[:600].split("\n\n")[0]) or one_line(tool.title) or one_line(tool.name)
    for stop in (". ", "! ", "? "):
        at = text.find(stop, 15)
        text = text if at < 0 else text[: at + 1]
    return text if len(text) <= chars_max else text[:chars_max].rsplit(" ", 1)[0] + "…"


def server_title(server: ServerNames) -> str:
    return one_line(server.title) or one_line(server.server_id)


def count_tools(tools: Sized) -> str:
    return "1 tool" if len(tools) == 1 else f"{len(tools)} tools"


def _paragraphs(tool: ToolShape, classes: Mapping[str, str]) -> Iterator[str]:
    yield wrapped(prose(tool.description) or one_line(tool.title) or f"Call {quote(one_line(tool.name))}.", 4)
    if tool.input.members:
        heading = "Arguments, in one dict or as keywords:"
        yield "\n".join([heading, *(line for member in tool.input.members for line in _argument(member, classes))])
    elif tool.input.extras is None:
        yield "Takes no arguments."
    if tool.output is not None:
        yield "\n".join(wrap(f"Returns {annotation(tool.output, classes)}", 4, hanging="    "))
    if tool.objects:
        objects = (line for shape in tool.objects.values() for line in _object(shape, classes))
        yield "\n".join(["Objects, as dicts (? marks members that may be left out):", *objects])
    yield describe_hints(tool.hints)


def _argument(member: Member, classes: Mapping[str, str]) -> Iterator[str]:
    """`    limit (int, optional, default 30): How many.`, wrapped."""
    facts = ", ".join(filter(None, [annotation(member.type, classes), one_line(member_notes(member))]))
    sent_as = "" if member.identifier == member.wire_name else f", sent as {quote(one_line(member.wire_name))}"
    first, *rest = prose(member.description).split("\n")
    text = f"{member.identifier} ({facts}{sent_as})" + (f": {first}" if first else "")
    for line in wrap(text, 8, hanging="    "):
        yield f"    {line}"
    for paragraph in rest:
        yield from (f"        {line}" for line in wrap(paragraph, 12))


def _object(shape: ObjectShape, classes: Mapping[str, str]) -> Iterator[str]:
    """`    Edit: {oldText: str, newText: str}`, wrapped."""
    members = (f"{_key(m)}{'' if m.required else '?'}: {annotation(m.type, classes)}" for m in shape.members)
    for line in wrap(f"{classes[shape.key]}: {{{', '.join(members)}}}", 8, hanging="    "):
        yield f"    {line}"


def _key(member: Member) -> str:
    return member.wire_name if member.identifier == member.wire_name else quote(member.wire_name)


def _typed_dict(shape: ObjectShape, classes: Mapping[str, str]) -> Iterator[str]:
    """A TypedDict; in functional form if a member's name is no identifier. Keys are always wire names."""
    name = classes[shape.key]
    documented = shape.key != "input#"  # the function documents the root
    if all(member.identifier == member.wire_name for member in shape.members):
        yield f"class {name}(TypedDict):"
        if shape.description and documented:
            yield from (*docstring([wrapped(prose(shape.description), 4)], "    "), "")
        for member in shape.members:
            yield from comment(_remark(member), "    ") if documented else ()
            yield f"    {member.wire_name}: {_member_type(member, classes)}"
    else:
        yield f"{name} = TypedDict({quote(name)}, {{"
        for member in shape.members:
            yield from comment(_remark(member), "    ") if documented else ()
            if not member.wire_name:
                yield "    # one more has no name, which a TypedDict cannot say"
                continue
            yield f"    {quote(member.wire_name)}: {quote(_member_type(member, classes))},"
        yield "})"
    yield from ("", "")


def _member_type(member: Member, classes: Mapping[str, str]) -> str:
    text = annotation(member.type, classes)
    return text if member.required else f"NotRequired[{text}]"


def _remark(member: Member) -> str:
    notes = ", ".join(member.notes)
    default = f"Default {literal(member.default)}." if member.default and member.default != "null" else ""
    return " ".join(filter(None, [member.description, default, f"({notes})" if notes else ""]))


def _signature(start: str, rest: str) -> list[str]:
    """A `def` on one line, or with its parameters on their own lines when that is too long."""
    if len(start) + len(rest) <= 120:
        return [start + rest]
    arguments, _, returns = rest.removeprefix("(").rpartition(") -> ")
    return [f"{start}(", f"    {arguments}", f") -> {returns}"]


def _wire_names(names: Mapping[str, str]) -> list[str]:
    return _block("WIRE_NAMES = {", [f"{quote(name)}: {quote(wire)}," for name, wire in names.items()], "}")


def _block(start: str, items: Sequence[str], end: str) -> list[str]:
    """A bracketed list, on one line when it is short."""
    line = start + " ".join(items).rstrip(",") + end
    return [line] if len(line) <= 100 else [start, *(f"    {item}" for item in items), end]
