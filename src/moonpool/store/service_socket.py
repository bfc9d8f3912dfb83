"""The Unix socket of a service in a data folder, for the commands of the user who runs it.

One process at a time holds a folder's lock, from before it has a socket until all of it has ended; another lock is
held by whoever starts it, so that two commands start one service. Sockets are opened through the folder's descriptor,
because the path of a data folder may be longer than the address of a socket.

SECURITY: the folder is 0700 and ours, the socket 0600, and both ends look at the uid of the other: only this user, and
root, reach it. No folder of the data folder is ever in a sandbox (`sandboxes.host_folders`).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.store.private_files import StoreFolderError, private_folder, unusable_data_folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ENDING_S: Final = 45.0
"""How long one that ends may take: what runs in it has some seconds."""
_BACKLOG: Final = 256
_POLL_S: Final = 0.02


class ServiceRunsError(MoonpoolError):
    """Another service has this data folder. Nothing was started."""

    code = "service_runs"
    fault = Fault.CALLER


class ServiceProcess(NamedTuple):
    """A process by its number and a descriptor, to be closed, that is never another's."""

    pid: int
    descriptor: int


class ServiceFolder:
    """The files of the service of one data folder. Close it."""

    def __init__(self, data: Path) -> None:
        """Raises StoreFolderError."""
        self.path = private_folder(private_folder(data / "private") / "service")
        self.log = self.path / "log"
        self._folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        # SECURITY: where the data folder is another's, this need not be the folder that was looked at.
        if (state := os.fstat(self._folder)).st_uid != os.geteuid() or state.st_mode & 0o077:
            self.close()
            raise StoreFolderError(f"{self.path} is not a folder of this user alone; choose another data folder")

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @property
    def address(self) -> str:
        """Where the socket is, as long as this is open."""
        return f"/proc/self/fd/{self._folder}/socket"

    @property
    def has_socket(self) -> bool:
        """Also of one that was killed."""
        return (self.path / "socket").exists()

    def process(self) -> ServiceProcess | None:
        """The process that answers; None: nobody does. Raises StoreFolderError, ServiceRunsError."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            try:
                client.connect(self.address)
                pid, uid = peer_of(client)
                if not is_admitted(uid):
                    raise ServiceRunsError(f"{self.path}: uid {uid} serves there; choose another data folder")
                return ServiceProcess(pid, os.pidfd_open(pid))  # while we are connected, the pid is not another's
            except (FileNotFoundError, ConnectionRefusedError, ProcessLookupError):
                return None
            except OSError as error:
                raise unusable_data_folder(self.path, error) from error

    def is_served(self) -> bool:
        """Whether somebody answers."""
        process = self.process()
        if process is not None:
            os.close(process.descriptor)
        return process is not None

    async def take(self, *, wait_s: float = 0.0) -> ServiceSocket:
        """Take the folder, at most `wait_s` later, from a service that ends. Raises ServiceRunsError."""
        lock = self._opened("lock")
        end = asyncio.get_running_loop().time() + wait_s
        while not _locked(lock):
            if self.is_served() or asyncio.get_running_loop().time() >= end:
                os.close(lock)
                raise ServiceRunsError(
                    f"another service has the data folder {self.path.parent.parent}; give this one another --data-dir, "
                    "or end it, with `moonpool session close --all` where `moonpool run --session` started it"
                )
            await asyncio.sleep(_POLL_S)
        return ServiceSocket(self, lock)

    @asynccontextmanager
    async def starting(self) -> AsyncGenerator[None]:
        """Hold the lock of who starts a service. INVARIANT: its file stays, so all wait for the same."""
        lock = self._opened("starting")
        try:
            while not _locked(lock):  # noqa: ASYNC110  it is another process's
                await asyncio.sleep(_POLL_S)
            yield
        finally:
            os.close(lock)

    def _opened(self, name: str) -> int:
        try:
            return os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise unusable_data_folder(self.path, error) from error


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class ServiceSocket:
    """The folder's lock, and its socket once `bind` was called."""

    def __init__(self, folder: ServiceFolder, lock: int) -> None:
        self._folder, self._lock = folder, lock
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def bind(self) -> None:
        """Listen, in place of one that was killed. Raises StoreFolderError."""
        place = Path(self._folder.address)
        try:
            place.unlink(missing_ok=True)
            self.socket.bind(str(place))
            place.chmod(0o600)
            self.socket.listen(_BACKLOG)
        except OSError as error:
            raise unusable_data_folder(self._folder.path, error) from error
        self.socket.setblocking(False)

    def close(self) -> None:
        """Listen no more; whoever looks for a service finds none. Idempotent; the lock stays."""
        with suppress(OSError):
            Path(self._folder.address).unlink(missing_ok=True)
        self.socket.close()

    def release(self) -> None:
        """Let another have the folder, once everything has ended."""
        self.close()
        os.close(self._lock)
        self._folder.close()


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of the process at the other end, as the Linux kernel reports them."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def is_admitted(uid: int) -> bool:
    """SECURITY: this user, and root, who can become this user. Whoever is not known is nobody."""
    return uid in {0, os.geteuid()}
