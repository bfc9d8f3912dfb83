"""Tool "get-x" of the server "class". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetXE64bf8Input(TypedDict):
    value: NotRequired[str]


async def get_x_e64bf8(arguments: GetXE64bf8Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 0.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="class", name="get-x", arguments=pack(arguments, kwargs))


def get_x_e64bf8_sync(arguments: GetXE64bf8Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`get_x_e64bf8` without `await`."""
    return call_tool_sync(server_id="class", name="get-x", arguments=pack(arguments, kwargs))
