"""Tool "external_refs" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class ExternalRefsInput(TypedDict):
    a: NotRequired[Any]
    b: NotRequired[Any]
    c: NotRequired[Any]
    d: NotRequired[Any]


async def external_refs(arguments: ExternalRefsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The external_refs case.

    Arguments, in one dict or as keywords:
        a (Any, optional)
        b (Any, optional)
        c (Any, optional)
        d (Any, optional)
    """
    return await call_tool(server_id="odd", name="external_refs", arguments=pack(arguments, kwargs))


def external_refs_sync(arguments: ExternalRefsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`external_refs` without `await`."""
    return call_tool_sync(server_id="odd", name="external_refs", arguments=pack(arguments, kwargs))
