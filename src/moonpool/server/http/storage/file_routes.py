"""The Files API: lists, signed URLs, removal. Contents pass by signed URL only (`blobs`)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import UNSET
from starlette.responses import Response

from moonpool.features.storage.contents import file_at, folder_path, listed
from moonpool.features.storage.model import checked_path
from moonpool.server.http.baponi_errors import BAPONI_FORM
from moonpool.server.http.sessions.bodies import body_of, json_answer
from moonpool.server.http.sessions.operations import FILE_PROFILES, Operation
from moonpool.server.http.storage import messages

if TYPE_CHECKING:
    from starlette.requests import Request

    from moonpool.features.signed_urls.model import UrlGrant
    from moonpool.features.storage.contents import Listed
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.storage.access import StoredFiles
    from moonpool.server.http.storage.signed_urls import SignedUrls


class FileRoutes:
    """The endpoints."""

    def __init__(self, stored: StoredFiles, urls: SignedUrls) -> None:
        self._stored, self._urls = stored, urls

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        return (
            Operation(
                method="POST", path="/files/list", name="listStoredFiles", endpoint=self.list, scope="files",
                summary="What is in a folder of a thread or volume", body=messages.ListFiles, answer=messages.FileList,
                profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="POST", path="/files/upload_url", name="uploadUrl", endpoint=self.upload_url, scope="files",
                summary="A URL to which a file is sent with PUT", body=messages.UploadUrl, answer=messages.SignedUrl,
                profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="POST", path="/files/download_url", name="downloadUrl", endpoint=self.download_url,
                scope="files", summary="A URL from which a file can be had", body=messages.NamedFile,
                answer=messages.SignedUrl, profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
            Operation(
                method="POST", path="/files/delete", name="deleteStoredFile", endpoint=self.delete, scope="files",
                summary="Delete a file, or a folder with all below it", body=messages.NamedFile, status=204,
                profiles=FILE_PROFILES, form=BAPONI_FORM,
            ),
        )  # fmt: skip

    async def list(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.ListFiles)
        trees = await self._stored.of(caller)
        folder = folder_path(asked.path)
        tree = (await trees.snapshot(await self._stored.name(caller, asked.source, asked.id))).tree
        page = await asyncio.to_thread(
            listed, tree, folder, recursive=asked.recursive, cursor=asked.cursor, limit=asked.limit
        )
        return json_answer(
            messages.FileList(files=tuple(map(_file, page.entries)), next_cursor=page.next_cursor or UNSET)
        )

    async def upload_url(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.UploadUrl)
        await self._stored.of(caller)
        path, tree = checked_path(asked.path), await self._stored.name(caller, asked.source, asked.id, writes=True)
        files = await self._stored.recorded(caller.organisation, caller.principal)
        await files.check_place(tree, path)
        grant = self._urls.grant("PUT", caller, tree, path, size=asked.content_length, content_type=asked.content_type)
        return json_answer(
            await self._signed(request, grant, messages.Header(name="Content-Type", value=asked.content_type))
        )

    async def download_url(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.NamedFile)
        trees = await self._stored.of(caller)
        path, tree = checked_path(asked.path), await self._stored.name(caller, asked.source, asked.id)
        file_at((await trees.snapshot(tree)).tree, path)
        return json_answer(await self._signed(request, self._urls.grant("GET", caller, tree, path)))

    async def delete(self, request: Request, caller: HttpCaller) -> Response:
        asked = await body_of(request, messages.NamedFile)
        await self._stored.of(caller)
        path, tree = checked_path(asked.path), await self._stored.name(caller, asked.source, asked.id, writes=True)
        files = await self._stored.recorded(caller.organisation, caller.principal)
        await files.remove(tree, path)
        return Response(status_code=204)

    async def _signed(self, request: Request, grant: UrlGrant, *headers: messages.Header) -> messages.SignedUrl:
        return messages.SignedUrl(
            url=await self._urls.url(request, grant),
            method=grant.method,
            headers=headers,
            expires_at=rfc3339(grant.expires_at),
        )


def rfc3339(seconds: float) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def _file(one: Listed) -> messages.FileBody:
    return messages.FileBody(
        name=one.name,
        path=one.path,
        size=one.size,
        modified=rfc3339(one.modified_ns / 1e9) if one.modified_ns else None,
        is_directory=one.kind == "folder",
        is_link=True if one.kind == "link" else UNSET,
    )
