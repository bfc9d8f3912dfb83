"""Tool "pack" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class PackInput(TypedDict):
    value: NotRequired[str]


async def pack_(arguments: PackInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 37.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="pack", arguments=pack(arguments, kwargs))


def pack__sync(arguments: PackInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`pack_` without `await`."""
    return call_tool_sync(server_id="my-server", name="pack", arguments=pack(arguments, kwargs))
