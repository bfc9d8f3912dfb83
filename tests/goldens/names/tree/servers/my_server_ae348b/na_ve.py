"""Tool "naïve" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class NaVeInput(TypedDict):
    value: NotRequired[str]


async def na_ve(arguments: NaVeInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 24.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="naïve", arguments=pack(arguments, kwargs))


def na_ve_sync(arguments: NaVeInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`na_ve` without `await`."""
    return call_tool_sync(server_id="my-server", name="naïve", arguments=pack(arguments, kwargs))
