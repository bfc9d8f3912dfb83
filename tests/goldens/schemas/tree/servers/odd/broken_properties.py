"""Tool "broken_properties" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


async def broken_properties(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The broken_properties case."""
    return await call_tool(server_id="odd", name="broken_properties", arguments=pack(arguments, kwargs))


def broken_properties_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`broken_properties` without `await`."""
    return call_tool_sync(server_id="odd", name="broken_properties", arguments=pack(arguments, kwargs))
