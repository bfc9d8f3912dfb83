"""Tool "call_tool" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class CallToolInput(TypedDict):
    value: NotRequired[str]


async def call_tool_(arguments: CallToolInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 15.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="call_tool", arguments=pack(arguments, kwargs))


def call_tool__sync(arguments: CallToolInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`call_tool_` without `await`."""
    return call_tool_sync(server_id="my-server", name="call_tool", arguments=pack(arguments, kwargs))
