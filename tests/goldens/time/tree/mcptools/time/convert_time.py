"""Tool "convert_time" of the server "time". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class TimeResult(Model):
    timezone: str
    datetime: str
    day_of_week: str
    is_dst: bool


class Result(Model):
    source: TimeResult
    target: TimeResult
    time_difference: str


class Params(Model):
    source_timezone: str
    """Source IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' as local timezone if no
    source timezone provided by the user.
    """
    time: str
    """Time to convert in 24-hour format (HH:MM)"""
    target_timezone: str
    """Target IANA timezone name (e.g., 'Asia/Tokyo', 'America/San_Francisco'). Use 'UTC' as local timezone if no
    target timezone provided by the user.
    """


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """Convert time between timezones

    The server says that this tool only reads.

    Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="time",
        name="convert_time",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """`run` for `await`."""
    return await run_tool(
        server_id="time",
        name="convert_time",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


__getattr__ = extension(__name__)
