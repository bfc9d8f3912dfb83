"""Tool "get_current_time" of the server "time". Generated; do not edit."""

from __future__ import annotations

from typing import Any, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class GetCurrentTimeResult(TypedDict):
    timezone: str
    datetime: str
    day_of_week: str
    is_dst: bool


class GetCurrentTimeInput(TypedDict):
    timezone: str


async def get_current_time(
    arguments: GetCurrentTimeInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[GetCurrentTimeResult]:
    """Get current time in a specific timezone

    Arguments, in one dict or as keywords:
        timezone (str): IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' as local
            timezone if no timezone provided by the user.

    Returns GetCurrentTimeResult

    Objects, as dicts (? marks members that may be left out):
        GetCurrentTimeResult: {timezone: str, datetime: str, day_of_week: str, is_dst: bool}

    The server says that this tool only reads.
    """
    return await call_tool(server_id="time", name="get_current_time", arguments=pack(arguments, kwargs))


def get_current_time_sync(
    arguments: GetCurrentTimeInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[GetCurrentTimeResult]:
    """`get_current_time` without `await`."""
    return call_tool_sync(server_id="time", name="get_current_time", arguments=pack(arguments, kwargs))
