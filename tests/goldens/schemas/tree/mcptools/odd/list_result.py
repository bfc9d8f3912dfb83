"""Tool "list_result" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Result2(Model):
    a: int | None = None


class Params(Model):
    """Any members."""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> list[Result2]:
    """Gives a list.

    Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="list_result",
        arguments=pack(params, kwargs, Params),
        result=object,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> list[Result2]:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="list_result",
        arguments=pack(params, kwargs, Params),
        result=object,
    )


__getattr__ = extension(__name__)
