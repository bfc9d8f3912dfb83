"""The host's side of the reaper: requests outer sandboxes, learns of their ends, shuts the reaper down.

The other side is `moonpool.sandboxes.reaper`, where the packets are described.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import itertools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.leftovers import end_outer_sandboxes_naming

if TYPE_CHECKING:
    from collections.abc import Sequence

_START_TIMEOUT_S: Final = 20.0
_LEAVE_TIMEOUT_S: Final = 20.0
_PACKET_BYTES_MAX: Final = 65_536
_KILLED: Final = -9
_FAREWELL: Final = b"bye"
_ROOT: Final = Path(__file__).parents[2]


class OuterSandbox:
    """One outer sandbox that was started. `ended` gets its exit code; a negative number is a signal."""

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


class ReaperClient:
    """The host's end of the reaper's control socket."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, folder: Path | None) -> None:
        self._process, self._control, self._folder = process, control, folder
        self._ids = itertools.count(1)
        self._starting: dict[int, asyncio.Future[OuterSandbox | None]] = {}  # None: there was no room for its pidfd
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._sending = asyncio.Lock()
        self._room = asyncio.Event()  # the socket takes more, or is gone
        self.gone = False
        asyncio.get_running_loop().add_reader(control.fileno(), self._on_packet)

    @classmethod
    async def begin(cls, folder: Path | None, groups: Sequence[Path]) -> ReaperClient:
        """Start the process. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = await asyncio.to_thread(_start_reaper, theirs, folder, groups)
        except BaseException:
            with contextlib.suppress(OSError):
                ours.send(_FAREWELL)  # a thread cannot be cancelled: what it starts nevertheless reads this, and leaves
            ours.close()
            raise
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
        folders: str = "",
    ) -> OuterSandbox:
        """Have an outer sandbox started. Raises OSError as execve(2) does.

        INVARIANT: not to be cancelled. A reaper whose answer nobody awaits is killed, and every outer sandbox with it.
        """
        loop = asyncio.get_running_loop()
        outer_id = next(self._ids)
        words = (
            "start",
            str(outer_id),
            "" if uid is None else str(uid),
            folders,
            ",".join(map(str, pass_fds)),
            *command,
        )
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            fds = (null if stdout is None else stdout, null if stderr is None else stderr, *pass_fds)
            await self._send(words, fds)
        finally:
            os.close(null)
        # In time: the loop reads the answer, and has not had a turn since the packet left.
        started = self._starting[outer_id] = loop.create_future()
        ended = self._ends[outer_id] = loop.create_future()
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                outer = await started
        except BaseException as error:
            if not started.done() or started.cancelled():  # it does not answer, so nothing that it holds can be trusted
                self._process.kill()
            if isinstance(error, TimeoutError):
                raise OSError(errno.ETIMEDOUT, "the reaper did not answer") from error
            raise
        finally:
            self._starting.pop(outer_id, None)
        if outer is None:
            await self._send(("end", str(outer_id)), ())
            await ended
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return outer

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
        raise OSError(errno.EPIPE, "the reaper has ended")

    async def _writable(self) -> None:
        loop, fd = asyncio.get_running_loop(), self._control.fileno()
        self._room.clear()
        loop.add_writer(fd, self._room.set)
        try:
            await self._room.wait()
        finally:
            if not self.gone:
                loop.remove_writer(fd)

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
        operation, outer_id, number = packet.split(b"\0")
        self._take(operation, int(outer_id), int(number), fds)

    def _take(self, operation: bytes, outer_id: int, number: int, fds: list[int]) -> None:
        if operation == b"ended":
            self._ends.pop(outer_id).set_result(os.waitstatus_to_exitcode(number))
            return
        started = self._starting.get(outer_id)
        if started is not None and started.done():
            started = None  # nobody waits any more
        if operation == b"started":
            outer = OuterSandbox(number, fds[0], self._ends[outer_id]) if fds else None
            if started is not None:
                started.set_result(outer)
            elif outer is not None:
                outer.kill()
        else:
            del self._ends[outer_id]
            if started is not None:
                started.set_exception(OSError(number, os.strerror(number)))

    def _on_gone(self) -> None:
        """It has ended with its outer sandboxes. What bubblewrap left of an unfinished start is searched for."""
        if self.gone:
            return
        self.gone = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._control.fileno())
        loop.remove_writer(self._control.fileno())
        self._control.close()
        self._room.set()
        for started in self._starting.values():
            if not started.done():
                started.set_exception(OSError(errno.EPIPE, "the reaper has ended"))
        search = loop.run_in_executor(None, self._search)
        search.add_done_callback(lambda _: self._tell_ends())

    def _search(self) -> None:
        self._process.wait()
        if self._folder is not None and self._ends:
            end_outer_sandboxes_naming(self._folder)

    def _tell_ends(self) -> None:
        for ended in self._ends.values():
            ended.set_result(_KILLED)
        self._ends.clear()

    async def dismiss(self) -> None:
        """Send `bye` and wait until it has ended every outer sandbox and itself."""
        with contextlib.suppress(OSError):
            await self._send((_FAREWELL.decode(),), ())
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S + 1):
                await asyncio.to_thread(self._process.wait, _LEAVE_TIMEOUT_S)
        except (subprocess.TimeoutExpired, TimeoutError):
            self._process.kill()
        ends = tuple(self._ends.values())
        self._on_gone()
        await asyncio.gather(*ends)


def _start_reaper(theirs: socket.socket, folder: Path | None, groups: Sequence[Path]) -> subprocess.Popen[bytes]:
    """INVARIANT: what it inherits is closed here, on the thread that forks: nobody else knows when that is."""
    with theirs:
        host_fd = os.pidfd_open(os.getpid())
        try:
            return _popen_reaper(theirs.fileno(), host_fd, folder, groups)
        finally:
            os.close(host_fd)


def _popen_reaper(
    control_fd: int, host_fd: int, folder: Path | None, groups: Sequence[Path]
) -> subprocess.Popen[bytes]:
    arguments = f"{control_fd}, {host_fd}, {str(folder or '')!r}, {list(map(str, groups))!r}"
    program = (
        f"import sys; sys.path.append({str(_ROOT)!r}); from moonpool.sandboxes.reaper import main; main({arguments})"
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
