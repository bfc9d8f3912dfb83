"""Tool "odd_result" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


OddResultResult = TypedDict("OddResultResult", {
    "from": "NotRequired[str]",
    "a-b": "NotRequired[int]",
    "model_dump": "NotRequired[str]",
    "result": "NotRequired[list[int]]",
})


async def odd_result(
    arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[OddResultResult]:
    """Result members with odd names.

    Takes no arguments.

    Returns OddResultResult

    Objects, as dicts (? marks members that may be left out):
        OddResultResult: {"from"?: str, "a-b"?: int, "model_dump"?: str, result?: list[int]}
    """
    return await call_tool(server_id="odd", name="odd_result", arguments=pack(arguments, kwargs))


def odd_result_sync(
    arguments: dict[str, Any] | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[OddResultResult]:
    """`odd_result` without `await`."""
    return call_tool_sync(server_id="odd", name="odd_result", arguments=pack(arguments, kwargs))
