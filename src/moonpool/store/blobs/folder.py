"""Blobs as files of a private folder.

They lie in at most 1,296 folders named by the first two characters of a tree's id, so that a new tree needs none made
and synced. A blob is written beside its place and linked into it when it is whole: what a kill leaves is `NAME.part`.

SECURITY: every path is opened below the folder's descriptor, without a link, by openat2; folders are 0700, files 0600.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

from moonpool.core.errors import is_starved
from moonpool.features.storage.model import BLOB_BYTES_MAX
from moonpool.store.beneath import open_beneath
from moonpool.store.blobs.base import (
    LISTED_MAX,
    StorageError,
    check_content,
    check_name,
    check_prefix,
    missing,
    unusable,
)
from moonpool.store.private_files import private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PART: Final = ".part"
_THREADS_MAX: Final = 8


class FolderBlobs:
    """The `BlobStore` of one process. Opened by `open_folder`."""

    def __init__(self, path: Path, root: int) -> None:
        self._path, self._root = path, root
        self._threads = anyio.CapacityLimiter(_THREADS_MAX)

    async def put(self, name: str, content: bytes, /) -> None:
        place = _place(name)
        check_content(content)
        await self._run("write", lambda: self._write(*place, content))

    async def get(self, name: str, /, offset: int = 0, length: int | None = None) -> bytes:
        return await self._run("read", lambda: self._read("/".join(_place(name)), offset, length))

    async def delete(self, names: Sequence[str], /) -> None:
        places = [_place(name) for name in names]
        await self._run("remove", lambda: self._remove(places))

    async def list(self, prefix: str, /) -> Sequence[str]:
        start = check_prefix(prefix).replace("/", ".")
        return await self._run("list", lambda: self._names(start))

    async def check(self) -> None:
        await self._run("use the folder", self._check)

    async def close(self) -> None:
        root, self._root = self._root, -1
        if root >= 0:
            os.close(root)

    async def _run(self, doing: str, work: Callable[[], _T]) -> _T:
        """`work` in a thread; a cancelled caller waits for its end. Raises StorageError."""
        if self._root < 0:
            raise StorageError("the storage of files is closed; Moonpool is shutting down")
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._threads)
        except FileNotFoundError:
            if doing == "read":
                _log.error("a blob is missing in %s", self._path)
                raise missing() from None
            raise self._fault(doing, "it is gone") from None
        except OSError as error:
            raise self._fault(doing, error.strerror or str(error), is_full=_is_full(error)) from None
        except RuntimeError as error:
            if not is_starved(error):
                raise
            raise self._fault(doing, str(error)) from None

    def _fault(self, doing: str, why: str, *, is_full: bool = False) -> StorageError:
        _log.warning("the storage of files %s: not possible to %s: %s", self._path, doing, why)
        return (
            StorageError("the storage of files is full; its operator has to free space") if is_full else unusable(doing)
        )

    def _write(self, folder: str, file: str, content: bytes) -> None:
        with self._folder(folder) as at:
            part = file + _PART
            fd = os.open(part, _NEW, 0o600, dir_fd=at)
            try:
                try:
                    view = memoryview(content)
                    while view:
                        view = view[os.write(fd, view) :]
                    os.fsync(fd)
                finally:
                    os.close(fd)
                os.link(part, file, src_dir_fd=at, dst_dir_fd=at)  # refuses to replace
            finally:
                os.unlink(part, dir_fd=at)
            _sync(at)

    @contextmanager
    def _folder(self, name: str) -> Generator[int]:
        """A folder below ours, made if needed, opened."""
        try:
            at = open_beneath(self._root, name, _FOLDER)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self._root)
            _sync(self._root)
            at = open_beneath(self._root, name, _FOLDER)
        try:
            yield at
        finally:
            os.close(at)

    def _read(self, path: str, offset: int, length: int | None) -> bytes:
        fd = open_beneath(self._root, path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            state = os.fstat(fd)
            length = state.st_size - offset if length is None else length
            fits = 0 <= offset <= offset + length <= state.st_size <= BLOB_BYTES_MAX
            if not stat.S_ISREG(state.st_mode) or not fits:
                raise missing()
            content = os.pread(fd, length, offset)
            while len(content) < length and (more := os.pread(fd, length - len(content), offset + len(content))):
                content += more
        finally:
            os.close(fd)
        if len(content) != length:
            raise missing()
        return content

    def _remove(self, places: Sequence[tuple[str, str]]) -> None:
        for folder, file in places:
            try:
                at = open_beneath(self._root, folder, _FOLDER)
            except FileNotFoundError:
                continue
            try:
                for name in (file, file + _PART):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=at)
            finally:
                os.close(at)

    def _names(self, start: str) -> Sequence[str]:
        try:
            at = open_beneath(self._root, start[:2], _FOLDER)
        except FileNotFoundError:
            return []
        found: set[str] = set()
        try:
            with os.scandir(at) as scan:
                for one in scan:
                    if one.name.startswith(start):
                        found.add(one.name.removesuffix(_PART).replace(".", "/"))
                        if len(found) >= LISTED_MAX:
                            break
        finally:
            os.close(at)
        return list(found)

    def _check(self) -> None:
        state, now = os.fstat(self._root), self._path.stat()
        if (state.st_ino, state.st_dev) != (now.st_ino, now.st_dev):
            raise OSError(errno.ESTALE, "it was replaced by another folder")
        if os.fstatvfs(self._root).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))


async def open_folder(path: Path) -> FolderBlobs:
    """Make the folder if needed. Raises StoreFolderError, OSError."""
    root = await anyio.to_thread.run_sync(_opened, path)
    return FolderBlobs(path, root)


def _opened(path: Path) -> int:
    return os.open(private_folder(path), _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)


def _place(name: str) -> tuple[str, str]:
    """Folder and file of a blob."""
    return check_name(name)[:2], name.replace("/", ".")


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise


def _is_full(error: OSError) -> bool:
    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
