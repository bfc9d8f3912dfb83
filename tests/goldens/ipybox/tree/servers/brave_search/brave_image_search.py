"""Tool "brave_image_search" of the server "brave_search". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Properties(TypedDict):
    url: str
    width: NotRequired[int]


class Item(TypedDict):
    title: str
    properties: Properties


class BraveImageSearchResult(TypedDict):
    items: list[Item]
    might_be_offensive: NotRequired[bool]


class BraveImageSearchInput(TypedDict):
    query: str
    count: NotRequired[int]


async def brave_image_search(
    arguments: BraveImageSearchInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[BraveImageSearchResult]:
    """Search the web for images.

    Arguments, in one dict or as keywords:
        query (str, length <= 400): The search query.
        count (int, optional, default 50, >= 1, <= 200)

    Returns BraveImageSearchResult

    Objects, as dicts (? marks members that may be left out):
        Properties: {url: str, width?: int}
        Item: {title: str, properties: Properties}
        BraveImageSearchResult: {items: list[Item], might_be_offensive?: bool}
    """
    return await call_tool(server_id="brave_search", name="brave_image_search", arguments=pack(arguments, kwargs))


def brave_image_search_sync(
    arguments: BraveImageSearchInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[BraveImageSearchResult]:
    """`brave_image_search` without `await`."""
    return call_tool_sync(server_id="brave_search", name="brave_image_search", arguments=pack(arguments, kwargs))
