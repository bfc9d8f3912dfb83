"""Tells code that does not parse from code whose last command ended with status 2, which is bash's status for both."""

import asyncio
import os
import re

from moonpool_guest.bash import pipes
from moonpool_guest.companion import ChildProcess, child_variables

_LINE = re.compile(r"line (\d+): (.*)")
_SAID_BYTES_MAX = 65536


async def syntax_error_in(source: bytes, runtime: str) -> "str | None":
    """The first thing that `bash -n` has against `source`, with its line; None if it has nothing."""
    code_fd, code_writer = os.pipe()
    said_fd, said_writer = os.pipe()
    said = bytearray()
    try:
        command = [runtime, "--norc", "--noprofile", "-n", "-O", "extglob"]
        process = ChildProcess(command, child_variables({"LC_ALL": "C.UTF-8"}), {0: code_fd, 2: said_writer})
    except OSError:
        os.close(code_writer)
        os.close(said_fd)
        return None
    finally:
        os.close(code_fd)
        os.close(said_writer)
    os.set_blocking(code_writer, False)
    os.set_blocking(said_fd, False)
    writing = asyncio.ensure_future(pipes.write_and_close(code_writer, source))
    try:
        await pipes.read_until(said_fd, said.extend, lambda: len(said) > _SAID_BYTES_MAX)
        process.kill_group()
        await process.wait()
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        os.close(said_fd)
    for line in said.decode("utf-8", "replace").splitlines():
        if "warning" not in line and (found := _LINE.search(line)):
            return f"{found[2]} (line {found[1]})"
    return None
