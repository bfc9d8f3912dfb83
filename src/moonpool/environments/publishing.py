"""Publishing folders that sandboxes read: atomically, under one lock, readable by every uid.

A builder fills a hidden folder beside the final one and renames it: a folder with its final name is complete. The lock
belongs to the open file, so the Linux kernel releases it when a builder is killed; the next holder removes what that
builder left. The folders are content-addressed and never change after the rename.

INVARIANT: no code path writes below a final name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from moonpool.environments.access import first_obstacle, is_writable_by_others
from moonpool.environments.base import EnvironmentBuildError, EnvironmentFolderError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

BUILDING_PREFIX = ".building-"
LOCK_POLL_S = 0.1


def ensure_root(root: Path, uid: int) -> None:
    """Create `root`; raise unless sandboxes of `uid` can read it and only its owner can write it."""
    try:
        _make_readable_folders(root)
    except OSError as exc:
        reason = exc.strerror or exc
        raise EnvironmentFolderError(f"cannot create {root}: {reason}; set XDG_DATA_HOME or run as root") from exc
    # SECURITY: a user who can write here controls what runs in every sandbox and in its parent process.
    if root.stat().st_uid not in {0, os.geteuid()} or is_writable_by_others(root):
        raise EnvironmentFolderError(f"{root} can be changed by another user; run: chown $(id -u) and chmod 755 on it")
    if (obstacle := first_obstacle(root, uid)) is not None:
        raise EnvironmentFolderError(
            f"sandboxes (uid {uid}) cannot read {root}: {obstacle} is closed to them; choose another folder "
            f"or run: chmod o+rx {obstacle}"
        )


def _make_readable_folders(root: Path) -> None:
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)  # regardless of the umask


@asynccontextmanager
async def building_lock(root: Path, name: str) -> AsyncGenerator[int]:
    """Hold the lock for building `name`; wait (cancellably) while another process holds it.

    Yields the lock's file descriptor: a child that inherits it keeps the lock until it ends, too.
    """
    with _open_lock(root, name) as lock_fd:
        while not _try_lock(lock_fd):  # noqa: ASYNC110 - another process holds it; nothing here can be signalled
            await anyio.sleep(LOCK_POLL_S)
        yield lock_fd


@contextmanager
def held_lock(root: Path, name: str) -> Generator[None]:
    """The same lock for short work outside the event loop; waits without a time limit, as holders are quick."""
    with _open_lock(root, name) as lock_fd:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        yield


@contextmanager
def _open_lock(root: Path, name: str) -> Generator[int]:
    path = root / f".lock-{name}"
    try:
        lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:  # a folder that another user prepared incompletely
        raise EnvironmentFolderError(f"cannot build in {root}: {exc.strerror}; its owner has to build {name}") from exc
    try:
        yield lock_fd
    finally:
        os.close(lock_fd)


def _try_lock(lock_fd: int) -> bool:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def building_folder(final: Path) -> Generator[Path]:
    """Yield an empty folder that becomes `final` if the body succeeds and is removed if it fails."""
    with _named_disk_errors(final):
        folder = open_build(final)
        try:
            yield folder
            finish_build(folder, final)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def building_folder_async(final: Path) -> AsyncGenerator[Path]:
    """The same for an async body; file system work runs in threads."""
    with _named_disk_errors(final):
        folder = await to_thread.run_sync(open_build, final)
        try:
            yield folder
            await to_thread.run_sync(finish_build, folder, final)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(shutil.rmtree, folder, True)  # ignore_errors


@contextmanager
def _named_disk_errors(final: Path) -> Generator[None]:
    try:
        yield
    except shutil.Error as exc:  # of a whole tree; each file with its own reason
        why = str(exc.args[0][0][2])[:300]
        raise EnvironmentBuildError(f"cannot write {final}: {why}; free disk space and try again") from exc
    except OSError as exc:
        if exc.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}:
            raise
        raise EnvironmentBuildError(f"cannot write {final}: {exc.strerror}; free disk space and try again") from exc


def open_build(final: Path) -> Path:
    """Create the hidden folder in which `final` is put together."""
    _make_readable_folders(final.parent)
    folder = final.parent / f"{BUILDING_PREFIX}{final.name}-{secrets.token_hex(4)}"
    folder.mkdir()
    folder.chmod(0o755)
    return folder


def finish_build(folder: Path, final: Path) -> None:
    """Make the tree read-only for everybody and rename it."""
    make_read_only(folder)
    _rename_whole(folder, final)


def _rename_whole(folder: Path, final: Path) -> None:
    """Rename the finished folder; an equal folder of another process is used instead if it exists."""
    try:
        folder.rename(final)
    except OSError as exc:
        if exc.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise


def remove_stale_builds(parent: Path) -> None:
    """Remove what killed builders left. Only for the holder of the lock."""
    if parent.is_dir():
        for folder in parent.glob(f"{BUILDING_PREFIX}*"):
            shutil.rmtree(folder, ignore_errors=True)


def make_read_only(folder: Path) -> None:
    """Let every uid read the tree and nobody write its files; folders stay writable for their owner, for deletion.

    SECURITY: a folder's owner is changed before its contents are examined, so a less trusted uid that filled it cannot
    swap a file for a link in between; links are never followed.
    """
    owner, group = os.geteuid(), os.getegid()
    for current, _, files in os.walk(folder):
        os.chown(current, owner, group, follow_symlinks=False)
        os.chmod(current, 0o755)  # noqa: PTH101, S103 - public on purpose; os.walk gives strings, and there are thousands of them
        for file in files:
            path = os.path.join(current, file)  # noqa: PTH118
            os.chown(path, owner, group, follow_symlinks=False)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                os.chmod(path, 0o555 if mode & stat.S_IXUSR else 0o444)  # noqa: PTH101
