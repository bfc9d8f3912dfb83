"""Tool "GetUser" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetUserInput(TypedDict):
    value: NotRequired[str]


async def GetUser(arguments: GetUserInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 9.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="GetUser", arguments=pack(arguments, kwargs))


def GetUser_sync(arguments: GetUserInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`GetUser` without `await`."""
    return call_tool_sync(server_id="my-server", name="GetUser", arguments=pack(arguments, kwargs))
