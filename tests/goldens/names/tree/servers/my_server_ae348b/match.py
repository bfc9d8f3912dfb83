"""Tool "match" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class MatchInput(TypedDict):
    value: NotRequired[str]


async def match(arguments: MatchInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 22.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="match", arguments=pack(arguments, kwargs))


def match_sync(arguments: MatchInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`match` without `await`."""
    return call_tool_sync(server_id="my-server", name="match", arguments=pack(arguments, kwargs))
