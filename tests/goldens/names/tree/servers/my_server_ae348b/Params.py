"""Tool "Params" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class ParamsInput(TypedDict):
    value: NotRequired[str]


async def Params(arguments: ParamsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 20.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="Params", arguments=pack(arguments, kwargs))


def Params_sync(arguments: ParamsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`Params` without `await`."""
    return call_tool_sync(server_id="my-server", name="Params", arguments=pack(arguments, kwargs))
