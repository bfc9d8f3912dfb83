"""The controlling terminal: one question at a time, each answer one line.

Questions go to /dev/tty and answers come from there, never from stdin or stdout: those are for code and the envelope. A
process without a controlling terminal, or in its background, cannot ask. While a question is open no program output is
shown; input typed before the question is discarded.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import termios
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

_ANSWER_BYTES_MAX: Final = 4096
WIDTH_MIN: Final = 20


def open_terminal() -> int | None:
    """A descriptor of the controlling terminal, or None if there is none or we are in its background."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.tcgetpgrp(fd) == os.getpgrp():
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def ask_at(fd: int, text: str) -> str:
    """Write `text` and wait for one line, stripped; empty at end of input.

    Blocks. Input typed earlier is discarded.
    """
    with suppress(termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)
    data = memoryview(text.encode("utf-8", "replace"))
    while data:
        data = data[os.write(fd, data) :]
    return os.read(fd, _ANSWER_BYTES_MAX).decode("utf-8", "replace").strip()


class Terminal:
    """One person's terminal, shared by everything that asks there."""

    def __init__(self, fd: int, hold_output: Callable[[], AbstractContextManager[None]]) -> None:
        self._fd, self._hold_output = fd, hold_output
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def question(self) -> AsyncGenerator[None]:
        """Reserve the terminal for one question inside the block."""
        async with self._turn:
            with self._hold_output():
                with suppress(termios.error):
                    termios.tcflush(self._fd, termios.TCIFLUSH)
                try:
                    yield
                except asyncio.CancelledError:
                    self.write("\n(no longer needed)\n")
                    raise

    def width(self) -> int:
        try:
            return max(WIDTH_MIN, os.get_terminal_size(self._fd).columns or 80)
        except OSError:
            return 80

    def write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "replace"))

    async def read_line(self) -> str | None:
        """One line, stripped; None at end of input."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str | None] = loop.create_future()
        typed = bytearray()

        def on_input() -> None:
            try:
                piece = os.read(self._fd, _ANSWER_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            typed.extend(piece)
            ended = not piece or b"\n" in piece or b"\r" in piece or len(typed) > _ANSWER_BYTES_MAX
            if ended and not line.done():
                first = typed.replace(b"\r", b"\n").partition(b"\n")[0]
                line.set_result(first.decode("utf-8", "replace").strip() if piece else None)

        loop.add_reader(self._fd, on_input)
        try:
            return await line
        finally:
            loop.remove_reader(self._fd)


def user_name() -> str:
    """The person's login name, or the uid where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.geteuid()}"
