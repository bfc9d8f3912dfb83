"""Tool "list" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class ListInput(TypedDict):
    value: NotRequired[str]


async def list_(arguments: ListInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 16.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="list", arguments=pack(arguments, kwargs))


def list__sync(arguments: ListInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`list_` without `await`."""
    return call_tool_sync(server_id="my-server", name="list", arguments=pack(arguments, kwargs))
