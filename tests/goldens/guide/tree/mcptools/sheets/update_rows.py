"""Tool "update-rows" of the server "sheets". Generated; do not edit."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Mode(StrEnum):
    merge = "merge"
    replace_ = "replace"


class Row(Model):
    index: int
    cells: dict[str, str | float | None]


class Params(Model):
    sheetId: str
    rows: list[Row]
    """(items >= 1)"""
    mode: Mode | str = "merge"


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """Change rows.

    Only the cells given are changed; the others stay.

    The server says that this tool may destroy data and is safe to repeat.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="sheets",
        name="update-rows",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="sheets",
        name="update-rows",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
