"""Lines of bytes over two file descriptors, each up to many MiB, without blocking the event loop.

Reading waits for readiness and then reads the available bytes, so no flag of a shared descriptor (such as a terminal)
is changed. What a pipe or socket accepts without waiting is written at once; a thread writes the rest, because a
descriptor that polls as writable may still block on a long line. Each line is written completely before the next.

Everything is bounded: a line that is too long is discarded while it arrives and reported once; reading pauses while too
much is buffered.
"""

from __future__ import annotations

import asyncio
import os
import queue
import select
import socket
import stat
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_BYTES_MAX: Final = 32 * 1024**2
QUEUED_BYTES_MAX: Final = 64 * 1024**2
_CHUNK_BYTES: Final = 256 * 1024


class TooLong:
    """Stands for a discarded line."""


class LineSplitter:
    """Bytes in, lines out. Line ends are LF or CRLF and are not part of a line; blank lines are dropped."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._partial = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that `data` completes."""
        lines: list[bytes | TooLong] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            lines.extend(self._end())
            start = end + 1
        self._keep(data[start:])
        return lines

    def finish(self) -> list[bytes | TooLong]:
        """The last line, if it has no line end."""
        return self._end()

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._partial) + len(piece) > self._line_bytes_max:
            self._skipping = True
            self._partial = bytearray()
        else:
            self._partial += piece

    def _end(self) -> list[bytes | TooLong]:
        line, too_long = bytes(self._partial).strip(), self._skipping
        self._partial, self._skipping = bytearray(), False
        if too_long:
            return [TooLong()]
        return [line] if line else []


class LineReader:
    """Lines from a descriptor. One caller at a time."""

    def __init__(self, fd: int, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._splitter = LineSplitter(line_bytes_max)
        self._lines: deque[bytes | TooLong] = deque()
        self._queued_bytes = 0
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._reading = False
        self._polled = True  # False for files, which cannot be polled: they are always ready
        self._resume()

    async def receive(self) -> bytes | TooLong | None:
        """The next line; None at the end."""
        while not self._lines:
            if self._ended:
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        line = self._lines.popleft()
        if isinstance(line, bytes):
            self._queued_bytes -= len(line)
        if self._queued_bytes <= QUEUED_BYTES_MAX // 2:
            self._resume()
        return line

    def close(self) -> None:
        """Stop reading; a waiting caller gets the end."""
        self._pause()
        self._ended = True
        self._wake()

    def _on_readable(self) -> None:
        if not self._reading:
            return
        try:
            data = os.read(self._fd, _CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            data = None
        except OSError:
            data = b""  # the other end is gone
        if data is not None:
            self._take(data)
        if self._reading and not self._polled:
            self._loop.call_soon(self._on_readable)

    def _take(self, data: bytes) -> None:
        lines = self._splitter.feed(data) if data else self._splitter.finish()
        self._lines.extend(lines)
        self._queued_bytes += sum(len(line) for line in lines if isinstance(line, bytes))
        if not data:
            self.close()
        elif self._queued_bytes > QUEUED_BYTES_MAX:
            self._pause()
        if lines:
            self._wake()

    def _resume(self) -> None:
        if self._reading or self._ended:
            return
        self._reading = True
        if self._polled:
            try:
                self._loop.add_reader(self._fd, self._on_readable)
            except PermissionError:  # epoll takes no files
                self._polled = False
        if not self._polled:
            self._loop.call_soon(self._on_readable)

    def _pause(self) -> None:
        if self._reading and self._polled:
            self._loop.remove_reader(self._fd)
        self._reading = False

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class LineWriter:
    """Lines to a descriptor, whole and in order.

    `on_broken` is called once when the other end stops reading, even if nothing is being written. Answers after that
    are discarded silently.
    """

    def __init__(self, fd: int, *, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._on_broken = on_broken
        self._reported = False
        self._direct = _direct_writer(fd)
        self._waiting = 0  # pending work of the thread; while there is any, the thread writes everything
        self._orders: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._broken = False
        self._thread = threading.Thread(target=self._write_all, name="mcp-stdout", daemon=True)
        self._thread.start()
        with suppress(PermissionError):  # epoll takes no files
            self._loop.add_reader(fd, self._look)

    async def send(self, line: bytes) -> None:
        """Return when `line` was written or the other end no longer reads. Cancelling the wait does not truncate the
        line.
        """
        rest = self._write_now(line)
        if not rest:
            return
        written: asyncio.Future[None] = self._loop.create_future()
        self._waiting += 1
        self._orders.put((rest, written))
        await written

    def _write_now(self, line: bytes) -> bytes:
        """Write as much as possible without waiting; returns the rest, for the thread."""
        if self._direct is None or self._waiting:
            return line
        try:
            return line[self._direct.write(line) :]
        except BlockingIOError:
            return line
        except OSError:
            self._break()
            return b""

    async def close(self, timeout_s: float) -> None:
        """Write the pending lines; give up after `timeout_s` if the other end does not read."""
        self._loop.remove_reader(self._fd)
        self._orders.put(None)
        await asyncio.to_thread(self._thread.join, timeout_s)
        if self._direct is not None:
            self._direct.close()
            self._direct = None

    def _write_all(self) -> None:
        while (order := self._orders.get()) is not None:
            line, written = order
            if not self._broken:
                self._write(line)
            try:
                self._loop.call_soon_threadsafe(self._settle, written)
            except RuntimeError:  # the loop is closed
                return

    def _settle(self, written: asyncio.Future[None]) -> None:
        self._waiting -= 1
        if not written.done():
            written.set_result(None)

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                try:
                    rest = rest[os.write(self._fd, rest) :]
                except BlockingIOError:  # another process made the shared description non-blocking
                    _wait_writable(self._fd)
        except OSError:
            self._broken = True
            self._loop.call_soon_threadsafe(self._break)

    def _look(self) -> None:
        """An event on the descriptor: its other end is gone, or a socket or terminal has input."""
        self._loop.remove_reader(self._fd)
        poll = select.poll()
        poll.register(self._fd, 0)  # errors and hang-ups are always reported
        if poll.poll(0):
            self._break()

    def _break(self) -> None:
        self._broken = True
        if not self._reported:
            self._reported = True
            self._on_broken()


class _Pipe:
    """Our own non-blocking descriptor for a shared pipe."""

    def __init__(self, fd: int) -> None:
        """Raises OSError: no permission to open it, or nobody reads."""
        self._fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def write(self, data: bytes) -> int:
        return os.write(self._fd, data)

    def close(self) -> None:
        os.close(self._fd)


class _Socket:
    """A shared socket; each call is non-blocking by flag."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))

    def write(self, data: bytes) -> int:
        return self._socket.sendmsg([data], (), socket.MSG_DONTWAIT)

    def close(self) -> None:
        self._socket.close()


def _direct_writer(fd: int) -> _Pipe | _Socket | None:
    """A way to write to `fd` without waiting and without changing a shared flag, or None."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode):
            return _Pipe(fd)
        return _Socket(fd) if stat.S_ISSOCK(mode) else None
    except OSError:
        return None


def _wait_writable(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()
