"""Tool "getUser" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetUserInput(TypedDict):
    value: NotRequired[str]


async def getUser(arguments: GetUserInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 8.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="getUser", arguments=pack(arguments, kwargs))


def getUser_sync(arguments: GetUserInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`getUser` without `await`."""
    return call_tool_sync(server_id="my-server", name="getUser", arguments=pack(arguments, kwargs))
