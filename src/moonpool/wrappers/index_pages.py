"""IR -> `INDEX.md`: what there is, one line for each tool, to be read by a person or by code in a sandbox.

There is one page per server, and one for all of them, which lists at most `TOOLS_LISTED_MAX` tools and
`SERVERS_LISTED_MAX` servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.wrappers.servers_tree import count_tools, server_title, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from moonpool.wrappers.ir import ObjectShape, ToolShape
    from moonpool.wrappers.names import ServerNames

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
    """`servers/INDEX.md`: all servers, with their tools as long as those are not too many."""
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
