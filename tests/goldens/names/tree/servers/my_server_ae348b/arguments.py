"""Tool "arguments" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class ArgumentsInput(TypedDict):
    value: NotRequired[str]


async def arguments(arguments: ArgumentsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 35.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="arguments", arguments=pack(arguments, kwargs))


def arguments_sync(arguments: ArgumentsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`arguments` without `await`."""
    return call_tool_sync(server_id="my-server", name="arguments", arguments=pack(arguments, kwargs))
