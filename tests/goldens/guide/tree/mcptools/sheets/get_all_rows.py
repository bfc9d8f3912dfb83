"""Tool "get_all_rows" of the server "sheets". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Params(Model):
    sheetId: str
    """Name or ID of the sheet."""
    limit: int = 1000
    """How many rows at most. (>= 1, <= 10000)"""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """All rows of a sheet.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="sheets",
        name="get_all_rows",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="sheets",
        name="get_all_rows",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
