"""Tool "search_repositories" of the server "github". Generated; do not edit."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Sort(StrEnum):
    stars = "stars"
    forks = "forks"
    help_wanted_issues = "help-wanted-issues"
    updated = "updated"


class Order(StrEnum):
    asc = "asc"
    desc = "desc"


class Params(Model):
    query: str
    """Repository search query."""
    sort: Sort | str | None = None
    """Sort by field, default is best match."""
    order: Order | str | None = None
    perPage: float | None = None
    """(>= 1, <= 100)"""
    minimal_output: bool = True


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """Find GitHub repositories.

    Returns the tool's text. Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="github",
        name="search_repositories",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> str:
    """`run` for `await`."""
    return await run_tool(
        server_id="github",
        name="search_repositories",
        arguments=pack(params, kwargs, Params),
        result=str,
    )


__getattr__ = extension(__name__)
