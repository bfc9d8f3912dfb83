"""Tool "constraints" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class ConstraintsInput(TypedDict):
    n: NotRequired[float]
    s: NotRequired[str]
    when: NotRequired[str]
    opt: NotRequired[int | None]
    tags: NotRequired[list[str]]


async def constraints(arguments: ConstraintsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The constraints case.

    Arguments, in one dict or as keywords:
        n (float, optional, > 0, multiple of 0.5): How much.
        s (str, optional, length <= 10, pattern ^[a-z]+$)
        when (str, optional, format date-time)
        opt (int | None, optional, >= 1): Maybe.
        tags (list[str], optional, default ["a"], items <= 3, items of format uri)
    """
    return await call_tool(server_id="odd", name="constraints", arguments=pack(arguments, kwargs))


def constraints_sync(arguments: ConstraintsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`constraints` without `await`."""
    return call_tool_sync(server_id="odd", name="constraints", arguments=pack(arguments, kwargs))
