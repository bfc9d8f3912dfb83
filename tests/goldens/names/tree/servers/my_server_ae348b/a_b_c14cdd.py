"""Tool "a/b" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class ABC14cddInput(TypedDict):
    value: NotRequired[str]


async def a_b_c14cdd(arguments: ABC14cddInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 31.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="a/b", arguments=pack(arguments, kwargs))


def a_b_c14cdd_sync(arguments: ABC14cddInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`a_b_c14cdd` without `await`."""
    return call_tool_sync(server_id="my-server", name="a/b", arguments=pack(arguments, kwargs))
