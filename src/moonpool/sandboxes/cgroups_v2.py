"""Control groups of version 2, delegated to us: by systemd (`Delegate=`), by a container, or because we are root.

Version 2 allows no process in a group whose children have controllers. So we must stand in a leaf: systemd puts us
there (`DelegateSubgroup=supervisor`), or we move ourselves, which is right only where nobody else stands beside us.

A sandbox that runs out of memory ends as a whole (`memory.oom.group`). `memory.high` is not set: a sandbox has no swap
and next to no page cache, so there is nothing to reclaim, and throttling would only make a `Timeout` of it.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from moonpool.sandboxes.cgroup_mounts import parse_mounts, parse_own_groups, v2_folder
from moonpool.sandboxes.control_group import Bound, Count, Version
from moonpool.sandboxes.core_shares import WEIGHT, quota_us
from moonpool.sandboxes.group_files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import SandboxLimits

CONTROLLERS: tuple[str, ...] = ("memory", "pids", "cpu")
SUPERVISOR = "supervisor"
_NOT_THERE = frozenset({errno.ENOENT})


def _bounds(limits: SandboxLimits) -> Sequence[Bound]:
    quota = quota_us(limits)
    return (
        Bound("memory", "memory.max", limits.memory_and_disk_bytes_max),
        Bound("memory", "memory.swap.max", 0, _NOT_THERE),  # not without swap accounting
        Bound("memory", "memory.oom.group", 1),
        Bound("pids", "pids.max", limits.process_count_max),
        *(() if quota is None else (Bound("cpu", "cpu.max", quota),)),  # of the default period, 100 ms
    )


VERSION = Version(
    join="cgroup.procs",
    bounds=_bounds,
    oom_kills=Count(controller="memory", file="memory.events", key=b"oom_kill "),
    memory_peak=Count(controller="memory", file="memory.peak"),  # since Linux 5.19
    memory_now=Count(controller="memory", file="memory.current"),
    forks_refused=Count(controller="pids", file="pids.events", key=b"max "),
    cpu_s=Count(controller="cpu", file="cpu.stat", key=b"usage_usec ", unit=1e-6),
    weight=Bound("cpu", "cpu.weight", min(10_000, 100 * WEIGHT)),
    kill="cgroup.kill",
)


def find_base(process: Path, controllers: Sequence[str] = CONTROLLERS) -> Path:
    """The group below which ours are made, with its controllers handed down. Raises LookupError, OSError.

    `process` is /proc/self. May move this process into the leaf `supervisor`.
    """
    mounts = parse_mounts((process / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
    own = v2_folder(mounts, parse_own_groups((process / "cgroup").read_text(encoding="utf-8")))
    if own is None:
        raise LookupError("cgroup v2 is not mounted")
    base = own.parent if own.name == SUPERVISOR and os.access(own.parent / "cgroup.procs", os.W_OK) else own
    offered = (base / "cgroup.controllers").read_text(encoding="ascii").split()
    if missing := [name for name in controllers if name not in offered]:
        raise LookupError(f"cgroup v2 at {base} does not offer the controllers {', '.join(missing)}")
    for name in ("cgroup.procs", "cgroup.subtree_control"):
        if not os.access(base / name, os.W_OK):
            raise LookupError(f"{base / name} cannot be written to, so this group was not delegated to us")
    try:
        hand_down(base, controllers)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _stand_aside(base)
        hand_down(base, controllers)
    return base


def hand_down(folder: Path, controllers: Sequence[str] = CONTROLLERS) -> None:
    """Let the groups in `folder` have the controllers."""
    write_text(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))


def _stand_aside(base: Path) -> None:
    """Move from an inner group to a leaf beside those to come."""
    others = {int(pid) for pid in (base / "cgroup.procs").read_text(encoding="ascii").split()} - {os.getpid()}
    if others:
        raise LookupError(f"{base} holds {len(others)} other processes, so its controllers cannot be handed down")
    leaf = base / SUPERVISOR
    leaf.mkdir(exist_ok=True)
    write_text(leaf / "cgroup.procs", str(os.getpid()))
