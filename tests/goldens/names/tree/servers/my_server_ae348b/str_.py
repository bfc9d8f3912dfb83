"""Tool "str" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class StrInput(TypedDict):
    value: NotRequired[str]


async def str_(arguments: StrInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 23.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="str", arguments=pack(arguments, kwargs))


def str__sync(arguments: StrInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`str_` without `await`."""
    return call_tool_sync(server_id="my-server", name="str", arguments=pack(arguments, kwargs))
