"""Tool "get_all_rows" of the server "sheets". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetAllRowsInput(TypedDict):
    sheetId: str
    limit: NotRequired[int]


async def get_all_rows(arguments: GetAllRowsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """All rows of a sheet.

    Arguments, in one dict or as keywords:
        sheetId (str): Name or ID of the sheet.
        limit (int, optional, default 1000, >= 1, <= 10000): How many rows at most.
    """
    return await call_tool(server_id="sheets", name="get_all_rows", arguments=pack(arguments, kwargs))


def get_all_rows_sync(arguments: GetAllRowsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`get_all_rows` without `await`."""
    return call_tool_sync(server_id="sheets", name="get_all_rows", arguments=pack(arguments, kwargs))
