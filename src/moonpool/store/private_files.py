"""Files that only the owner may read: folders 0700, files 0600, replaced atomically.

Decisions and input of a person, and keys, are synced to the disk before they are reported as stored. Caches and
recoverable data are not: they may be lost in a power loss, which their readers tolerate.

SECURITY: a folder of another user is refused: its owner could replace its contents.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
import time
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

_LOCKED_S_MAX: Final = 5.0
_PAUSE_S: Final = 0.02


class StoreFolderError(MoonpoolError):
    """A folder for private files cannot be made or is not ours."""

    code = "store_folder_unusable"
    fault = Fault.HOST


def unusable_data_folder(path: Path, cause: OSError) -> StoreFolderError:
    """The error for a `path` in the data folder that cannot be created or written."""
    why = (cause.strerror or str(cause)).lower()
    remedy = "free some space on its disk" if cause.errno == errno.ENOSPC else "make it writable"
    return StoreFolderError(f"{path} cannot be written: {why}; {remedy}, or choose another folder: MOONPOOL_DATA_DIR")


def private_folder(path: Path) -> Path:
    """Create `path` (and its parents) if needed, closed to other users. Raises StoreFolderError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        state = path.stat(follow_symlinks=False)
        if not stat.S_ISDIR(state.st_mode):
            raise StoreFolderError(f"{path} is not a folder; remove it or choose another data folder")
        if state.st_uid != os.geteuid():
            raise StoreFolderError(
                f"{path} belongs to uid {state.st_uid}; run this as that user, or choose another data folder"
            )
        if stat.S_IMODE(state.st_mode) & 0o077:
            path.chmod(0o700)
    except OSError as exc:
        raise unusable_data_folder(path, exc) from exc
    return path


def create_private_file(path: Path) -> None:
    """Create an empty file with mode 0600, or tighten the mode of an existing one."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        # Not opened on purpose: closing a descriptor of an SQLite file drops this process's locks on it.
        if stat.S_IMODE(path.stat(follow_symlinks=False).st_mode) & 0o077:
            path.chmod(0o600)


def replace_private_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Write `content` beside `path` and rename it into place: readers see the old file or the new one.

    `durable`: after return the content survives a power loss.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:32]}.")  # mkstemp creates it with 0600
    temporary = path.with_name(os.path.basename(name))  # noqa: PTH119
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:  # before the rename: the name must never refer to an empty file
                sync_file(file)
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def rewrite_own_file(path: Path, change: Callable[[bytes], bytes], *, bytes_max: int) -> None:
    """Replace a file of ours by the result of `change`: atomically, with its mode, and synced to the disk.

    Raises OSError, ValueError with the end of a sentence that names the file, and the errors of `change`; then the file
    is unchanged.

    SECURITY: a file or link of another user is refused: its owner would choose what is written, or where. Concurrent
    calls of this function wait for each other; changes by other programs (an editor) are detected, so no change is lost
    silently.
    """
    if path.is_symlink() and path.lstat().st_uid != os.geteuid():
        raise ValueError(f"is a link of uid {path.lstat().st_uid}; name the file itself")
    target = path.resolve(strict=True)
    deadline = time.monotonic() + _LOCKED_S_MAX
    while time.monotonic() < deadline:
        handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid():
                raise ValueError(f"is not your file (uid {state.st_uid}); its owner can change it")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE_S)
                continue
            if not _is_same(target, state):  # replaced by the previous holder of the lock
                continue
            content = file.read(bytes_max + 1)
            if len(content) > bytes_max:
                raise ValueError(f"is larger than {bytes_max:,} bytes")
            changed = change(content)
            if changed != content:
                _replace_if_same(target, state, changed)
            return
    raise ValueError("is being changed by another process; try again")


def _is_same(path: Path, state: os.stat_result) -> bool:
    now = path.stat(follow_symlinks=False)
    return (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns) == (
        state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns,
    )  # fmt: skip


def _replace_if_same(path: Path, state: os.stat_result, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:32]}.")
    temporary = path.with_name(os.path.basename(name))  # noqa: PTH119
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, stat.S_IMODE(state.st_mode) & 0o777)
            file.write(content)
            sync_file(file)
        if not _is_same(path, state):
            raise ValueError("was changed by another program meanwhile; try again")
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_file(file: BinaryIO) -> None:
    """Wait until what was written to `file` is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the folder's entries are on the disk: of files created, renamed or removed in it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(handle)


def read_own_file(path: Path, *, bytes_max: int) -> bytes:
    """The content of a regular file of ours, of bounded size. Raises OSError and ValueError.

    SECURITY: no link is followed, and a pipe put there by hand does not block.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid():
            raise ValueError("it is not a file of this user")
        if state.st_size > bytes_max:
            raise ValueError(f"larger than {bytes_max:,} bytes")
        return file.read(bytes_max + 1)
