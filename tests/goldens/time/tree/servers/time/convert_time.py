"""Tool "convert_time" of the server "time". Generated; do not edit."""

from __future__ import annotations

from typing import Any, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class TimeResult(TypedDict):
    timezone: str
    datetime: str
    day_of_week: str
    is_dst: bool


class ConvertTimeResult(TypedDict):
    source: TimeResult
    target: TimeResult
    time_difference: str


class ConvertTimeInput(TypedDict):
    source_timezone: str
    time: str
    target_timezone: str


async def convert_time(
    arguments: ConvertTimeInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[ConvertTimeResult]:
    """Convert time between timezones

    Arguments, in one dict or as keywords:
        source_timezone (str): Source IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use
            'UTC' as local timezone if no source timezone provided by the user.
        time (str): Time to convert in 24-hour format (HH:MM)
        target_timezone (str): Target IANA timezone name (e.g., 'Asia/Tokyo', 'America/San_Francisco'). Use
            'UTC' as local timezone if no target timezone provided by the user.

    Returns ConvertTimeResult

    Objects, as dicts (? marks members that may be left out):
        TimeResult: {timezone: str, datetime: str, day_of_week: str, is_dst: bool}
        ConvertTimeResult: {source: TimeResult, target: TimeResult, time_difference: str}

    The server says that this tool only reads.
    """
    return await call_tool(server_id="time", name="convert_time", arguments=pack(arguments, kwargs))


def convert_time_sync(
    arguments: ConvertTimeInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[ConvertTimeResult]:
    """`convert_time` without `await`."""
    return call_tool_sync(server_id="time", name="convert_time", arguments=pack(arguments, kwargs))
