"""File transfers with a session in its own process: both ends of one request on its socket.

`serve_files` is the session's end, `RemoteFiles` the client's. One connection carries one request. The socket's buffers
limit the rate both ways, so neither end holds more than a few pieces. If the client disconnects, the transfer has no
effect.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import MoonpoolError
from moonpool.engine.files.errors import FileTransferError, error_of
from moonpool.engine.files.service import FileListing, FileReceipt
from moonpool.server.named_sessions import wire

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable

    from moonpool.engine.files.service import ArchiveForm, SessionFiles
    from moonpool.engine.files.streams import Sink, Source

_PIECE_BYTES: Final = 256 * 1024
_DRAIN_S: Final = 10.0


async def serve_files(
    files: SessionFiles,
    request: wire.FileRequest,
    send: Callable[[wire.HostMessage], None],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Carry out one request and answer it. Raises OSError when the client is gone."""

    async def sink(piece: bytes) -> None:
        send(wire.Piece(data=piece))
        await writer.drain()

    try:
        answer = await _carry_out(files, request, sink, reader)
    except MoonpoolError as error:
        send(wire.Refused(message=str(error), code=error.code))
        await writer.drain()
        await _read_on(reader)
        return
    send(answer)


async def _carry_out(
    files: SessionFiles, request: wire.FileRequest, sink: Sink, reader: asyncio.StreamReader
) -> wire.Receipt | wire.Listing:
    match request:
        case wire.ListFiles():
            listing = await files.list(request.path, recursive=request.recursive)
            return wire.Listing(entries=listing.entries, truncated=listing.truncated)
        case wire.PutFile():
            receipt = await files.put(request.path, _pieces(reader), mode=request.mode, replace=request.replace)
        case wire.PutArchive():
            receipt = await files.unpack(request.path, _pieces(reader), form=request.form, replace=request.replace)
        case wire.GetFile():
            receipt = await files.get(request.path, sink)
        case wire.GetArchive():
            receipt = await files.archive(request.path, sink)
    return wire.Receipt(
        path=receipt.path,
        size=receipt.size,
        sha256=receipt.sha256,
        entries=receipt.entries,
        skipped=receipt.skipped,
    )


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while isinstance(message := await wire.receive_from_client(reader), wire.Piece):
        yield message.data
    if not isinstance(message, wire.End):
        raise FileTransferError("the sender of the file went away; nothing was kept")


async def _read_on(reader: asyncio.StreamReader) -> None:
    """Let the client read the refusal: closing a socket with unread bytes resets the connection."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while isinstance(await wire.receive_from_client(reader), wire.Piece):
                pass


class RemoteFiles:
    """The files of a session in another process, with the methods and errors of `SessionFiles`.

    Also raises SessionError when the session's process refuses, and SessionLostError when it ends meanwhile.
    """

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect

    async def put(self, path: str, source: Source, *, mode: int = 0o644, replace: bool = False) -> FileReceipt:
        return await self._send(wire.PutFile(path=path, mode=mode, replace=replace), source)

    async def unpack(
        self, path: str, source: Source, *, form: ArchiveForm = "tar", replace: bool = False
    ) -> FileReceipt:
        return await self._send(wire.PutArchive(path=path, form=form, replace=replace), source)

    async def get(self, path: str, sink: Sink) -> FileReceipt:
        return _receipt(await self._ask(wire.GetFile(path=path), sink))

    async def archive(self, path: str, sink: Sink) -> FileReceipt:
        return _receipt(await self._ask(wire.GetArchive(path=path), sink))

    async def list(self, path: str = ".", *, recursive: bool = False) -> FileListing:
        answer = await self._ask(wire.ListFiles(path=path, recursive=recursive), _nowhere)
        if not isinstance(answer, wire.Listing):
            raise _lost()
        return FileListing(entries=answer.entries, truncated=answer.truncated)

    async def _ask(self, request: wire.FileRequest, sink: Sink) -> wire.HostMessage:
        reader, writer = await self._open(request)
        try:
            return await _hear(reader, sink)
        finally:
            await _close(writer)

    async def _send(self, request: wire.FileRequest, source: Source) -> FileReceipt:
        reader, writer = await self._open(request)
        hearing = asyncio.ensure_future(_hear(reader, _nowhere))
        try:
            async for chunk in source:
                for start in range(0, len(chunk), _PIECE_BYTES):
                    writer.write(wire.encode(wire.Piece(data=chunk[start : start + _PIECE_BYTES])))
                    await writer.drain()
                if hearing.done():
                    break  # refused
            else:
                writer.write(wire.encode(wire.End()))
            return _receipt(await hearing)
        except OSError:
            if hearing.done() and (refused := hearing.exception()) is not None:
                raise refused from None
            raise
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})
            await _close(writer)

    async def _open(self, request: wire.FileRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(sock=self._connect(), limit=wire.LINE_BYTES_MAX)
        writer.write(wire.encode(request))
        return reader, writer


async def _hear(reader: asyncio.StreamReader, sink: Sink) -> wire.HostMessage:
    """Write pieces to `sink` until another message arrives. Raises FileTransferError, SessionError,
    SessionLostError.
    """
    while isinstance(message := await wire.receive_from_host(reader), wire.Piece):
        await sink(message.data)
    if isinstance(message, wire.Refused):
        told = message.message
        raise error_of(message.code, told) or wire.SessionError(told, code=message.code)
    if message is None:
        raise _lost()
    return message


async def _nowhere(_: bytes) -> None:
    raise _lost()


def _receipt(message: wire.HostMessage) -> FileReceipt:
    if not isinstance(message, wire.Receipt):
        raise _lost()
    return FileReceipt(**{name: getattr(message, name) for name in message.__struct_fields__})


def _lost() -> wire.SessionLostError:
    return wire.SessionLostError("the process of this session ended during the transfer; nothing was kept, try again")


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
