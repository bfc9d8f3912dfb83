"""Tool "one_of_members" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Target(TypedDict):
    kind: Literal["page"]
    page_id: str


class Target2(TypedDict):
    kind: Literal["db"]
    db_id: str


class OneOfMembersInput(TypedDict):
    target: NotRequired[Target | Target2]
    id: NotRequired[str | int | None]


async def one_of_members(arguments: OneOfMembersInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The one_of_members case.

    Arguments, in one dict or as keywords:
        target (Target | Target2, optional)
        id (str | int | None, optional)

    Objects, as dicts (? marks members that may be left out):
        Target: {kind: Literal["page"], page_id: str}
        Target2: {kind: Literal["db"], db_id: str}
    """
    return await call_tool(server_id="odd", name="one_of_members", arguments=pack(arguments, kwargs))


def one_of_members_sync(arguments: OneOfMembersInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`one_of_members` without `await`."""
    return call_tool_sync(server_id="odd", name="one_of_members", arguments=pack(arguments, kwargs))
