"""Tool "recursive_result" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Result(Model):
    name: str
    children: list[Result] | None = None


class Params(Model):
    """Any members."""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """Gives a tree.

    Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="recursive_result",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="recursive_result",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


__getattr__ = extension(__name__)
