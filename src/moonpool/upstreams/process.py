"""A stdio server's process: its birth, its lines, its stderr and its death.

It gets only a small safe part of our environment plus what is configured (B-013), a session and process group of its
own, and no shell. stderr is always drained into a ring of 64 KiB, so a chatty server neither blocks nor fills anything
(B-007). Lines of stdout may be many MiB (B-010); one above the cap is thrown away while it arrives.

INVARIANT: when `open_process` is left, on any path, the whole process group is gone: stdin is closed, then a grace,
then SIGTERM, then SIGKILL to the group (A-052), also for children that outlived their parent. The SDK's own transport
was not used because it leaves such children alone, inherits stderr and re-joins long lines quadratically.

Written on asyncio's subprocess protocol, not on its streams: one callback per chunk, no task per pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import anyio
import anyio.to_thread

from moonpool.configuration.expansion import conceal
from moonpool.core.phrases import said
from moonpool.net.message_limits import RESULT_BYTES_MAX
from moonpool.sandboxes.code_writable import code_may_write, code_may_write_somewhere, variables_without_code
from moonpool.upstreams.base import UpstreamStartError
from moonpool.upstreams.line_buffer import ArrivedLines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from moonpool.configuration.servers import ServerConfig
    from moonpool.upstreams.line_buffer import OversizedLine

INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
STDERR_BYTES_MAX: Final = 64 * 1024
QUEUED_BYTES_MAX: Final = 16 * 1024 * 1024
UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a server may leave unread before answers to its own questions are dropped."""
HELD_OPEN_S: Final = 0.25
"""How long output is awaited after the process ended while a grandchild holds the pipe open."""
_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTimes:
    """Patience with a server that is asked to stop."""

    grace_s: float = 2.0  # from closing stdin to SIGTERM
    term_s: float = 2.0  # from SIGTERM to SIGKILL
    kill_s: float = 2.0  # for the system to confirm


class ServerProcess(asyncio.SubprocessProtocol):
    """One child process. `receive_line` has one caller at a time; `send` may have many."""

    def __init__(self, line_bytes_max: int) -> None:
        self.exited = asyncio.Event()
        self.stop_at_once = False  # set for a server that hangs: no grace
        self._transport: asyncio.SubprocessTransport | None = None
        self._stderr = bytearray()
        self._lines = ArrivedLines(line_bytes_max)
        self._reading_paused = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._stdin_lost = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            if len(self._stderr) > 2 * STDERR_BYTES_MAX:
                del self._stderr[:-STDERR_BYTES_MAX]
            return
        self._lines.add(data)
        if self._lines.queued_bytes > QUEUED_BYTES_MAX and not self._reading_paused:
            self._reading_paused = True  # back-pressure: the pipe fills and the server waits
            self._read_pipe("pause_reading")
        self._wake()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        if fd == 0:
            self._stdin_lost = True
            self._writable.set()
        elif fd == 1:
            self._end_output()

    def process_exited(self) -> None:
        self.exited.set()
        self._end_output_soon()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What the transport above uses.

    @property
    def pid(self) -> int:
        return self._child.get_pid()

    async def receive_line(self) -> bytes | OversizedLine:
        """The next line without its end. Raises EndOfStream when there will be none."""
        while (line := self._lines.next(ended=self._ended)) is None:
            if self._ended:
                raise anyio.EndOfStream
            self._resume()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._resume()
        return line

    async def send(self, line: bytes, *, patient: bool = True) -> None:
        """Write one message; if `patient`, wait while the server reads nothing. It is queued whole in any case.

        Raises BrokenResourceError when the server is gone, or reads so little that what nobody waits for piles up.
        """
        pipe = cast("asyncio.WriteTransport", self._child.get_pipe_transport(0))
        if self._stdin_lost or (not patient and pipe.get_write_buffer_size() > UNREAD_BYTES_MAX):
            raise anyio.BrokenResourceError
        pipe.write(line)
        if patient and not self._writable.is_set():
            await self._writable.wait()

    def last_words(self, secrets: frozenset[str], *, ended_itself: bool = True) -> str:
        """` (exit status 1); it last wrote to stderr: …`, redacted and capped; empty when there is nothing to say."""
        status = self._child.get_returncode() if ended_itself else None
        end = ""
        if status is not None:
            end = f" (killed by {_signal_name(-status)})" if status < 0 else f" (exit status {status})"
        text = self._stderr[-STDERR_BYTES_MAX:].decode(errors="replace")
        lines = [line for line in conceal(text, secrets).splitlines() if line.strip()]
        return end + (f"; it last wrote to stderr: {said(' | '.join(lines[-8:]), 1200)}" if lines else "")

    async def wait_exited(self, timeout_s: float) -> bool:
        with anyio.move_on_after(timeout_s):
            await self.exited.wait()
        return self.exited.is_set()

    async def stop(self, times: StopTimes) -> None:
        """The shutdown order of A-052, over the whole group. Idempotent."""
        if (stdin := self._child.get_pipe_transport(0)) is not None:
            stdin.close()
        try:
            if not self.stop_at_once:
                await self.wait_exited(times.grace_s)
            if _signal_group(self.pid, signal.SIGTERM):
                await self._wait_group_gone(0.5 if self.stop_at_once else times.term_s)
        finally:  # INVARIANT: nothing that fails above spares the group or leaves the pipes open
            killed = _signal_group(self.pid, signal.SIGKILL)
            self._child.close()
        if killed:
            await self._wait_group_gone(times.kill_s)
        await self.wait_exited(times.kill_s)
        self._end_output()

    async def _wait_group_gone(self, timeout_s: float) -> None:
        with anyio.move_on_after(timeout_s):
            # In a thread: a look at all of /proc takes milliseconds on a busy host.
            while await anyio.to_thread.run_sync(_group_lives, self.pid):  # noqa: ASYNC110  no event for a group's end
                await anyio.sleep(_POLL_S)

    @property
    def _child(self) -> asyncio.SubprocessTransport:
        assert self._transport is not None, "connection_made comes first"
        return self._transport

    def _resume(self) -> None:
        if self._reading_paused and self._lines.queued_bytes <= QUEUED_BYTES_MAX // 2:
            self._reading_paused = False
            self._read_pipe("resume_reading")

    def _end_output(self) -> None:
        if not self._ended:
            self._ended = True
            self._wake()

    def _end_output_soon(self) -> None:
        """A grandchild may hold the pipe open for ever; but what back-pressure left in it is still to be read.

        Reading that was resumed in the same turn of the loop has not been done yet: it is given another while.
        """
        was_paused = self._reading_paused

        def end() -> None:
            if (was_paused or self._reading_paused) and not self._ended:
                self._end_output_soon()
            else:
                self._end_output()

        asyncio.get_running_loop().call_later(HELD_OPEN_S, end)

    def _read_pipe(self, verb: str) -> None:
        pipe = self._child.get_pipe_transport(1)
        if pipe is not None and not pipe.is_closing():
            getattr(pipe, verb)()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@asynccontextmanager
