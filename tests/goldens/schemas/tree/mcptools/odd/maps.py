"""Tool "maps" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class OfObject(Model):
    n: int | None = None


class Params(Model):
    labels: dict[str, str] | None = None
    pattern: dict[str, int] | None = None
    free: dict[str, Any] | None = None
    of_objects: dict[str, OfObject] | None = None


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """The maps case.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="maps",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="maps",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
