"""IR -> `index.json` at the root of a tree: which tools there are, for programs.

The command `moonpool tools` in a sandbox reads it. Types are written as TypeScript writes them, because arguments are
given as JSON there; what is inside an object is not told. `id` and `name` are what a call takes.

INVARIANT: bounded. A tool's part has at most `PARAMETERS_MAX` parameters of short texts, and once `DETAIL_CHARS_MAX` is
spent, later tools are listed without their parameters (`"parameters": null`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from moonpool.wrappers.leaf_schemas import clip
from moonpool.wrappers.quoting import one_line
from moonpool.wrappers.servers_tree import summary
from moonpool.wrappers.typescript_types import ANY_OBJECT, type_text

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.wrappers.ir import Member, ToolShape
    from moonpool.wrappers.names import ServerNames

PARAMETERS_MAX: Final = 64
TYPE_CHARS_MAX: Final = 160
DESCRIPTION_CHARS_MAX: Final = 200
DETAIL_CHARS_MAX: Final = 4 * 1024**2


class ToolIndex:
    """Collects servers in the manifest's order and gives the file."""

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
            "readOnly": tool.hints.read_only is True,  # the server's own word
            "parameters": parameters if self._detail_chars <= DETAIL_CHARS_MAX else None,
            "parameterCount": len(members),
        }

    def _parameter(self, member: Member) -> JsonObject:
        kind = clip(type_text(member.type, {}).replace(ANY_OBJECT, "object"), TYPE_CHARS_MAX)
        about = clip(one_line(member.description[: 2 * DESCRIPTION_CHARS_MAX]), DESCRIPTION_CHARS_MAX)
        self._detail_chars += len(member.wire_name) + len(kind) + len(about)
        return {"name": member.wire_name, "type": kind, "required": member.required, "description": about}
