"""Tool "2fa" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class _2faInput(TypedDict):
    value: NotRequired[str]


async def _2fa(arguments: _2faInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 4.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="2fa", arguments=pack(arguments, kwargs))


def _2fa_sync(arguments: _2faInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_2fa` without `await`."""
    return call_tool_sync(server_id="my-server", name="2fa", arguments=pack(arguments, kwargs))
