"""Tool "getuser" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetuserInput(TypedDict):
    value: NotRequired[str]


async def getuser(arguments: GetuserInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 10.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="getuser", arguments=pack(arguments, kwargs))


def getuser_sync(arguments: GetuserInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`getuser` without `await`."""
    return call_tool_sync(server_id="my-server", name="getuser", arguments=pack(arguments, kwargs))
