"""Tool "update-rows" of the server "sheets". Generated; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Row(TypedDict):
    index: int
    cells: dict[str, str | float | None]


class UpdateRowsInput(TypedDict):
    sheetId: str
    rows: list[Row]
    mode: NotRequired[Literal["merge", "replace"]]


async def update_rows(arguments: UpdateRowsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """Change rows.

    Only the cells given are changed; the others stay.

    Arguments, in one dict or as keywords:
        sheetId (str)
        rows (list[Row], items >= 1)
        mode (Literal["merge", "replace"], optional, default "merge")

    Objects, as dicts (? marks members that may be left out):
        Row: {index: int, cells: dict[str, str | float | None]}

    The server says that this tool may destroy data and is safe to repeat.
    """
    return await call_tool(server_id="sheets", name="update-rows", arguments=pack(arguments, kwargs))


def update_rows_sync(arguments: UpdateRowsInput | Model | None = None, /, **kwargs: Any) -> ToolCallResult[Any]:
    """`update_rows` without `await`."""
    return call_tool_sync(server_id="sheets", name="update-rows", arguments=pack(arguments, kwargs))
