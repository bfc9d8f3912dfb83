"""Tool "__all__" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class AllInput(TypedDict):
    value: NotRequired[str]


async def _all__(arguments: AllInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 18.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="__all__", arguments=pack(arguments, kwargs))


def _all___sync(arguments: AllInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_all__` without `await`."""
    return call_tool_sync(server_id="my-server", name="__all__", arguments=pack(arguments, kwargs))
