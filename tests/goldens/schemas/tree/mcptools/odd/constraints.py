"""Tool "constraints" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Params(Model):
    n: float | None = None
    """How much. (> 0, multiple of 0.5)"""
    s: str | None = None
    """(length <= 10, pattern ^[a-z]+$)"""
    when: str | None = None
    """(format date-time)"""
    opt: int | None = None
    """Maybe. (>= 1)"""
    tags: list[str] = ["a"]
    """(items <= 3, items of format uri)"""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """The constraints case.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="constraints",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="constraints",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
