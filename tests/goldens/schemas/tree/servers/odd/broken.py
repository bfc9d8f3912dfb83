"""Tool "broken" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class BrokenInput(TypedDict):
    a: Any
    b: NotRequired[Any]
    c: NotRequired[Any]
    d: NotRequired[Any]
    e: NotRequired[Any]
    f: NotRequired[Any]
    g: NotRequired[Any]
    h: NotRequired[Any]
    i: NotRequired[list[Any]]


async def broken(arguments: BrokenInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The broken case.

    Arguments, in one dict or as keywords:
        a (Any)
        b (Any, optional)
        c (Any, optional)
        d (Any, optional)
        e (Any, optional)
        f (Any, optional)
        g (Any, optional)
        h (Any, optional)
        i (list[Any], optional)
    """
    return await call_tool(server_id="odd", name="broken", arguments=pack(arguments, kwargs))


def broken_sync(arguments: BrokenInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`broken` without `await`."""
    return call_tool_sync(server_id="odd", name="broken", arguments=pack(arguments, kwargs))
