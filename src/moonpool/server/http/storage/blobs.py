"""`/v1/blobs/{token}`: contents of files for whoever has a signed URL; nothing else of a request is a credential here.

INVARIANT: a body that comes to its end is the whole file, or the whole range. Where reading fails on the way the
connection is broken off. An upload that is answered with 200 is durable, one that is not has changed nothing.
SECURITY: what is in a file is somebody's code's. It is never sent as something that a browser would show.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import Request

from moonpool.core.errors import InputError
from moonpool.features.storage.contents import file_at
from moonpool.features.storage.model import TreeName
from moonpool.server.http.admission import keep_caller
from moonpool.server.http.baponi_errors import BAPONI_FORM, baponi_answer
from moonpool.server.http.callers import HttpCaller
from moonpool.server.http.paced_bodies import paced_pieces
from moonpool.server.http.request_limits import RequestError
from moonpool.server.http.request_log import BLOBS_PATH
from moonpool.server.http.sessions.bodies import json_answer
from moonpool.server.http.sessions.operations import Operation
from moonpool.server.http.storage.messages import Uploaded
from moonpool.server.http.storage.ranges import ByteRange, RangeError, wanted_range

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from moonpool.features.signed_urls.model import UrlGrant
    from moonpool.features.storage.base import Snapshot
    from moonpool.features.storage.model import Entry
    from moonpool.server.http.storage.access import StoredFiles
    from moonpool.server.http.storage.signed_urls import SignedUrls
    from moonpool.server.http.storage.transfers import Transfers

UPLOAD_RATE_MIN: Final = 16 * 1024
"""Bytes a second of an upload, beyond `BODY_S` in which it need not come."""
SENT_BYTES: Final = 256 * 1024
"""Of a download in one piece: a client that takes so much within `serving.STALLED_S` is not too slow."""
_METHODS: Final = ("GET", "HEAD", "PUT")
_CLOSE: Final = {"connection": "close"}
"""SECURITY: what is answered before a body was read closes the connection: the rest must not pass for a request."""


DESCRIBED: Final = (
    Operation(
        method="GET", path="/blobs/{token}", name="downloadBlob", endpoint=None,
        summary="The file of a signed URL, or a range of it", answer="bytes", form=BAPONI_FORM,
    ),
    Operation(
        method="PUT", path="/blobs/{token}", name="uploadBlob", endpoint=None,
        summary="Send the file of a signed URL, with the headers that came with it", body="bytes", answer=Uploaded,
        form=BAPONI_FORM,
    ),
)  # fmt: skip
"""What the OpenAPI document says of them."""


class Blobs:
    """The ASGI application, public: `take` counts a request as one of who asked for the URL, and may refuse it."""

    def __init__(
        self,
        stored: StoredFiles,
        urls: SignedUrls,
        transfers: Transfers,
        take: Callable[[HttpCaller], Awaitable[None]],
    ) -> None:
        self._stored, self._urls, self._transfers, self._take = stored, urls, transfers, take

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def begun(message: Any) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._answer(scope, receive, begun)
        except Exception as error:  # noqa: BLE001  the boundary of requests: whatever it is, it has one form
            if has_begun:
                return  # the connection is broken off, as there is less of a body than its head says
            await _refusal(error)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in _METHODS:
            raise RequestError(405, "a signed URL is for GET or for PUT", {"allow": ", ".join(_METHODS)})
        token = scope["path"].removeprefix(BLOBS_PATH)
        grant = await self._urls.granted(token, scope["method"])
        caller = HttpCaller(organisation=grant.organisation, principal=grant.principal, scopes=frozenset({"files"}))
        keep_caller(scope, caller)
        await self._take(caller)
        async with self._transfers.taking(grant.organisation, grant.principal):
            serve = self._upload if grant.method == "PUT" else self._download
            await serve(grant, Request(scope, receive), send)

    async def _upload(self, grant: UrlGrant, request: Request, send: Send) -> None:
        _check_upload(grant, request)
        files = await self._stored.recorded(grant.organisation, grant.principal)
        entry = await files.put(
            _tree_of(grant),
            grant.path,
            paced_pieces(request, rate_min=UPLOAD_RATE_MIN),
            size=grant.size,
            still_allowed=lambda: self._urls.check_signer(grant),
        )
        answer = Uploaded(path=entry.path, size=entry.size, sha256=entry.sha256)
        await json_answer(answer, headers={"etag": _etag(entry)})(request.scope, request.receive, send)

    async def _download(self, grant: UrlGrant, request: Request, send: Send) -> None:
        snapshot = await self._stored.trees.of(grant.organisation).snapshot(_tree_of(grant))
        entry = file_at(snapshot.tree, grant.path)
        headers, etag = request.headers, _etag(entry)
        part = wanted_range(headers.get("range"), headers.get("if-range"), size=entry.size, etag=etag)
        await send(_start(entry, part))
        if request.method != "HEAD":
            await _send_content(snapshot, entry, part, request, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _tree_of(grant: UrlGrant) -> TreeName:
    return TreeName(kind=grant.kind, name=grant.name, owner=grant.owner)


def _check_upload(grant: UrlGrant, request: Request) -> None:
    """Whether what comes is what was signed. Raises RequestError, InputError."""
    headers = request.headers
    if "content-length" not in headers:
        raise RequestError(411, "an upload needs Content-Length; send the file as it is, not in chunks")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RequestError(415, "compressed bodies are not taken; send the file as it is")
    if int(headers["content-length"]) != grant.size:
        raise InputError(f"Content-Length must be {grant.size}, which the URL was asked for; ask for another URL")
    if headers.get("content-type", "") != grant.content_type:
        raise InputError(f"Content-Type must be {grant.content_type}; send the headers that came with the URL")


async def _send_content(snapshot: Snapshot, entry: Entry, part: ByteRange | None, request: Request, send: Send) -> None:
    """All of it, unless the client goes away."""
    gone = asyncio.ensure_future(_gone(request))
    try:
        async for piece in _content(snapshot, entry, part):
            for start in range(0, len(piece), SENT_BYTES):
                await send({"type": "http.response.body", "body": piece[start : start + SENT_BYTES], "more_body": True})
                if gone.done():
                    return
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


def _content(snapshot: Snapshot, entry: Entry, part: ByteRange | None) -> AsyncIterator[bytes]:
    return snapshot.read(entry) if part is None else snapshot.read(entry, part.start, part.end)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _start(entry: Entry, part: ByteRange | None) -> dict[str, Any]:
    length = entry.size if part is None else part.end - part.start
    headers = {
        "content-type": "application/octet-stream",
        "content-length": str(length),
        "content-disposition": disposition(entry.path),
        "accept-ranges": "bytes",
        "etag": _etag(entry),
        "cache-control": "private, no-store",
        "content-security-policy": "sandbox; default-src 'none'",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
    if part is not None:
        headers["content-range"] = f"bytes {part.start}-{part.end - 1}/{entry.size}"
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200 if part is None else 206, "headers": raw}


def disposition(path: str) -> str:
    """`Content-Disposition` that has a browser save the file under its own name (RFC 6266). SECURITY: names are
    somebody's code's; nothing of one ends the header or is a path.
    """
    name = path.rpartition("/")[2]
    plain = "".join(char if char.isascii() and char.isprintable() and char not in '"\\%;' else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _etag(entry: Entry) -> str:
    return f'"{entry.sha256}"'


def _refusal(error: Exception) -> Any:
    match error:
        case RequestError():
            return baponi_answer(error, error.status, {**error.headers, **_CLOSE})
        case RangeError():
            return baponi_answer(error, headers={**_CLOSE, "content-range": f"bytes */{error.size}"})
        case _:
            return baponi_answer(error, headers=_CLOSE)
