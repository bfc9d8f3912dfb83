"""Which processes there are below which, as /proc says.

INVARIANT: no process is missed that is there, with its parents, all the time. `/proc/PID/task/*/children` cannot
promise that: it may skip one when another is reaped meanwhile, and goes with a thread that ends.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Its own children, zombies included, in order."""
    return sorted(child for child, parent in _parents().items() if parent == pid)


def descendants_of(pid: int) -> set[int]:
    """Every process below it, zombies included."""
    parents = _parents()
    found: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found


def descendants() -> set[int]:
    """Every process below this one, zombies included."""
    return descendants_of(os.getpid())


def alive(pids: set[int]) -> set[int]:
    """Those of `pids` that still run; a zombie does not, nor one that nobody has to reap."""
    return {pid for pid in pids if (words := _stat(pid)) and words[0] not in (b"Z", b"X")}


def wait_gone(pids: set[int], within_s: float) -> set[int]:
    """Wait until none of `pids` runs; return those that still do."""
    end = time.monotonic() + within_s
    while (left := alive(pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def _parents() -> dict[int, int]:
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid: int(words[1]) for pid in numbers if (words := _stat(pid))}


def _stat(pid: int) -> list[bytes]:
    """State, parent and what follows; nothing for a process that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return []
