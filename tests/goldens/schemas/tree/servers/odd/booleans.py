"""Tool "booleans" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class BooleansInput(TypedDict):
    anything: NotRequired[Any]
    nothing: NotRequired[Any]
    list: NotRequired[list[Any]]
    fixed: NotRequired[list[str | int]]


async def booleans(arguments: BooleansInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The booleans case.

    Arguments, in one dict or as keywords:
        anything (Any, optional)
        nothing (Any, optional)
        list (list[Any], optional)
        fixed (list[str | int], optional)
    """
    return await call_tool(server_id="odd", name="booleans", arguments=pack(arguments, kwargs))


def booleans_sync(arguments: BooleansInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`booleans` without `await`."""
    return call_tool_sync(server_id="odd", name="booleans", arguments=pack(arguments, kwargs))
