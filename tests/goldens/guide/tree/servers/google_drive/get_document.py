"""Tool "get_document" of the server "google-drive". Generated; do not edit."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.mcp_client import Model, ToolCallResult, call_tool, call_tool_sync, pack


class Revision(TypedDict):
    id: str
    author: NotRequired[str | None]


class GetDocumentResult(TypedDict):
    title: str
    content: str
    revisions: NotRequired[list[Revision]]


class GetDocumentInput(TypedDict):
    documentId: str


async def get_document(
    arguments: GetDocumentInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[GetDocumentResult]:
    """Read one document.

    Arguments, in one dict or as keywords:
        documentId (str): The ID in the document's address.

    Returns GetDocumentResult

    Objects, as dicts (? marks members that may be left out):
        Revision: {id: str, author?: str | None}
        GetDocumentResult: {title: str, content: str, revisions?: list[Revision]}

    The server says that this tool only reads.
    """
    return await call_tool(server_id="google-drive", name="get_document", arguments=pack(arguments, kwargs))


def get_document_sync(
    arguments: GetDocumentInput | Model | None = None, /, **kwargs: Any
) -> ToolCallResult[GetDocumentResult]:
    """`get_document` without `await`."""
    return call_tool_sync(server_id="google-drive", name="get_document", arguments=pack(arguments, kwargs))
