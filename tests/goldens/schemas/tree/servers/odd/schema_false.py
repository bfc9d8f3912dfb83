"""Tool "schema_false" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


async def schema_false(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The schema_false case."""
    return await call_tool(server_id="odd", name="schema_false", arguments=pack(arguments, kwargs))


def schema_false_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`schema_false` without `await`."""
    return call_tool_sync(server_id="odd", name="schema_false", arguments=pack(arguments, kwargs))
