"""Tool "self" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class SelfInput(TypedDict):
    value: NotRequired[str]


async def self(arguments: SelfInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 34.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="self", arguments=pack(arguments, kwargs))


def self_sync(arguments: SelfInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`self` without `await`."""
    return call_tool_sync(server_id="my-server", name="self", arguments=pack(arguments, kwargs))
