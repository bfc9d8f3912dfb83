"""Control groups of version 1, as root: one hierarchy per controller, groups below our own in each.

A process that runs out of memory here ends alone; the rest of its sandbox lives on unless it was the first process.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from moonpool.sandboxes.cgroup_mounts import parse_mounts, parse_own_groups, v1_folders
from moonpool.sandboxes.control_group import Bound, Count, Version
from moonpool.sandboxes.core_shares import WEIGHT, quota_us

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import SandboxLimits

CONTROLLERS: tuple[str, ...] = ("memory", "pids", "cpu", "cpuacct")
_NOT_THERE = frozenset({errno.ENOENT})
_STRICTER_ABOVE = frozenset({errno.EINVAL})


def _bounds(limits: SandboxLimits) -> Sequence[Bound]:
    memory, quota = limits.memory_and_disk_bytes_max, quota_us(limits)
    return (
        Bound("memory", "memory.limit_in_bytes", memory),
        Bound("memory", "memory.memsw.limit_in_bytes", memory, _NOT_THERE),  # not without swap accounting
        Bound("memory", "memory.swappiness", 0),
        Bound("pids", "pids.max", limits.process_count_max),
        *(() if quota is None else (Bound("cpu", "cpu.cfs_quota_us", quota, _STRICTER_ABOVE),)),
    )


VERSION = Version(
    join="tasks",  # not cgroup.procs: for the writer's own thread it takes no lock, and there is one thread
    bounds=_bounds,
    oom_kills=Count(controller="memory", file="memory.oom_control", key=b"oom_kill "),
    memory_peak=Count(controller="memory", file="memory.max_usage_in_bytes"),
    memory_now=Count(controller="memory", file="memory.usage_in_bytes"),
    forks_refused=Count(controller="pids", file="pids.events", key=b"max "),
    cpu_s=Count(controller="cpuacct", file="cpuacct.usage", unit=1e-9),
    weight=Bound("cpu", "cpu.shares", 1024 * WEIGHT),
)


def find_bases(process: Path) -> dict[str, Path]:
    """Our own group per controller. `process` is /proc/self. Raises LookupError with what is missing."""
    mounts = parse_mounts((process / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
    found = v1_folders(mounts, parse_own_groups((process / "cgroup").read_text(encoding="utf-8")))
    if missing := [name for name in CONTROLLERS if name not in found]:
        raise LookupError(f"the controllers {', '.join(missing)} of cgroup v1 are not mounted")
    if closed := [str(found[name]) for name in CONTROLLERS if not os.access(found[name], os.W_OK)]:
        raise LookupError(f"{', '.join(closed)} cannot be written to; only root can use cgroup v1")
    return {name: found[name] for name in CONTROLLERS}
