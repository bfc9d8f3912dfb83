"""Tool "annotations" of the server "my-server". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class AnnotationsInput(TypedDict):
    value: NotRequired[str]


async def annotations(arguments: AnnotationsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Tool 36.

    Arguments, in one dict or as keywords:
        value (str, optional)
    """
    return await call_tool(server_id="my-server", name="annotations", arguments=pack(arguments, kwargs))


def annotations_sync(arguments: AnnotationsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`annotations` without `await`."""
    return call_tool_sync(server_id="my-server", name="annotations", arguments=pack(arguments, kwargs))
