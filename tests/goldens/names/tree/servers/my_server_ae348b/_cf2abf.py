"""Tool "日本" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Cf2abfInput(TypedDict):
    value: NotRequired[str]


async def _cf2abf(arguments: Cf2abfInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 25.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="日本", arguments=pack(arguments, kwargs))


def _cf2abf_sync(arguments: Cf2abfInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`_cf2abf` without `await`."""
    return call_tool_sync(server_id="my-server", name="日本", arguments=pack(arguments, kwargs))
