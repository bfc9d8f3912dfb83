"""One bash process and its pipes: send it a line and code, read what it reports."""

import asyncio
import fcntl
import os
import resource
import struct
import termios

from moonpool_guest.bash import pipes
from moonpool_guest.bash.reports import Reports
from moonpool_guest.bash.script import Descriptors, Script
from moonpool_guest.companion import ChildProcess, ProcessGoneError, UnavailableError, child_variables

_LEAVE = os.path.join(os.path.dirname(__file__), "leave.bash")


class Shell:
    """A bash that waits for its next line."""

    def __init__(self, runtime: str) -> None:
        """Start it. Raises UnavailableError."""
        fds = Descriptors.below(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._script = Script(fds, _LEAVE)
        self._code_path = f"/dev/fd/{fds.code}"
        self._flags = ""
        self.last_reports = Reports(0)
        self._code_fd, code_writer = os.pipe()
        self._report_fd, report_writer = os.pipe()
        script_reader, self._script_fd = os.pipe()
        given = {
            fds.code: self._code_fd,
            fds.report: report_writer,
            fds.script: script_reader,
            fds.stdout: 1,
            fds.stderr: 2,
        }
        try:
            if max(self._script_fd, report_writer) >= fds.code:
                raise UnavailableError("bash cannot be started: PID 1 has too many files open; close some in Python")
            command = [runtime, "--norc", "--noprofile", self._script.path]
            self.process = ChildProcess(command, child_variables(), given)
        except OSError as error:
            self.close()
            raise UnavailableError(f"bash cannot be started: {error.strerror}") from None
        except UnavailableError:
            self.close()
            raise
        finally:
            for fd in (code_writer, report_writer, script_reader):
                os.close(fd)
        os.set_blocking(self._report_fd, False)
        self._say(self._script.opening())

    async def restore(self, state: bytes) -> None:
        """Give it what another bash had. Raises ProcessGoneError."""
        reports = self._new_reports()
        await self._exchange(self._script.restore(reports.number), state, reports)
        self._flags = reports.flags

    async def execute(self, source: bytes, *, final: bool) -> Reports:
        """Run code until it is over. Raises ProcessGoneError; `last_reports` then has what came before."""
        flags, interrupted = self._flags, self.last_reports.interrupted
        reports = self._new_reports()
        line = self._script.execute(reports.number, flags, interrupted=interrupted, final=final)
        await self._exchange(line, self._script.code(source, flags), reports)
        self._flags = reports.flags
        return reports

    async def leave(self, status: int) -> int:
        """Let it end with `status`, and return the wait status that it really ended with."""
        self._say(self._script.leave(status))
        return await self.process.wait()

    @property
    def is_busy(self) -> bool:
        """Whether code runs that no interrupt has ended."""
        return self.last_reports.status is None and not self.last_reports.interrupted

    def is_source(self, command: str) -> bool:
        """Whether `command` is not the code's but the one that runs the code."""
        return command.startswith(f". {self._code_path} ")

    def close(self) -> None:
        """Let go of the pipes. A bash that still lives ends when it has read to the end of its script."""
        for fd in (self._code_fd, self._report_fd, self._script_fd):
            os.close(fd)

    def _new_reports(self) -> Reports:
        self.last_reports = Reports(self.last_reports.number + 1)
        return self.last_reports

    async def _exchange(self, line: str, code: bytes, reports: Reports) -> None:
        writer = pipes.open_writer(self._code_fd)  # before bash looks for it: without a writer it finds an empty script
        self._say(line)
        writing = asyncio.ensure_future(pipes.write_and_close(writer, code))
        try:
            await self.process.race(self._read(reports))
        except ProcessGoneError:
            pipes.read_available(self._report_fd, reports.feed)
            raise
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        if reports.overflowed or self._unread_bytes():  # it floods us, or has closed what its code comes by
            self.process.kill_group()
            raise ProcessGoneError(await self.process.wait())

    async def _read(self, reports: Reports) -> None:
        await pipes.read_until(self._report_fd, reports.feed, lambda: reports.status is not None or reports.overflowed)
        if reports.status is None and not reports.overflowed:
            raise ProcessGoneError(await self.process.wait())  # nobody is left who could report

    def _say(self, line: str) -> None:
        """A line is far smaller than a pipe, and bash has read the last one."""
        try:
            os.write(self._script_fd, line.encode())
        except BrokenPipeError:
            pass  # it has ended, as whoever waits for it will see

    def _unread_bytes(self) -> int:
        (count,) = struct.unpack("i", fcntl.ioctl(self._code_fd, termios.FIONREAD, b"\0\0\0\0"))
        return count
