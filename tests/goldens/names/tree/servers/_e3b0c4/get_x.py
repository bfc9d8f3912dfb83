"""Tool "get_x" of the server "". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetXInput(TypedDict):
    value: NotRequired[str]


async def get_x(arguments: GetXInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 1.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="", name="get_x", arguments=pack(arguments, kwargs))


def get_x_sync(arguments: GetXInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`get_x` without `await`."""
    return call_tool_sync(server_id="", name="get_x", arguments=pack(arguments, kwargs))
