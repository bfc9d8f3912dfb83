"""Tool "all_of" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class AllOfInput(TypedDict):
    a: str
    b: int


async def all_of(arguments: AllOfInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The all_of case.

    Arguments, in one dict or as keywords:
        a (str): From the base.
        b (int)
    """
    return await call_tool(server_id="odd", name="all_of", arguments=pack(arguments, kwargs))


def all_of_sync(arguments: AllOfInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`all_of` without `await`."""
    return call_tool_sync(server_id="odd", name="all_of", arguments=pack(arguments, kwargs))
