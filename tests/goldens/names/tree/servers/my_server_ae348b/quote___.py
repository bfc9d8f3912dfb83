"""Tool 'quote"\\'\\\\' of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class QuoteInput(TypedDict):
    value: NotRequired[str]


async def quote___(arguments: QuoteInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 28.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name='quote"\'\\', arguments=pack(arguments, kwargs))


def quote____sync(arguments: QuoteInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`quote___` without `await`."""
    return call_tool_sync(server_id="my-server", name='quote"\'\\', arguments=pack(arguments, kwargs))
