"""Tool "not_an_object" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


async def not_an_object(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The not_an_object case."""
    return await call_tool(server_id="odd", name="not_an_object", arguments=pack(arguments, kwargs))


def not_an_object_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`not_an_object` without `await`."""
    return call_tool_sync(server_id="odd", name="not_an_object", arguments=pack(arguments, kwargs))
