"""Tool "null_schema" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


async def null_schema(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Call "null_schema"."""
    return await call_tool(server_id="odd", name="null_schema", arguments=pack(arguments, kwargs))


def null_schema_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`null_schema` without `await`."""
    return call_tool_sync(server_id="odd", name="null_schema", arguments=pack(arguments, kwargs))
