"""Tool "tuples" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class TuplesInput(TypedDict):
    new: NotRequired[list[str | float | None]]
    old: NotRequired[list[str | int]]


async def tuples(arguments: TuplesInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The tuples case.

    Arguments, in one dict or as keywords:
        new (list[str | float | None], optional)
        old (list[str | int], optional)
    """
    return await call_tool(server_id="odd", name="tuples", arguments=pack(arguments, kwargs))


def tuples_sync(arguments: TuplesInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`tuples` without `await`."""
    return call_tool_sync(server_id="odd", name="tuples", arguments=pack(arguments, kwargs))
