"""Tool "list_result" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Result(TypedDict):
    a: NotRequired[int]


async def list_result(
    arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[list[Result]]:
    """Gives a list.

    Takes no arguments.

    Returns list[Result]

    Objects, as dicts (? marks members that may be left out):
        Result: {a?: int}
    """
    return await call_tool(server_id="odd", name="list_result", arguments=pack(arguments, kwargs))


def list_result_sync(arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any) -> ToolCallResult[list[Result]]:
    """`list_result` without `await`."""
    return call_tool_sync(server_id="odd", name="list_result", arguments=pack(arguments, kwargs))
