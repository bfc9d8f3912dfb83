"""Tool "get_current_time" of the server "time". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Result(Model):
    timezone: str
    datetime: str
    day_of_week: str
    is_dst: bool


class Params(Model):
    timezone: str
    """IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' as local timezone if no timezone
    provided by the user.
    """


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """Get current time in a specific timezone

    The server says that this tool only reads.

    Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="time",
        name="get_current_time",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """`run` for `await`."""
    return await run_tool(
        server_id="time",
        name="get_current_time",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


__getattr__ = extension(__name__)
