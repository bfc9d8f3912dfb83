"""Tool "get.x" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetXE8860cInput(TypedDict):
    value: NotRequired[str]


async def get_x_e8860c(arguments: GetXE8860cInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 2.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="get.x", arguments=pack(arguments, kwargs))


def get_x_e8860c_sync(arguments: GetXE8860cInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`get_x_e8860c` without `await`."""
    return call_tool_sync(server_id="my-server", name="get.x", arguments=pack(arguments, kwargs))
