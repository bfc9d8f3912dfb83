"""Tool "None" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class NoneInput(TypedDict):
    value: NotRequired[str]


async def None_(arguments: NoneInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 33.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="None", arguments=pack(arguments, kwargs))


def None__sync(arguments: NoneInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`None_` without `await`."""
    return call_tool_sync(server_id="my-server", name="None", arguments=pack(arguments, kwargs))
