"""Tool "get_document" of the server "google-drive". Generated; do not edit."""

from __future__ import annotations

from typing import Any

from client.mcp_client import Model, ToolRunnerError, extension, pack, run_tool, run_tool_sync


class Revision(Model):
    id: str
    author: str | None = None


class Result(Model):
    title: str
    content: str
    revisions: list[Revision] | None = None


class Params(Model):
    documentId: str
    """The ID in the document's address."""


def run(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """Read one document.

    The server says that this tool only reads.

    Raises ToolRunnerError when the tool fails or is refused.
    """
    return run_tool_sync(
        server_id="google-drive",
        name="get_document",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


async def run_async(params: Params | dict[str, Any] | None = None, /, **kwargs: Any) -> Result | str:
    """`run` for `await`."""
    return await run_tool(
        server_id="google-drive",
        name="get_document",
        arguments=pack(params, kwargs, Params),
        result=Result,
    )


__getattr__ = extension(__name__)
