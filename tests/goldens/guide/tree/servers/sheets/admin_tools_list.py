"""Tool "admin.tools.list" of the server "sheets". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


async def admin_tools_list(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """List what administrators may do.

    Takes no arguments.
    """
    return await call_tool(server_id="sheets", name="admin.tools.list", arguments=pack(arguments, kwargs))


def admin_tools_list_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`admin_tools_list` without `await`."""
    return call_tool_sync(server_id="sheets", name="admin.tools.list", arguments=pack(arguments, kwargs))
