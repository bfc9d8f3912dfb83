"""Contents of files between an application and the sandbox of its session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from moonpool.core.errors import InputError
from moonpool.engine.files.local_files import landing, landing_path, local_source
from moonpool.sdk.argument_types import must_be

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moonpool.sdk.options import FileContent
    from moonpool.sdk.session_host import FilesOfSession

_CHUNK_BYTES = 1024 * 1024


async def put(files: FilesOfSession, path: str, content: FileContent, *, replace: bool) -> None:
    """Write a file of bytes, of a string as UTF-8, or of a file of this machine. Raises FileTransferError."""
    if isinstance(content, os.PathLike):
        async with local_source(Path(content)) as source:
            await files.put(path, source.chunks(), mode=source.mode & 0o755 | 0o600, replace=replace)
        return
    if not isinstance(cast("object", content), bytes | bytearray | memoryview | str):
        raise InputError(f"the content of {path!r} must be bytes, a string or a path, not {type(content).__name__}")
    await files.put(path, _chunks(content.encode() if isinstance(content, str) else bytes(content)), replace=replace)


async def read(files: FilesOfSession, path: str) -> bytes:
    """All bytes of a file. Raises FileTransferError."""
    data = bytearray()

    async def take(piece: bytes) -> None:
        data.extend(piece)

    await files.get(path, take)
    return bytes(data)


async def send(files: FilesOfSession, local: str | os.PathLike[str], path: str | None, *, replace: bool) -> None:
    """Copy a file of this machine. Raises FileTransferError, LocalFileError, InputError."""
    must_be(local, str | os.PathLike, "the file to put", "a path of this machine")
    source = Path(local)
    await put(files, source.name if path is None else path, source, replace=replace)


async def get(files: FilesOfSession, path: str, target: str | os.PathLike[str] | None, *, replace: bool) -> Path:
    """Copy a file to this machine and return where it is. Raises FileTransferError, LocalFileError, InputError."""
    must_be(path, str, "a path in the sandbox", "a string")
    must_be(target, str | os.PathLike | None, "where to put the file", "a path of this machine")
    local = landing_path(None if target is None else Path(target), path)
    async with landing(local, force=replace) as file:
        await files.get(path, file.write)
    return local


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _CHUNK_BYTES):
        yield data[start : start + _CHUNK_BYTES]
