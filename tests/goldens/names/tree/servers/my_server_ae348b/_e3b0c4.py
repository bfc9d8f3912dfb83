"""Tool "" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class E3b0c4Input(TypedDict):
    value: NotRequired[str]


async def _e3b0c4(arguments: E3b0c4Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 12.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="", arguments=pack(arguments, kwargs))


def _e3b0c4_sync(arguments: E3b0c4Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_e3b0c4` without `await`."""
    return call_tool_sync(server_id="my-server", name="", arguments=pack(arguments, kwargs))