async def open_process(
    config: ServerConfig,
    environ: Mapping[str, str],
    *,
    times: StopTimes,
    line_bytes_max: int = RESULT_BYTES_MAX,
) -> AsyncGenerator[ServerProcess]:
    """Enter: the process runs. Exit: no process of its group is left."""
    env = {name: environ[name] for name in INHERITED if name in environ and not environ[name].startswith("()")}
    if code_may_write_somewhere():
        env = await asyncio.to_thread(variables_without_code, env)
    process = ServerProcess(line_bytes_max)
    with anyio.CancelScope(shield=True):  # a cancellation between fork and the `try` below would leak the child
        try:
            await _start(process, config, {**env, **config.env})
        except (OSError, ValueError) as exc:
            raise UpstreamStartError(config.server_id, _start_problem(config, exc)) from None
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await process.stop(times)


async def _start(process: ServerProcess, config: ServerConfig, env: Mapping[str, str]) -> None:
    """Start the command; one that PATH does not know may lie beside our interpreter, in the same virtual environment.

    PATH comes first: a server that was installed with Moonpool must not hide the one that a person chose.
    """
    cwd = await _directory(config)

    async def start(command: str) -> None:
        await asyncio.get_running_loop().subprocess_exec(
            lambda: process, command, *config.args, env=env, cwd=cwd, start_new_session=True
        )

    try:
        await start(config.command)
    except (FileNotFoundError, PermissionError):  # the latter also for a folder on PATH that we may not read
        if "/" in config.command or _is_on_path(config.command, env.get("PATH", "")):
            raise
        await start(str(Path(sys.executable).parent / config.command))


async def _directory(config: ServerConfig) -> str | None:
    """Where a command starts; None: in our own directory.

    SECURITY: not there if code of a sandbox may write there, and the configuration does not say so: `python -m`, `npx`
    and `uvx` look for programs and settings in their directory first.
    """
    if config.cwd is not None or config.folder:
        return config.folder or config.cwd  # the service's own folder is another than the command's
    if not code_may_write_somewhere():
        return None
    try:
        return "/" if code_may_write(await asyncio.to_thread(Path.cwd)) else None
    except FileNotFoundError:
        return "/"  # it was removed


def _is_on_path(command: str, path: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, command)) for folder in path.split(os.pathsep))  # noqa: PTH118


def _start_problem(config: ServerConfig, exc: Exception) -> str:
    command = f"command {conceal(config.command, config.secrets)!r}"
    if config.cwd is not None and not Path(config.cwd).is_dir():
        return f'cannot start: its "cwd" {conceal(config.cwd, config.secrets)!r} is not a folder; create or correct it'
    if isinstance(exc, FileNotFoundError):
        return (
            f"cannot start: {command} was not found; install it, or give its full path (PATH is looked up on the host)"
        )
    if isinstance(exc, PermissionError):
        return f"cannot start: {command} may not be executed; check its permissions"
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return f"cannot start: {command} failed: {said(reason, 200)}; run it in a terminal to see why"


def _signal_group(group: int, number: int) -> bool:
    """Send a signal; False when the group has no member, not even a zombie."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _group_lives(group: int) -> bool:
    """Whether any member still runs. A zombie does not, and nobody reaps it where PID 1 is not an init."""
    with os.scandir("/proc") as entries:
        pids = [entry.name for entry in entries if entry.name.isdigit()]
    for pid in pids:
        with contextlib.suppress(OSError):
            state, _, member_of, *_ = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
            if int(member_of) == group and state not in {b"Z", b"X"}:
                return True
    return False


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
