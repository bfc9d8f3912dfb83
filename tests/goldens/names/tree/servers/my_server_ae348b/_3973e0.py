"""Tool "-" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class _3973e0Input(TypedDict):
    value: NotRequired[str]


async def _3973e0(arguments: _3973e0Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 13.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="-", arguments=pack(arguments, kwargs))


def _3973e0_sync(arguments: _3973e0Input | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_3973e0` without `await`."""
    return call_tool_sync(server_id="my-server", name="-", arguments=pack(arguments, kwargs))
