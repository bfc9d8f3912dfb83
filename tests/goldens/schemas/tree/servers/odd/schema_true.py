"""Tool "schema_true" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


async def schema_true(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The schema_true case."""
    return await call_tool(server_id="odd", name="schema_true", arguments=pack(arguments, kwargs))


def schema_true_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`schema_true` without `await`."""
    return call_tool_sync(server_id="odd", name="schema_true", arguments=pack(arguments, kwargs))
