"""IR -> `servers/<module>/index.js` and `index.d.ts`: the guide's form for Node (H-008). One async function per tool.

The code is one line per tool, so that importing a server of a hundred tools costs little; parameters and results are in
the types. Functions are called in camelCase; `tools` finds them by the server's own names.

INVARIANT: no parameter is named `arguments`, which is an error in ES modules (H-009).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.wrappers.ir import Scalar
from moonpool.wrappers.javascript_quoting import js_quote, jsdoc
from moonpool.wrappers.python_types import HEADER, ClassNames, describe_hints, wrapped
from moonpool.wrappers.quoting import WIDTH, one_line, prose
from moonpool.wrappers.servers_tree import summary
from moonpool.wrappers.typescript_types import TYPE_WORDS, arguments_type, interface, type_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from moonpool.wrappers.ir import ToolShape
    from moonpool.wrappers.names import ServerNames, ToolNames

MODULE_PACKAGE: Final = json.dumps({"private": True, "type": "module"}) + "\n"
"""`package.json` of the folders that hold ES modules; private, since nothing in a sandbox is published."""

_CLIENT: Final = '"../../client/mcp_client.js"'


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTool:
    """One tool's part of `index.js` and `index.d.ts`."""

    code: str
    types: str


def interface_names(server: ServerNames) -> ClassNames:
    """Interface names for one server's file, distinct from its functions."""
    return ClassNames({*TYPE_WORDS, *(tool.node for tool in server.tools.values())})


def render_tool(tool: ToolShape, names: ToolNames, claimed: ClassNames) -> NodeTool:
    """One function and its types."""
    call = f"  return callTool({js_quote(tool.server_id)}, {js_quote(tool.name)}, args);"
    code = [*jsdoc([summary(tool)], ""), f"export async function {names.node}(args = {{}}) {{", call, "}", ""]
    interfaces = _interfaces(tool, names, claimed)
    shapes = [*tool.objects.values(), *([tool.input] if tool.input.members else [])]
    optional = "" if any(member.required for member in tool.input.members) else "?"
    result = type_text(Scalar.ANY if tool.output is None else tool.output, interfaces)
    types = [
        *(line for shape in shapes for line in interface(shape, interfaces)),
        *jsdoc(_paragraphs(tool), ""),
        *_signature(names.node, f"args{optional}: {arguments_type(tool.input, interfaces)}", result),
        "",
    ]
    return NodeTool(code="\n".join(code), types="\n".join(types))


def render_server(server: ServerNames, tools: Sequence[NodeTool]) -> str:
    """`servers/<module>/index.js`."""
    by_name = (f"  [{js_quote(tool.tool)}]: {tool.node}," for tool in server.tools.values())
    parts = [
        f"// {HEADER} Types and descriptions are in index.d.ts.",
        f"import {{ callTool }} from {_CLIENT};",
        "",
        *(tool.code for tool in tools),
        "/** Every tool by the server's own name. */",
        "export const tools = {",
        "  __proto__: null,",
        *by_name,
        "};",
        "",
    ]
    return "\n".join(parts)


def render_types(server: ServerNames, tools: Sequence[NodeTool]) -> str:
    """`servers/<module>/index.d.ts`."""
    by_name = (f"  readonly {js_quote(tool.tool)}: typeof {tool.node};" for tool in server.tools.values())
    parts = [
        f"// {HEADER}",
        f"import type {{ ToolCallResult }} from {_CLIENT};",
        "",
        *(tool.types for tool in tools),
        "/** Every tool by the server's own name. */",
        "export const tools: {",
        *by_name,
        "};",
        "",
    ]
    return "\n".join(parts)


def render_missing(reason: str) -> str:
    """`index.js` of a server whose tools could not be listed: importing it says why."""
    return f"throw new Error({js_quote(reason)});\n"


def _signature(function: str, parameter: str, result: str) -> list[str]:
    line = f"export function {function}({parameter}): Promise<ToolCallResult<{result}>>;"
    if len(line) <= WIDTH:
        return [line]
    return [f"export function {function}(", f"  {parameter},", f"): Promise<ToolCallResult<{result}>>;"]


def _interfaces(tool: ToolShape, names: ToolNames, claimed: ClassNames) -> Mapping[str, str]:
    """Names by key: `GetDocumentInput`, `GetDocumentResult`, and for parts `GetDocument` plus the schema's name."""
    stem = names.node[:1].upper() + names.node[1:]
    roots = {tool.output_object.key: f"{stem}Result"} if tool.output_object else {}
    if tool.input.members:
        roots = {tool.input.key: f"{stem}Input", **roots}
    named = {key: claimed.claim(name) for key, name in roots.items()}
    inner = {key: claimed.claim(f"{stem} {shape.hint}") for key, shape in tool.objects.items() if key not in named}
    return {**named, **inner}


def _paragraphs(tool: ToolShape) -> Iterator[str]:
    yield wrapped(prose(tool.description) or one_line(tool.title) or f"Call {js_quote(one_line(tool.name))}.", 3)
    if not tool.input.members and tool.input.extras is None:
        yield "Takes no arguments."
    yield describe_hints(tool.hints)
