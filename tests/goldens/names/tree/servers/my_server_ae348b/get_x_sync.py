"""Tool "get_x_sync" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetXSyncInput(TypedDict):
    value: NotRequired[str]


async def get_x_sync(arguments: GetXSyncInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 11.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="get_x_sync", arguments=pack(arguments, kwargs))


def get_x_sync_sync(arguments: GetXSyncInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`get_x_sync` without `await`."""
    return call_tool_sync(server_id="my-server", name="get_x_sync", arguments=pack(arguments, kwargs))
