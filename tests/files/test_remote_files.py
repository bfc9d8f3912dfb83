"""Files of a session in another process: what goes wrong there arrives here as the same error."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from files.moving import Workbench, source
from moonpool.core.errors import InputError
from moonpool.engine.files.errors import (
    DiskQuotaError,
    FileMissingError,
    FileTooLargeError,
    PathOutsideError,
    TargetExistsError,
    TransferTimeoutError,
)
from moonpool.server.named_sessions import wire
from moonpool.server.named_sessions.transfers import RemoteFiles, serve_files

if TYPE_CHECKING:
    from moonpool.engine.files.service import SessionFiles

pytestmark = pytest.mark.anyio


class OtherEnd:
    """The session's end of each connection, in this process."""

    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self) -> socket.socket:
        here, there = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)
        task = asyncio.ensure_future(self._serve(there))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return here

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=wire.LINE_BYTES_MAX)
        request = await wire.receive_from_client(reader)
        assert isinstance(request, wire.FileRequest)
        await serve_files(self._files, request, lambda message: writer.write(wire.encode(message)), reader, writer)
        writer.close()


async def sink(_: bytes) -> None:
    pass


async def test_an_error_keeps_its_class_on_its_way(bench: Workbench) -> None:
    files = RemoteFiles(OtherEnd(bench.files).connect)
    await files.put("here", source(b"x"))
    with pytest.raises(FileMissingError, match="there is no such file"):
        await files.get("missing", sink)
    with pytest.raises(FileMissingError):
        await files.list("missing")
    with pytest.raises(TargetExistsError):
        await files.put("here", source(b"y"))
    with pytest.raises(PathOutsideError):
        await files.get("/etc/passwd", sink)
    with pytest.raises(FileTooLargeError, match="raise file_bytes_max"):
        await files.put("big", source(bytes(bench.app.settings.file_bytes_max + 1)))
    await bench.run("open('ballast', 'wb').write(bytes(30 << 20))")
    with pytest.raises(DiskQuotaError):
        await files.put("more", source(b"x" * (4 << 20)))


async def test_a_transfer_that_took_too_long_is_that_here_too(bench: Workbench) -> None:
    await bench.put("here", b"x")
    files = RemoteFiles(OtherEnd(bench.with_limits(timeout_s=0)).connect)
    with pytest.raises(TransferTimeoutError, match="given up"):
        await files.get("here", sink)


class RefusingFiles:
    """Raises what is no error of files."""

    async def get(self, path: str, sink: object) -> None:
        raise InputError(f"{path} cannot be asked for, {sink is not None}")


async def test_another_refusal_is_the_sessions(bench: Workbench) -> None:
    files = RemoteFiles(OtherEnd(RefusingFiles()).connect)  # pyright: ignore[reportArgumentType]
    with pytest.raises(wire.SessionError, match="here cannot be asked for"):
        await files.get("here", sink)
