"""The caller's own files: what is sent into a sandbox, and where what comes out of one is put.

INVARIANT: a file that arrives has a passing name until all of it is there and right; then it gets its own in one step.
Nothing is overwritten unless that was asked for. On every other ending the passing file is gone.
INVARIANT: a descriptor is closed only when no thread uses it any more: its number may be another file's by then.
SECURITY: a name that comes from a sandbox is only ever one plain name in a folder that the caller chose.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import unicodedata
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.engine.files.errors import shown
from moonpool.sandboxes.shielding import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

_CHUNK_BYTES: Final = 1024 * 1024
_OR_REPLACE: Final = "choose another name, or replace it (--force; in Python replace=True)"
_BIDIRECTIONAL: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


class LocalFileError(MoonpoolError):
    """A file or folder on this machine cannot be read or written as asked. Nothing was changed."""

    code = "local_file_unusable"
    fault = Fault.CALLER


class LocalSource:
    """An open regular file that is sent."""

    def __init__(self, fd: int, state: os.stat_result) -> None:
        self._fd = fd
        self.size, self.mode = state.st_size, stat.S_IMODE(state.st_mode)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Its bytes, read in a thread."""
        while chunk := await in_thread(lambda: os.read(self._fd, _CHUNK_BYTES)):
            yield chunk


@asynccontextmanager
async def local_source(path: Path) -> AsyncGenerator[LocalSource]:
    """Open a file to send it. Links of the caller's own are followed. Raises LocalFileError."""
    try:
        fd = await _open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise LocalFileError(f"{path}: {(error.strerror or 'it cannot be read').lower()}") from None
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise LocalFileError(f"{path} is not a regular file; pack a folder first (tar -cf) and unpack it there")
        yield LocalSource(fd, state)
    finally:
        os.close(fd)


class Landing:
    """A file that is being written under a passing name."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()

    async def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._buffer += data
        if len(self._buffer) >= _CHUNK_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Write what was gathered, in a thread."""
        data, self._buffer = self._buffer, bytearray()
        if data:
            await in_thread(lambda: _write_all(self._fd, data))


@asynccontextmanager
async def landing(target: Path, *, force: bool) -> AsyncGenerator[Landing]:
    """Yield a file to write to; it becomes `target` when the block ends without an error. Raises LocalFileError."""
    if not force and await asyncio.to_thread(os.path.lexists, target):
        raise LocalFileError(f"{target} is there already; {_OR_REPLACE}")
    if force and await asyncio.to_thread(_is_special, target):
        raise LocalFileError(f"{target} is a pipe, socket or device, which is never replaced; choose another name")
    passing = target.with_name(f".moonpool-{secrets.token_hex(8)}.part")
    try:
        fd = await _open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise LocalFileError(f"{target.parent}: {(error.strerror or 'it cannot be written').lower()}") from None
    except asyncio.CancelledError:
        passing.unlink(missing_ok=True)
        raise
    file = Landing(fd)
    try:
        yield file
        await file.flush()
        await in_thread(lambda: os.fsync(fd))
        _publish(passing, target, force=force)
    except OSError as error:
        raise LocalFileError(f"{target}: {(error.strerror or 'it cannot be written').lower()}") from None
    finally:
        os.close(fd)
        passing.unlink(missing_ok=True)


def landing_path(target: Path | None, guest_path: str) -> Path:
    """Where to put the file at `guest_path`: `target`, or its own name in the folder `target` or here."""
    if target is not None and not target.is_dir():
        return target
    return (target or Path()) / plain_name(guest_path.rstrip("/").rpartition("/")[2])


def plain_name(name: str) -> str:
    """`name` if it can be given to a file here as it is. Raises LocalFileError."""
    if name in {"", ".", ".."} or "/" in name or not is_plain(name):
        raise LocalFileError(f"{shown(name)!r} is no name for a file here; say which name it shall have")
    return name


def is_plain(name: str) -> bool:
    """Whether a name holds nothing that is no text, acts on a terminal, or makes it look like another."""
    return not any(
        unicodedata.category(char) in {"Cc", "Cs"} or unicodedata.bidirectional(char) in _BIDIRECTIONAL for char in name
    )


async def _open(path: Path, flags: int) -> int:
    """A descriptor; none is left open when the caller is cancelled meanwhile."""
    opened: list[int] = []
    try:
        await in_thread(lambda: opened.append(os.open(path, flags, 0o666)))
    except asyncio.CancelledError:
        for fd in opened:
            os.close(fd)
        raise
    return opened[0]


def _is_special(target: Path) -> bool:
    try:
        mode = target.stat(follow_symlinks=False).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode))


def _publish(passing: Path, target: Path, *, force: bool) -> None:
    """Give the file its name. In the event loop's own thread, where no cancellation can come after it is published."""
    if force:
        passing.replace(target)
        return
    try:
        os.link(passing, target, follow_symlinks=False)
    except FileExistsError:
        raise LocalFileError(f"{target} is there already; {_OR_REPLACE}") from None


def _write_all(fd: int, content: bytearray) -> None:
    with memoryview(content) as whole:
        rest = whole
        while rest:
            rest = rest[os.write(fd, rest) :]
