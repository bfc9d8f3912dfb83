"""Tool "maps" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class OfObject(TypedDict):
    n: NotRequired[int]


class MapsInput(TypedDict):
    labels: NotRequired[dict[str, str]]
    pattern: NotRequired[dict[str, int]]
    free: NotRequired[dict[str, Any]]
    of_objects: NotRequired[dict[str, OfObject]]


async def maps(arguments: MapsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """The maps case.

    Arguments, in one dict or as keywords:
        labels (dict[str, str], optional)
        pattern (dict[str, int], optional)
        free (dict[str, Any], optional)
        of_objects (dict[str, OfObject], optional)

    Objects, as dicts (? marks members that may be left out):
        OfObject: {n?: int}
    """
    return await call_tool(server_id="odd", name="maps", arguments=pack(arguments, kwargs))


def maps_sync(arguments: MapsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`maps` without `await`."""
    return call_tool_sync(server_id="odd", name="maps", arguments=pack(arguments, kwargs))
