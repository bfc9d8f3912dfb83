"""Tool "any_of_root" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class AnyOfRootInput(TypedDict):
    id: NotRequired[str]
    name: NotRequired[str]
    exact: NotRequired[bool]


async def any_of_root(arguments: AnyOfRootInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The any_of_root case.

    Arguments, in one dict or as keywords:
        id (str, optional)
        name (str, optional)
        exact (bool, optional, default False)
    """
    return await call_tool(server_id="odd", name="any_of_root", arguments=pack(arguments, kwargs))


def any_of_root_sync(arguments: AnyOfRootInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`any_of_root` without `await`."""
    return call_tool_sync(server_id="odd", name="any_of_root", arguments=pack(arguments, kwargs))
