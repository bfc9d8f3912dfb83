"""What a tool of the profile is, and the table of all of them.

Names, parameters and texts are those of codegen-sandbox, which models are used to; descriptions and annotations are
ours. A new tool is one entry here and a function in a module of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.server.mcp.codegen.reading import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.server.mcp.codegen.workspace import Workspace

PROFILE: Final = "codegen"
_READS: Final[JsonObject] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTool:
    """One tool. `work` returns the text of its result; it raises ToolError for what its user can put right."""

    name: str
    description: str
    parameters: JsonObject  # by name, each a JSON Schema
    required: tuple[str, ...]
    annotations: JsonObject
    work: Callable[[Workspace, Mapping[str, JsonValue]], Awaitable[str]]

    @property
    def definition(self) -> JsonObject:
        """As `tools/list` gives it."""
        schema: JsonObject = {"type": "object", "properties": self.parameters, "required": list(self.required)}
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": schema,
            "annotations": self.annotations,
        }


_ALL: Final = (
    WorkspaceTool(
        name="Read",
        description=(
            "Read a text file of the workspace. Each line comes with its number and a tab. Returns 2,000 lines unless "
            "limit says otherwise; use offset to go on."
        ),
        parameters={
            "file_path": {"type": "string", "description": "Path of the file, relative to the workspace."},
            "offset": {"type": "number", "description": "The first line to return, counted from 1. Default: 1."},
            "limit": {"type": "number", "description": "How many lines to return. Default: 2000."},
        },
        required=("file_path",),
        annotations=_READS,
        work=read,
    ),
)
TOOLS: Final = {tool.name: tool for tool in _ALL}
