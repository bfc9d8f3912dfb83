"""Tool "has newline" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class HasNewlineInput(TypedDict):
    value: NotRequired[str]


async def has_newline(arguments: HasNewlineInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 27.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="has\nnewline", arguments=pack(arguments, kwargs))


def has_newline_sync(arguments: HasNewlineInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`has_newline` without `await`."""
    return call_tool_sync(server_id="my-server", name="has\nnewline", arguments=pack(arguments, kwargs))
