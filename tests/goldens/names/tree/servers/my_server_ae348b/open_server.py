"""Tool "open_server" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class OpenServerInput(TypedDict):
    value: NotRequired[str]


async def open_server(arguments: OpenServerInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 17.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="open_server", arguments=pack(arguments, kwargs))


def open_server_sync(arguments: OpenServerInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`open_server` without `await`."""
    return call_tool_sync(server_id="my-server", name="open_server", arguments=pack(arguments, kwargs))
