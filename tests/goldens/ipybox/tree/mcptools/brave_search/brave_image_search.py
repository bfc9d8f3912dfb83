"""Tool "brave_image_search" of the server "brave_search". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Properties(Model):
    url: str
    width: int | None = None


class Item(Model):
    title: str
    properties: Properties


class Result(Model):
    items: list[Item]
    might_be_offensive: bool | None = None


class Params(Model):
    query: str
    """The search query. (length <= 400)"""
    count: int = 50
    """(>= 1, <= 200)"""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """Search the web for images.

    Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="brave_search",
        name="brave_image_search",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """`run` for `await`."""
    return await run_tool(
        server_id="brave_search",
        name="brave_image_search",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


__getattr__ = extension(__name__)
