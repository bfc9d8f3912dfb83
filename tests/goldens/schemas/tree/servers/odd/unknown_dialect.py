"""Tool "unknown_dialect" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class UnknownDialectInput(TypedDict):
    a: NotRequired[str]


async def unknown_dialect(
    arguments: UnknownDialectInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """The unknown_dialect case.

    Arguments, in one dict or as keywords:
        a (str, optional)
    """
    return await call_tool(server_id="odd", name="unknown_dialect", arguments=pack(arguments, kwargs))


def unknown_dialect_sync(arguments: UnknownDialectInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`unknown_dialect` without `await`."""
    return call_tool_sync(server_id="odd", name="unknown_dialect", arguments=pack(arguments, kwargs))
