"""Tool "print" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class PrintInput(TypedDict):
    value: NotRequired[str]


async def print(arguments: PrintInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 32.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="print", arguments=pack(arguments, kwargs))


def print_sync(arguments: PrintInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`print` without `await`."""
    return call_tool_sync(server_id="my-server", name="print", arguments=pack(arguments, kwargs))
