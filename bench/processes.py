"""Memory, descriptors and children of processes, as the Linux kernel counts them."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KILOBYTE = 1024


def private_megabytes(pid: int, *, below_only: bool = False) -> float:
    """Pages that no other process has, in 10^6 bytes, of a process and everything below it, or only below it."""
    counted = descendants(pid) if below_only else [pid, *descendants(pid)]
    return sum(_private_bytes(one) for one in counted) / 1e6


def proportional_megabytes(pids: Iterable[int]) -> float:
    """Memory of processes, in 10^6 bytes; a page that several processes have is shared among them (PSS)."""
    return sum(_mapped_bytes(pid, "Pss:") for pid in pids) / 1e6


def _private_bytes(pid: int) -> int:
    return _mapped_bytes(pid, "Private_Clean:", "Private_Dirty:")


def _mapped_bytes(pid: int, *names: str) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(names)) * _KILOBYTE


def resident_megabytes(pid: int | None = None) -> float:
    """Resident memory of a process, in 10^6 bytes; ours by default."""
    text = Path(f"/proc/{pid or 'self'}/status").read_text(encoding="utf-8")
    kilobytes = next(line for line in text.splitlines() if line.startswith("VmRSS:")).split()[1]
    return int(kilobytes) * _KILOBYTE / 1e6


def descriptor_count() -> int:
    """Open descriptors of ours."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  names are counted, nothing is opened


def descendants(pid: int) -> list[int]:
    """Children of a process, their children and so on.

    INVARIANT: no process is missed that is there, with its parents, all the time. `/proc/PID/task/*/children` cannot
    promise that: it may skip one when another is reaped meanwhile, and goes with a thread that ends.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    for child, parent in _parents():
        children[parent].append(child)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        own = children.pop(waiting.pop(), [])
        found += own
        waiting += own
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Each process and its parent."""
    for name in os.listdir("/proc"):  # noqa: PTH208  only names are wanted
        if name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                words = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                yield int(name), int(words[1])
