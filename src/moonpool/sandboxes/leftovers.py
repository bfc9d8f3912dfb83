"""Finds walls that nobody is the parent of any more: those of a host that was killed together with its undertaker.

They are known by the random folder name in their command line: bubblewrap and the child that it makes carry it from
their first instruction until the sandbox itself starts, and a sandbox ends by itself when its channel closes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAMS: Final = frozenset({b"bwrap", b"launcher"})
_CALM_S: Final = 0.02
_SEARCHES_MAX: Final = 100
_CMDLINE_BYTES_MAX: Final = 1_048_576


def walls_naming(folder: Path) -> list[int]:
    """Processes of bubblewrap, of those that we may see, whose command line holds the path of `folder`."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208  a few hundred names
    return [pid for pid in pids if _is_wall_naming(pid, folder)]


def end_walls_naming(folder: Path) -> None:
    """Kill them until none is found. The folder's name is random, so it stands in nobody else's command line."""
    for _ in range(_SEARCHES_MAX):
        found = walls_naming(folder)
        if not found:
            return
        for pid in found:
            _end(pid, folder)
        time.sleep(_CALM_S)


def _end(pid: int, folder: Path) -> None:
    """The pidfd pins the process; its command line is read again before it is killed."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if _is_wall_naming(pid, folder):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)


def _is_wall_naming(pid: int, folder: Path) -> bool:
    program, _, rest = _command_line(pid).partition(b"\0")
    return program.rpartition(b"/")[2] in _PROGRAMS and os.fsencode(folder) in rest


def _command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read(_CMDLINE_BYTES_MAX)
    except OSError:
        return b""
