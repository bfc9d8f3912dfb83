"""Tool "__getattr__" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetattrInput(TypedDict):
    value: NotRequired[str]


async def _getattr__(arguments: GetattrInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 19.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="__getattr__", arguments=pack(arguments, kwargs))


def _getattr___sync(arguments: GetattrInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_getattr__` without `await`."""
    return call_tool_sync(server_id="my-server", name="__getattr__", arguments=pack(arguments, kwargs))
