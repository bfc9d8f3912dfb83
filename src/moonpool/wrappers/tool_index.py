"""IR -> `index.json` at the root of a tree, for programs, and `INDEX.md`, for readers: lists of tools.

`index.json`: the command `moonpool tools` in a sandbox reads it. Types use TypeScript syntax, because arguments are
given as JSON there; members of nested objects are omitted. A call takes `id` and `name`.

INVARIANT: bounded. A tool has at most `PARAMETERS_MAX` parameters with short descriptions, and after `DETAIL_CHARS_MAX`
later tools are listed without parameters (`"parameters": null`).

`INDEX.md`: one line per tool, for people and for code in a sandbox. There is one page per server, and one for all
servers, which lists at most `TOOLS_LISTED_MAX` tools and `SERVERS_LISTED_MAX` servers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from moonpool.wrappers.leaf_schemas import clip
from moonpool.wrappers.quoting import one_line
from moonpool.wrappers.servers_tree import count_tools, server_title, summary
from moonpool.wrappers.typescript_types import ANY_OBJECT, type_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.wrappers.ir import Member, ObjectShape, ToolShape
    from moonpool.wrappers.names import ServerNames

PARAMETERS_MAX: Final = 64
TYPE_CHARS_MAX: Final = 160
DESCRIPTION_CHARS_MAX: Final = 200
DETAIL_CHARS_MAX: Final = 4 * 1024**2


class ToolIndex:
    """Collects servers in the manifest's order and renders the file."""

    def __init__(self) -> None:
        self._servers: list[JsonValue] = []
        self._detail_chars = 0

    def add(self, server: ServerNames, tools: dict[str, ToolShape]) -> None:
        """List one server's tools."""
        listed: list[JsonValue] = [self._tool(server, tool) for tool in tools.values()]
        title = clip(one_line(server.title), DESCRIPTION_CHARS_MAX)
        self._servers.append({"id": server.server_id, "module": server.module, "title": title, "tools": listed})

    def text(self) -> str:
        """The file."""
        return json.dumps({"version": 1, "servers": self._servers}, separators=(",", ":")) + "\n"

    def _tool(self, server: ServerNames, tool: ToolShape) -> JsonObject:
        names, members = server.tools[tool.name], tool.input.members
        parameters: list[JsonValue] = []
        if self._detail_chars <= DETAIL_CHARS_MAX:
            parameters = [self._parameter(member) for member in members[:PARAMETERS_MAX]]
        return {
            "name": tool.name,
            "python": names.function,
            "node": names.node,
            "summary": summary(tool),
            "readOnly": tool.hints.read_only is True,  # the server's own claim
            "parameters": parameters if self._detail_chars <= DETAIL_CHARS_MAX else None,
            "parameterCount": len(members),
        }

    def _parameter(self, member: Member) -> JsonObject:
        kind = clip(type_text(member.type, {}).replace(ANY_OBJECT, "object"), TYPE_CHARS_MAX)
        about = clip(one_line(member.description[: 2 * DESCRIPTION_CHARS_MAX]), DESCRIPTION_CHARS_MAX)
        self._detail_chars += len(member.wire_name) + len(kind) + len(about)
        return {"name": member.wire_name, "type": kind, "required": member.required, "description": about}


TOOLS_LISTED_MAX: Final = 500
SERVERS_LISTED_MAX: Final = 500


def render_index(server: ServerNames, tools: Mapping[str, ToolShape]) -> str:
    """`servers/<module>/INDEX.md`: one line for each tool."""
    lines = [_line(server.tools[name].function, tool) for name, tool in tools.items()]
    head = f"# {server_title(server)}\n\nPackage `servers.{server.module}`"
    return "\n".join(
        [f"{head}, {count_tools(lines)}. `help(servers.{server.module}.<tool>)` tells more.", "", *lines, ""]
    )


def render_root_index(servers: Sequence[tuple[ServerNames, Mapping[str, ToolShape]]]) -> str:
    """`servers/INDEX.md`: all servers, with their tools unless there are too many."""
    whole = sum(len(tools) for _, tools in servers) <= TOOLS_LISTED_MAX
    lines = ["# Tools", "", "`from client.catalog import search` finds them by words."]
    for server, tools in servers[:SERVERS_LISTED_MAX]:
        lines += [""] if whole else []
        lines.append(
            f"- `servers.{server.module}` ({count_tools(tools)}): {server_title(server)}; see {server.module}/INDEX.md"
        )
        lines += [f"  {_line(server.tools[name].function, tool)}" for name, tool in tools.items()] if whole else []
    if len(servers) > SERVERS_LISTED_MAX:
        lines.append(f"- and {len(servers) - SERVERS_LISTED_MAX} more servers")
    return "\n".join([*lines, ""])


def _line(function: str, tool: ToolShape) -> str:
    return f"- `{function}({', '.join(_brief(tool.input))})`: {summary(tool)}"


def _brief(shape: ObjectShape) -> Iterator[str]:
    for member in shape.members[:12]:
        yield member.identifier if member.required else f"{member.identifier}=…"
    if len(shape.members) > 12:
        yield "…"
