"""Tool "run" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class RunInput(TypedDict):
    value: NotRequired[str]


async def run(arguments: RunInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 21.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="run", arguments=pack(arguments, kwargs))


def run_sync(arguments: RunInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`run` without `await`."""
    return call_tool_sync(server_id="my-server", name="run", arguments=pack(arguments, kwargs))
