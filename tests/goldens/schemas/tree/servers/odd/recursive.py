"""Tool "recursive" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Node(TypedDict):
    name: str
    children: NotRequired[list[Node]]


class RecursiveInput(TypedDict):
    tree: NotRequired[Node]
    self: NotRequired[RecursiveInput]
    loop: NotRequired[Any]
    deep: NotRequired[list[Any]]


async def recursive(arguments: RecursiveInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The recursive case.

    Arguments, in one dict or as keywords:
        tree (Node, optional)
        self (RecursiveInput, optional)
        loop (Any, optional)
        deep (list[Any], optional)

    Objects, as dicts (? marks members that may be left out):
        Node: {name: str, children?: list[Node]}
    """
    return await call_tool(server_id="odd", name="recursive", arguments=pack(arguments, kwargs))


def recursive_sync(arguments: RecursiveInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`recursive` without `await`."""
    return call_tool_sync(server_id="odd", name="recursive", arguments=pack(arguments, kwargs))
