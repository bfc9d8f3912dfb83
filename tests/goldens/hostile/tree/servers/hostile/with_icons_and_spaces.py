"""Tool "with icons and spaces" of the server "hostile". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class WithIconsAndSpacesInput(TypedDict):
    x: NotRequired[str]


async def with_icons_and_spaces(
    arguments: WithIconsAndSpacesInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """Icon.

    Arguments, in one dict or as keywords:
        x (str, optional)
    """
    return await call_tool(server_id="hostile", name="with icons and spaces", arguments=pack(arguments, kwargs))


def with_icons_and_spaces_sync(
    arguments: WithIconsAndSpacesInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """`with_icons_and_spaces` without `await`."""
    return call_tool_sync(server_id="hostile", name="with icons and spaces", arguments=pack(arguments, kwargs))
