"""Tool "no_arguments" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


async def no_arguments(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The no_arguments case.

    Takes no arguments.
    """
    return await call_tool(server_id="odd", name="no_arguments", arguments=pack(arguments, kwargs))


def no_arguments_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`no_arguments` without `await`."""
    return call_tool_sync(server_id="odd", name="no_arguments", arguments=pack(arguments, kwargs))
