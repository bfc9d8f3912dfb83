"""Tool ".." of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class _5ec1f7Input(TypedDict):
    value: NotRequired[str]


async def _5ec1f7(arguments: _5ec1f7Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 29.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="..", arguments=pack(arguments, kwargs))


def _5ec1f7_sync(arguments: _5ec1f7Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_5ec1f7` without `await`."""
    return call_tool_sync(server_id="my-server", name="..", arguments=pack(arguments, kwargs))
