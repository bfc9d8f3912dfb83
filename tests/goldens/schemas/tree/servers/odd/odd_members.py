"""Tool "odd_members" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class OddMembersInput(TypedDict):
    a: NotRequired[str]


async def odd_members(arguments: OddMembersInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Call "odd_members".

    Arguments, in one dict or as keywords:
        a (str, optional)
    """
    return await call_tool(server_id="odd", name="odd_members", arguments=pack(arguments, kwargs))


def odd_members_sync(arguments: OddMembersInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`odd_members` without `await`."""
    return call_tool_sync(server_id="odd", name="odd_members", arguments=pack(arguments, kwargs))
