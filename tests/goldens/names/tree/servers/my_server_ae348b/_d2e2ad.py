"""Tool "_" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class D2e2adInput(TypedDict):
    value: NotRequired[str]


async def _d2e2ad(arguments: D2e2adInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 14.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="_", arguments=pack(arguments, kwargs))


def _d2e2ad_sync(arguments: D2e2adInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_d2e2ad` without `await`."""
    return call_tool_sync(server_id="my-server", name="_", arguments=pack(arguments, kwargs))
