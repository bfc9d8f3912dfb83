"""Finds orphans: outer sandboxes and sandboxes of a host that was killed together with its reaper.

bubblewrap and the child that it makes are known by the random folder name in their command line, from their first
instruction until the sandbox starts. From then on a process of a sandbox is known by its mounts: files of that folder
are bound in every outer sandbox.

SECURITY: code can change its command line and lose its parent-death signal (a thread other than the first that executes
a program has none), so neither is asked. Its mounts it cannot change, and it cannot leave its pid namespace.
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
_READ_BYTES_MAX: Final = 1_048_576
_ESCAPED: Final = {0x5C: b"\\134", 0x20: b"\\040", 0x09: b"\\011", 0x0A: b"\\012"}


def outer_sandboxes_naming(folder: Path) -> list[int]:
    """Visible processes of outer sandboxes of `folder`, and those inside them."""
    place = _place(folder)
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208  a few hundred names
    return [pid for pid in pids if _is_of(pid, folder, place)]


def end_outer_sandboxes_naming(folder: Path) -> None:
    """Kill them until none is found. The folder's name is random, so it stands in nobody else's command line."""
    for _ in range(_SEARCHES_MAX):
        found = outer_sandboxes_naming(folder)
        if not found:
            return
        for pid in found:
            _end(pid, folder)
        time.sleep(_CALM_S)


def _end(pid: int, folder: Path) -> None:
    """The pidfd pins the process; what it is known by is read again before it is killed."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if _is_of(pid, folder, _place(folder)):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)


def _is_of(pid: int, folder: Path, place: bytes | None) -> bool:
    program, _, rest = _read(f"/proc/{pid}/cmdline").partition(b"\0")
    if program.rpartition(b"/")[2] in _PROGRAMS and os.fsencode(folder) in rest:
        return True
    return place is not None and _is_in_outer_sandbox(pid) and _mounts(pid, place)


def _is_in_outer_sandbox(pid: int) -> bool:
    """Whether it is in a pid namespace below ours. INVARIANT: nothing of our own is ever taken for a sandbox."""
    lines = _read(f"/proc/{pid}/status").splitlines()
    ids = next((line for line in lines if line.startswith(b"NSpid:")), b"")
    return len(ids.split()) > 2


def _mounts(pid: int, place: bytes) -> bool:
    """Whether something of `place` is mounted where the process lives."""
    rows = (line.split() for line in _read(f"/proc/{pid}/mountinfo").splitlines())
    return any(b" ".join(row[2:4]).startswith(place) for row in rows)


def _place(folder: Path) -> bytes | None:
    """Device and path of what lies in `folder`, as mountinfo tells them wherever it is mounted; None: it is gone."""
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        info = dict(line.split(b":", 1) for line in _read(f"/proc/self/fdinfo/{fd}").splitlines())
        path = os.fsencode(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115
    finally:
        os.close(fd)
    path = b"".join(_ESCAPED.get(byte, bytes((byte,))) for byte in path)
    for row in (line.split() for line in _read("/proc/self/mountinfo").splitlines()):
        if row[0] == info[b"mnt_id"].strip():
            inside = path.removeprefix(row[4].rstrip(b"/"))
            return row[2] + b" " + row[3].rstrip(b"/") + inside + b"/"
    return None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(_READ_BYTES_MAX)
    except OSError:
        return b""
