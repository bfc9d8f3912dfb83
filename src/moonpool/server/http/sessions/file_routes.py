"""Files of sessions over HTTP: contents as bodies, in pieces, at the pace of whoever is slower; nothing is held whole.

INVARIANT: a body that comes to its end is the whole file. Where reading fails on the way the connection is broken off
instead, so that nobody takes a part for the whole.
SECURITY: what is in a file is the code's. It is never sent as something that a browser would show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from moonpool.server.http.paced_bodies import paced_pieces
from moonpool.server.http.sessions import messages, operations
from moonpool.server.http.sessions.bodies import error_answer, json_answer, query_of
from moonpool.server.http.sessions.operations import Operation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import Receive, Send
    from starlette.types import Scope as AsgiScope

    from moonpool.engine.files.service import FileReceipt
    from moonpool.engine.files.streams import Sink
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.registry import SessionRegistry
    from moonpool.server.http.sessions.served_session import ServedSession

_FILE_HEADERS = [
    (b"content-type", b"application/octet-stream"),
    (b"content-disposition", b"attachment"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]


class FileRoutes:
    """The endpoints of one registry."""

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        files = "/sessions/{session_id}/files"
        return (
            Operation(
                method="GET", path=files, name="listFiles", summary="What is in a folder", endpoint=self.list,
                scope="files", query=operations.FilesQuery, answer=messages.FileList,
            ),
            Operation(
                method="DELETE", path=files, name="removeFile", summary="Remove a file or folder",
                endpoint=self.remove, scope="files", query=operations.RemoveQuery, status=204,
            ),
            Operation(
                method="GET", path=f"{files}/content", name="readFile", summary="The bytes of a file",
                endpoint=self.read, scope="files", query=operations.ReadQuery, answer="bytes",
            ),
            Operation(
                method="PUT", path=f"{files}/content", name="writeFile", endpoint=self.write, scope="files",
                summary="Write a file, whole or not at all", query=operations.WriteQuery, body="bytes",
                answer=messages.FileWritten,
            ),
            Operation(
                method="GET", path=f"{files}/archive", name="readArchive", summary="A folder as a tar stream",
                endpoint=self.archive, scope="files", query=operations.ReadQuery, answer="bytes",
            ),
            Operation(
                method="PUT", path=f"{files}/archive", name="unpackArchive", endpoint=self.unpack, scope="files",
                summary="Unpack a tar, plain or gzip, or a zip into a folder, whole or not at all",
                query=operations.UnpackQuery, body="bytes", answer=messages.FileWritten,
            ),
        )  # fmt: skip

    def _session(self, request: Request, caller: HttpCaller) -> ServedSession:
        return self._registry.get(caller, request.path_params["session_id"])

    async def list(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        query = query_of(request, operations.FilesQuery)
        with session.in_use():
            listing = await session.engine_session.files.list(query.path, recursive=query.recursive)
        entries = tuple(
            messages.FileEntryBody(
                path=one.path,
                kind=one.kind,
                size=one.size,
                mode=one.mode,
                modified_s=one.modified_s,
                escaped=one.escaped,
            )
            for one in listing.entries
        )
        return json_answer(messages.FileList(entries=entries, truncated=listing.truncated))

    async def remove(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        query = query_of(request, operations.RemoveQuery)
        with session.in_use():
            await session.engine_session.files.delete(query.path, recursive=query.recursive)
        return Response(status_code=204)

    async def read(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        path = query_of(request, operations.ReadQuery).path
        return _FileBody(session, lambda sink: session.engine_session.files.get(path, sink), whole=caller.is_terminal)

    async def archive(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        path = query_of(request, operations.ReadQuery).path

        async def send(sink: Sink) -> None:
            receipt = await session.engine_session.files.archive(path, sink)
            session.archive_skipped = receipt.skipped

        return _FileBody(session, send, whole=caller.is_terminal)

    async def write(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        query = query_of(request, operations.WriteQuery)
        with session.in_use():
            receipt = await session.engine_session.files.put(
                query.path, paced_pieces(request), mode=query.mode, replace=query.replace
            )
        return json_answer(_written(receipt))

    async def unpack(self, request: Request, caller: HttpCaller) -> Response:
        session = self._session(request, caller)
        query = query_of(request, operations.UnpackQuery)
        with session.in_use():
            receipt = await session.engine_session.files.unpack(
                query.path, paced_pieces(request), form=query.form, replace=query.replace
            )
        return json_answer(_written(receipt))


def _written(receipt: FileReceipt) -> messages.FileWritten:
    return messages.FileWritten(path=receipt.path, size=receipt.size, sha256=receipt.sha256, entries=receipt.entries)


class _FileBody(Response):
    """The answer with a file's bytes. Its first piece begins it; an error before that is an answer of its own."""

    def __init__(self, session: ServedSession, send: Callable[[Sink], Awaitable[object]], *, whole: bool) -> None:
        """`whole` is of `error_body`."""
        super().__init__()
        self._session, self._send, self._whole = session, send, whole

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        begun = False

        async def take(piece: bytes) -> None:
            nonlocal begun
            if not begun:
                begun = True
                await send(_start())
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        try:
            with self._session.in_use():
                await self._send(take)
        except Exception as error:  # noqa: BLE001  told by the boundary of requests, or by a connection broken off
            if not begun:
                await error_answer(error, whole=self._whole)(scope, receive, send)
            return
        if not begun:
            await send(_start())
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _start() -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": _FILE_HEADERS}
