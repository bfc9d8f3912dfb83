"""Tool "__init__" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class InitInput(TypedDict):
    value: NotRequired[str]


async def _init__(arguments: InitInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 5.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="__init__", arguments=pack(arguments, kwargs))


def _init___sync(arguments: InitInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_init__` without `await`."""
    return call_tool_sync(server_id="my-server", name="__init__", arguments=pack(arguments, kwargs))
