"""One socket per session in a folder that other users cannot enter.

SECURITY: the folder is 0700 and ours, the sockets are 0600, and both ends check the other's uid, so only its own user
can reach a session. Sockets are opened through the folder's descriptor, because the path of a data folder may be longer
than a socket address. A lock file per name prevents two clients from starting the same session.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import socket
import struct
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from moonpool.server.named_sessions.wire import SessionError
from moonpool.store.private_files import private_folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_POLL_S: Final = 0.02
_BACKLOG: Final = 64


def checked_name(name: str) -> str:
    """`name` if it is valid for a session. Raises SessionError."""
    if not _NAME.fullmatch(name):
        raise SessionError(
            f"{name[:80]!r} cannot name a session; use up to 64 letters, digits, dots, dashes and underscores"
        )
    return name


class SessionFolder:
    """The files of all sessions below one data folder."""

    def __init__(self, data: Path) -> None:
        self.path = private_folder(private_folder(data / "private") / "sessions")

    def names(self) -> list[str]:
        """Names of sessions that have a socket, including dead ones."""
        return sorted(path.stem for path in self.path.glob("*.sock") if _NAME.fullmatch(path.stem))

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def connect(self, name: str) -> socket.socket | None:
        """A connection to the session's process, or None if there is none. Raises SessionError if another user's
        process answers.
        """
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with self._address(name) as address:
                client.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
            return None
        except OSError:
            client.close()
            raise
        if peer_of(client)[1] != os.geteuid():
            client.close()
            raise SessionError(f"session {name!r} belongs to another user; use another name")
        client.setblocking(False)
        return client

    def listen(self, name: str) -> socket.socket:
        """Bind the session's socket, replacing that of a dead process. The caller holds the lock of `starting`."""
        self.remove_socket(name)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with self._address(name) as address:
            listener.bind(address)
        self._socket(name).chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        return listener

    def has_socket(self, name: str) -> bool:
        return self._socket(name).exists()

    def remove_socket(self, name: str) -> None:
        self._socket(name).unlink(missing_ok=True)

    def tidy(self, name: str) -> None:
        """Remove log and lock of a session that ended normally, unless it is being started."""
        lock = os.open(self._lock(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.has_socket(name):
                self.log(name).unlink(missing_ok=True)
                self._lock(name).unlink(missing_ok=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)

    @asynccontextmanager
    async def starting(self, name: str) -> AsyncGenerator[None]:
        """Hold the lock under which a session is started."""
        lock = await self._acquire(name)
        try:
            yield
        finally:
            os.close(lock)

    async def _acquire(self, name: str) -> int:
        while True:
            lock = os.open(self._lock(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    if os.stat(self._lock(name)).st_ino == os.fstat(lock).st_ino:  # noqa: PTH116
                        return lock
            except BlockingIOError:
                pass
            os.close(lock)  # held by another starter, or removed by `tidy` between open and lock
            await asyncio.sleep(_POLL_S)

    def _socket(self, name: str) -> Path:
        return self.path / f"{name}.sock"

    def _lock(self, name: str) -> Path:
        return self.path / f"{name}.lock"

    @contextmanager
    def _address(self, name: str) -> Generator[str]:
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{folder}/{name}.sock"
        finally:
            os.close(folder)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of the process at the other end, as the Linux kernel reports them."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid
