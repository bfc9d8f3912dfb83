"""Starts walls, through an undertaker: a small process that ends them whatever becomes of the host.

The undertaker (`moonpool.sandboxes.undertaker`) is started with the first wall and is the parent of all of them. A wall
is killed through a pidfd; that it has ended is known when the undertaker says so, and then no process of it is left.
When the undertaker itself is killed, its walls die with it, and what bubblewrap may have left in the middle of a start
is found by the folder in its command line (`moonpool.sandboxes.leftovers`).
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import itertools
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.leftovers import end_walls_naming

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.sandboxes.identity import Identity

OWN_LAUNCHER = Path("/usr/lib/moonpool/launcher")
"""Our copy of bubblewrap, for hosts whose AppArmor lets only named programs make user namespaces."""

_START_TIMEOUT_S: Final = 20.0
_LEAVE_TIMEOUT_S: Final = 20.0
_PACKET_BYTES_MAX: Final = 65_536
_KILLED: Final = -9
_ROOT: Final = Path(__file__).parents[2]

_ETC = {
    "passwd": "root:x:0:0:root:/:/bin/false\nsandbox:x:1000:1000:sandbox:/home/user:/bin/sh\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


class Wall:
    """One wall that was started. `ended` gets its exit code; a negative number is a signal."""

    def __init__(self, pid: int, pidfd: int, ended: asyncio.Future[int]) -> None:
        self.pid, self.ended = pid, ended
        self._pidfd = pidfd
        ended.add_done_callback(lambda _: os.close(pidfd))

    def kill(self) -> None:
        """Kill bubblewrap; everything inside ends with it."""
        if not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait(self) -> int:
        """Wait until no process of it is left."""
        return await asyncio.shield(self.ended)


class WallStarter:
    """Starts bubblewrap under a sandbox identity.

    `folder` and the control groups `groups` are removed when this process dies without `close`.
    """

    def __init__(self, folder: Path | None = None, groups: Iterable[Path] = ()) -> None:
        self._folder, self._groups = folder, tuple(groups)
        self._undertaker: Undertaking | None = None
        self._beginning = asyncio.Lock()

    async def begin(self) -> Undertaking:
        """Have an undertaker at hand. The first `start` does it; it takes as long as an interpreter takes to start."""
        async with self._beginning:
            if self._undertaker is None or self._undertaker.gone:
                self._undertaker = await Undertaking.begin(self._folder, self._groups)
            return self._undertaker

    async def start(
        self,
        command: Sequence[str],
        identity: Identity,
        *,
        pass_fds: Sequence[int],
        stdout: int | None,
        stderr: int | None,
    ) -> Wall:
        """Start `command` with nothing inherited but `pass_fds`. A cancelled start leaves no process. Raises OSError.

        SECURITY: never as kernel uid 0.
        """
        uid = identity.uid if identity.uid is not None else os.geteuid()
        assert uid != 0, "a wall must not run as kernel uid 0"
        undertaker = await self.begin()
        starting = asyncio.ensure_future(
            undertaker.start(command, identity.uid, pass_fds=pass_fds, stdout=stdout, stderr=stderr)
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await end_wall(await starting)
            raise

    async def close(self) -> None:
        """End every wall that is left, and the undertaker."""
        if self._undertaker is not None:
            await self._undertaker.dismiss()
            self._undertaker = None


class Undertaking:
    """The host's end of the undertaker's control socket."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, folder: Path | None) -> None:
        self._process, self._control, self._folder = process, control, folder
        self._ids = itertools.count(1)
        self._starting: dict[int, asyncio.Future[Wall]] = {}
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._sending = asyncio.Lock()
        self.gone = False
        asyncio.get_running_loop().add_reader(control.fileno(), self._on_packet)

    @classmethod
    async def begin(cls, folder: Path | None, groups: Sequence[Path]) -> Undertaking:
        """Start the process. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        host_fd = os.pidfd_open(os.getpid())
        try:
            process = await asyncio.to_thread(_start_undertaker, theirs.fileno(), host_fd, folder, groups)
        except BaseException:
            ours.close()  # if the thread starts it nevertheless, it finds nobody and ends
            raise
        finally:
            theirs.close()
            os.close(host_fd)
        ours.setblocking(False)
        return cls(process, ours, folder)

    async def start(
        self,
        command: Sequence[str],
        uid: int | None,
        *,
        pass_fds: Sequence[int],
        stdout: int | None,
        stderr: int | None,
    ) -> Wall:
        """Have a wall started. Raises OSError as execve(2) does."""
        loop = asyncio.get_running_loop()
        wall_id = next(self._ids)
        started: asyncio.Future[Wall] = loop.create_future()
        self._starting[wall_id], self._ends[wall_id] = started, loop.create_future()
        words = ("start", str(wall_id), "" if uid is None else str(uid), ",".join(map(str, pass_fds)), *command)
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            fds = (null if stdout is None else stdout, null if stderr is None else stderr, *pass_fds)
            await self._send(words, fds)
            async with asyncio.timeout(_START_TIMEOUT_S):
                return await started
        except BaseException as error:
            if not started.done() or started.cancelled():  # it does not answer, so nothing that it holds can be trusted
                self._process.kill()
            if isinstance(error, TimeoutError):
                raise OSError(errno.ETIMEDOUT, "the undertaker did not answer") from error
            raise
        finally:
            os.close(null)
            self._starting.pop(wall_id, None)

    async def _send(self, words: Sequence[str], fds: Sequence[int]) -> None:
        packet = "\0".join(words).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        async with self._sending:
            while not self.gone:
                try:
                    self._control.sendmsg([packet], rights)
                except BlockingIOError:
                    await self._writable()
                else:
                    return
        raise OSError(errno.EPIPE, "the undertaker has ended")

    async def _writable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._control.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._control.fileno())

    def _on_packet(self) -> None:
        try:
            packet, fds, _, _ = socket.recv_fds(self._control, _PACKET_BYTES_MAX, 1)
        except BlockingIOError:
            return
        except OSError:
            packet, fds = b"", []
        if not packet:
            self._on_gone()
            return
        operation, wall_id, number = packet.split(b"\0")
        self._take(operation, int(wall_id), int(number), fds)

    def _take(self, operation: bytes, wall_id: int, number: int, fds: list[int]) -> None:
        if operation == b"ended":
            self._ends.pop(wall_id).set_result(os.waitstatus_to_exitcode(number))
            return
        started = self._starting[wall_id]
        if operation == b"started":
            wall = Wall(number, fds[0], self._ends[wall_id])
            if started.done():
                wall.kill()
            else:
                started.set_result(wall)
        else:
            del self._ends[wall_id]
            if not started.done():
                started.set_exception(OSError(number, os.strerror(number)))

    def _on_gone(self) -> None:
        """It has ended, and so have its walls. What bubblewrap left in the middle of a start has to be looked for."""
        if self.gone:
            return
        self.gone = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._control.fileno())
        self._control.close()
        for started in self._starting.values():
            if not started.done():
                started.set_exception(OSError(errno.EPIPE, "the undertaker has ended"))
        search = loop.run_in_executor(None, self._search)
        search.add_done_callback(lambda _: self._tell_ends())

    def _search(self) -> None:
        self._process.wait()
        if self._folder is not None and self._ends:
            end_walls_naming(self._folder)

    def _tell_ends(self) -> None:
        for ended in self._ends.values():
            ended.set_result(_KILLED)
        self._ends.clear()

    async def dismiss(self) -> None:
        """Say farewell and wait until it has ended every wall and itself."""
        with contextlib.suppress(OSError):
            await self._send(("bye",), ())
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S + 1):
                await asyncio.to_thread(self._process.wait, _LEAVE_TIMEOUT_S)
        except (subprocess.TimeoutExpired, TimeoutError):
            self._process.kill()
        ends = tuple(self._ends.values())
        self._on_gone()
        await asyncio.gather(*ends)


def _start_undertaker(
    control_fd: int, host_fd: int, folder: Path | None, groups: Sequence[Path]
) -> subprocess.Popen[bytes]:
    arguments = f"{control_fd}, {host_fd}, {str(folder or '')!r}, {list(map(str, groups))!r}"
    program = (
        f"import sys; sys.path.append({str(_ROOT)!r}); "
        f"from moonpool.sandboxes.undertaker import main; main({arguments})"
    )
    libraries = os.environ.get("LD_LIBRARY_PATH")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(control_fd, host_fd),
        env={} if libraries is None else {"LD_LIBRARY_PATH": libraries},
        cwd="/",
        start_new_session=True,
    )


async def end_wall(wall: Wall) -> None:
    """Kill a wall and wait until nothing of it is left."""
    wall.kill()
    await wall.wait()


def find_launcher() -> Path | None:
    """Our own launcher where it is installed, else bubblewrap."""
    if OWN_LAUNCHER.exists():
        return OWN_LAUNCHER
    found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    return Path(found) if found else None


def write_etc(folder: Path) -> Path:
    """Write the few files of /etc that a sandbox sees."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for name, text in _ETC.items():
        (folder / name).write_text(text, encoding="ascii")
        (folder / name).chmod(0o644)
    return folder


def filter_fd(program: bytes) -> int:
    """An anonymous file that holds a filter; bubblewrap and the zygote read it."""
    fd = os.memfd_create("moonpool-filter", os.MFD_CLOEXEC)
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def has_merged_usr() -> bool:
    """Whether /bin and /lib are links into /usr, as on every current Debian and Ubuntu."""
    return stat.S_ISLNK(os.lstat("/bin").st_mode)
