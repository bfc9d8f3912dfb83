"""Pipes on the loop: write all, read until something is so. Descriptors must not block."""

import asyncio
import os
from collections.abc import Callable

_READ_BYTES = 65536


def open_writer(read_fd: int) -> int:
    """A new write end of the pipe that `read_fd` reads from. When it is closed, its readers come to the end."""
    return os.open(f"/proc/self/fd/{read_fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)


async def write_and_close(fd: int, data: bytes) -> None:
    """Write all of `data`, then close `fd`, whatever happens. A pipe that nobody reads takes nothing more."""
    loop, pending = asyncio.get_running_loop(), memoryview(data)
    try:
        while pending:
            try:
                pending = pending[os.write(fd, pending) :]
            except BlockingIOError:
                await _until_ready(loop.add_writer, loop.remove_writer, fd)
            except BrokenPipeError:
                return
    finally:
        os.close(fd)


async def read_until(fd: int, feed: Callable[[bytes], None], enough: Callable[[], bool]) -> None:
    """Hand what comes to `feed` until `enough` says so, or the pipe is at its end."""
    loop = asyncio.get_running_loop()
    while not enough():
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            await _until_ready(loop.add_reader, loop.remove_reader, fd)
            continue
        if not data:
            return
        feed(data)
        await asyncio.sleep(0)  # whoever floods us must not keep the loop from its timers


def read_available(fd: int, feed: Callable[[bytes], None]) -> None:
    """Hand what is there to `feed`; waits for nothing."""
    while True:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            return
        feed(data)


async def _until_ready(
    add: "Callable[[int, Callable[[], None]], None]", remove: "Callable[[int], bool]", fd: int
) -> None:
    ready = asyncio.Event()
    add(fd, ready.set)
    try:
        await ready.wait()
    finally:
        remove(fd)
