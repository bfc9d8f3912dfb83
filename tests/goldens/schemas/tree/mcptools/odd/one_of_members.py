"""Tool "one_of_members" of the server "odd". Generated; do not edit."""

from __future__ import annotations

from typing import Any, Literal

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Target(Model):
    kind: Literal["page"]
    page_id: str


class Target2(Model):
    kind: Literal["db"]
    db_id: str


class Params(Model):
    target: Target | Target2 | None = None
    id: str | int | None = None


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """The one_of_members case.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="odd",
        name="one_of_members",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="odd",
        name="one_of_members",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
