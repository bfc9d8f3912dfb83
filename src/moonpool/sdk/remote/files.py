"""Files of a session at a service. Contents pass in pieces; nothing is held whole."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

from moonpool.engine.files.errors import FileTransferError
from moonpool.engine.files.service import FileEntry, FileListing, FileReceipt, check_path
from moonpool.sdk.remote.connection import PATIENT
from moonpool.sdk.remote.errors import ServiceError
from moonpool.server.http.sessions.messages import FileList, FileWritten, SessionAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moonpool.engine.files.service import ArchiveForm
    from moonpool.engine.files.streams import Sink, Source
    from moonpool.sdk.remote.connection import Connection


class RemoteFiles:
    """See `moonpool.engine.files.service.SessionFiles`. Its methods raise FileTransferError, ServiceError."""

    def __init__(self, connection: Connection, session_path: str) -> None:
        self._connection, self._session_path, self._path = connection, session_path, f"{session_path}/files"

    async def put(self, path: str, source: Source, *, mode: int = 0o644, replace: bool = False) -> FileReceipt:
        """Write a file, whole or not at all."""
        return await self._send("content", {"path": path, "mode": mode, "replace": replace}, source)

    async def unpack(
        self, path: str, source: Source, *, form: ArchiveForm = "tar", replace: bool = False
    ) -> FileReceipt:
        """Unpack an archive into a folder, whole or not at all."""
        return await self._send("archive", {"path": path, "form": form, "replace": replace}, source)

    async def _send(self, what: str, query: dict[str, Any], source: Source) -> FileReceipt:
        check_path(query["path"])
        digest = hashlib.sha256()

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in source:
                digest.update(piece)
                yield piece

        written = await self._connection.send_file(f"{self._path}/{what}", pieces(), FileWritten, query)
        if written.sha256 != digest.hexdigest():
            raise FileTransferError("what arrived at the service is not what was sent; write it again")
        return FileReceipt(path=written.path, size=written.size, sha256=written.sha256, entries=written.entries)

    async def get(self, path: str, sink: Sink) -> FileReceipt:
        """Hand a file to `sink`."""
        return await self._fetch("content", path, sink)

    async def archive(self, path: str, sink: Sink) -> FileReceipt:
        """Hand a folder, or one file, to `sink` as a tar stream."""
        receipt = await self._fetch("archive", path, sink)
        told = await self._connection.get(self._session_path, SessionAnswer, {})
        return dataclasses.replace(receipt, skipped=told.archive_skipped)

    async def _fetch(self, what: str, path: str, sink: Sink) -> FileReceipt:
        check_path(path)
        digest = hashlib.sha256()
        size = 0
        begun = False
        content = f"{self._path}/{what}"
        try:
            async with self._connection.answer("GET", content, params={"path": path}, timeout=PATIENT) as response:
                begun = True
                async for piece in response.aiter_raw():
                    digest.update(piece)
                    size += len(piece)
                    await sink(piece)
        except ServiceError as error:
            if not begun:
                raise
            raise FileTransferError(f"the service broke off the file: {error}; nothing of it was kept") from None
        return FileReceipt(path=path, size=size, sha256=digest.hexdigest())

    async def list(self, path: str = ".", *, recursive: bool = False) -> FileListing:
        """What is in a folder."""
        check_path(path)
        found = await self._connection.get(self._path, FileList, {"path": path, "recursive": recursive})
        entries = tuple(
            FileEntry(
                path=one.path,
                kind=one.kind,
                size=one.size,
                mode=one.mode,
                modified_s=one.modified_s,
                escaped=one.escaped,
            )
            for one in found.entries
        )
        return FileListing(entries=entries, truncated=found.truncated)

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file or folder."""
        check_path(path)
        query = {"path": path, "recursive": recursive}
        await self._connection.order("DELETE", self._path, None, type(None), query=query)
