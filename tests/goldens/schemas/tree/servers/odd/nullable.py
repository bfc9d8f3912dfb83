"""Tool "nullable" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class D(TypedDict):
    x: NotRequired[int]


class NullableInput(TypedDict):
    a: NotRequired[str | None]
    b: NotRequired[int | None]
    c: NotRequired[None]
    d: NotRequired[D | None]


async def nullable(arguments: NullableInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The nullable case.

    Arguments, in one dict or as keywords:
        a (str | None, optional)
        b (int | None, optional)
        c (None, optional)
        d (D | None, optional)

    Objects, as dicts (? marks members that may be left out):
        D: {x?: int}
    """
    return await call_tool(server_id="odd", name="nullable", arguments=pack(arguments, kwargs))


def nullable_sync(arguments: NullableInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`nullable` without `await`."""
    return call_tool_sync(server_id="odd", name="nullable", arguments=pack(arguments, kwargs))
