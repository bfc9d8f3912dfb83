"""Tool "references" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


ReferencesInput = TypedDict("ReferencesInput", {
    "a/b~c": "NotRequired[str]",
    "x": "NotRequired[str]",
    "y": "NotRequired[int]",
})


WIRE_NAMES = {"a_b_c": "a/b~c"}


async def references(arguments: ReferencesInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The references case.

    Arguments, in one dict or as keywords:
        a_b_c (str, optional, sent as "a/b~c")
        x (str, optional)
        y (int, optional)
    """
    return await call_tool(server_id="odd", name="references", arguments=pack(arguments, kwargs, WIRE_NAMES))


def references_sync(arguments: ReferencesInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`references` without `await`."""
    return call_tool_sync(server_id="odd", name="references", arguments=pack(arguments, kwargs, WIRE_NAMES))
