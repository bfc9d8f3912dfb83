"""Processor time of everything that a benchmark started: sandboxes, peers, this process, and the kernel's own workers.

The benchmark's control group counts its processes to the nanosecond, ended ones too. Namespaces and control groups are
taken down by threads of the Linux kernel afterwards, which belong to no group; /proc/PID/schedstat counts those.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.sandboxes.cgroup_mounts import parse_mounts, parse_own_groups, v1_folders, v2_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

_KERNEL_PARENT = 2  # kthreadd: every thread of the kernel is its child
_SETTLE_S = 0.3  # what ends sandboxes, and what the kernel takes down after them, is over by then


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of processor time."""

    all: float
    """Of every process and of the kernel's workers."""
    host: float
    """Of this process: the part of `all` that Moonpool's host spends where the benchmark runs it."""
    kernel: float
    """Of the kernel's workers, less what they take when nothing happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    group: float
    host: float
    kernel: float
    clock: float


class CpuMeter:
    """Reads the group that `cpu_meter` opened."""

    def __init__(self, usage: Callable[[], float]) -> None:
        self._usage = usage
        self._idle_share = 0.0

    async def learn_idle(self, seconds: float = 1.0) -> None:
        """What the kernel's workers take of a core while nothing happens."""
        before = self._read()
        await asyncio.sleep(seconds)
        after = self._read()
        self._idle_share = (after.kernel - before.kernel) / (after.clock - before.clock)

    async def spent_on(self, work: Awaitable[object]) -> Spent:
        """What `work` costs, with what it leaves to be ended afterwards."""
        before = self._read()
        await work
        await asyncio.sleep(_SETTLE_S)
        after = self._read()
        kernel = max(0.0, after.kernel - before.kernel - self._idle_share * (after.clock - before.clock))
        return Spent(all=after.group - before.group + kernel, host=after.host - before.host, kernel=kernel)

    def _read(self) -> _Reading:
        return _Reading(
            group=self._usage(), host=time.process_time(), kernel=_kernel_seconds(), clock=time.perf_counter()
        )


@contextmanager
def cpu_meter() -> Generator[CpuMeter]:
    """A group of this process's own for as long as this is open. Raises LookupError: needs root and control groups."""
    proc = Path("/proc/self")
    mounts = parse_mounts((proc / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
    paths = parse_own_groups((proc / "cgroup").read_text(encoding="utf-8"))
    above = v1_folders(mounts, paths).get("cpuacct")
    if above is None:
        whole = v2_folder(mounts, paths)
        if whole is None or not (whole / "cpu.stat").exists():
            raise LookupError("processor time is counted by control groups, and none are mounted here")
        yield CpuMeter(lambda: _v2_seconds(whole / "cpu.stat"))  # with whatever else runs in this group
        return
    own = above / f"moonpool-bench-{os.getpid()}"
    try:
        own.mkdir()
        (own / "cgroup.procs").write_text("0", encoding="utf-8")
    except OSError as error:
        raise LookupError(f"{own} cannot be made ({error.strerror}); only root can count with cgroup v1") from None
    try:
        yield CpuMeter(lambda: int((own / "cpuacct.usage").read_text(encoding="utf-8")) * 1e-9)
    finally:
        (above / "cgroup.procs").write_text("0", encoding="utf-8")
        with suppress(OSError):  # something that we started has not ended yet; an empty group costs nothing
            own.rmdir()


def _v2_seconds(file: Path) -> float:
    numbers = dict(line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return int(numbers["usage_usec"]) * 1e-6


def _kernel_seconds() -> float:
    """Of the kernel's threads that live now; what one of them did lasts as long as it does."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[1]) == _KERNEL_PARENT:
                total += int((process / "schedstat").read_text(encoding="utf-8").split()[0])
    return total * 1e-9
