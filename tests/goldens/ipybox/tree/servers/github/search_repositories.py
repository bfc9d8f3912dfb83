"""Tool "search_repositories" of the server "github". Generated; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class SearchRepositoriesInput(TypedDict):
    query: str
    sort: NotRequired[Literal["stars", "forks", "help-wanted-issues", "updated"]]
    order: NotRequired[Literal["asc", "desc"]]
    perPage: NotRequired[float]
    minimal_output: NotRequired[bool]


async def search_repositories(
    arguments: SearchRepositoriesInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """Find GitHub repositories.

    Arguments, in one dict or as keywords:
        query (str): Repository search query.
        sort (Literal["stars", "forks", "help-wanted-issues", "updated"], optional): Sort by field, default is
            best match.
        order (Literal["asc", "desc"], optional)
        perPage (float, optional, >= 1, <= 100)
        minimal_output (bool, optional, default True)
    """
    return await call_tool(server_id="github", name="search_repositories", arguments=pack(arguments, kwargs))


def search_repositories_sync(
    arguments: SearchRepositoriesInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[Any]:
    """`search_repositories` without `await`."""
    return call_tool_sync(server_id="github", name="search_repositories", arguments=pack(arguments, kwargs))
