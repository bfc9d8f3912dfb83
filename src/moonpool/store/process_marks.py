"""Identifies a process by one string, so that another process can check whether it still runs.

A process id alone is not enough: it is reused, also after a reboot, and differs between containers. The mark holds boot
id, pid namespace, process id and start time.
"""

from __future__ import annotations

import os
from pathlib import Path


def own_mark() -> str:
    """The mark of this process; empty if the Linux kernel does not provide it."""
    return _mark(os.getpid())


def is_gone(mark: str) -> bool | None:
    """Whether the process of `mark` has ended; None if that is unknown."""
    boot, _, rest = mark.partition("/")
    space, _, rest = rest.partition("/")
    number, _, start = rest.partition("/")
    own_boot, _, own_rest = own_mark().partition("/")
    if not start or not number.isdecimal() or not own_boot:
        return None
    if boot != own_boot:
        return True
    if space != own_rest.partition("/")[0]:
        return None
    return _mark(int(number)) != mark


def _mark(pid: int) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return ""
    if fields[0] in {b"Z", b"X"}:
        return ""
    return f"{boot}/{space}/{pid}/{fields[19].decode()}"
