"""Tool "class" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class ClassInput(TypedDict):
    value: NotRequired[str]


async def class_(arguments: ClassInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 3.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="class", arguments=pack(arguments, kwargs))


def class__sync(arguments: ClassInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`class_` without `await`."""
    return call_tool_sync(server_id="my-server", name="class", arguments=pack(arguments, kwargs))
