"""Tool "recursive_result" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class RecursiveResultResult(TypedDict):
    name: str
    children: NotRequired[list[RecursiveResultResult]]


async def recursive_result(
    arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[RecursiveResultResult]:
    """Gives a tree.

    Takes no arguments.

    Returns RecursiveResultResult

    Objects, as dicts (? marks members that may be left out):
        RecursiveResultResult: {name: str, children?: list[RecursiveResultResult]}
    """
    return await call_tool(server_id="odd", name="recursive_result", arguments=pack(arguments, kwargs))


def recursive_result_sync(
    arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[RecursiveResultResult]:
    """`recursive_result` without `await`."""
    return call_tool_sync(server_id="odd", name="recursive_result", arguments=pack(arguments, kwargs))
