"""Which limits this machine can give a sandbox as a whole, found out by trying, and the groups of this host process.

Three modes, best first: `cgroup2-delegated`, `cgroup1-root`, `rlimits-only`. `open_groups("auto")` takes the best that
works; one that is asked for by name and does not work is reported by `missing`, and no sandbox opens (fail closed).

All groups of one host process lie below one folder per hierarchy, whose name says whose it is:
`moonpool-<pid namespace>-<pid>-<start time>-<random>`. Folders of owners that are gone are removed by the next start:
their processes are gone too, because walls die with their host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.sandboxes import cgroups_v1, cgroups_v2
from moonpool.sandboxes.base import SandboxLimits, SandboxStartError
from moonpool.sandboxes.control_group import NoGroup, create_group, remove_folders, write_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.sandboxes.control_group import ControlGroup, LimitGroup, Version

_PROCESS = Path("/proc/self")
_GONE = frozenset({"Z", "X"})  # a zombie holds nothing any more
_NAME = re.compile(r"moonpool-(\d+)-(\d+)-(\d+)-[0-9a-f]{8}")
UNIT_LINES = """[Service]
Delegate=cpu memory pids
DelegateSubgroup=supervisor
OOMPolicy=continue"""
"""What a systemd unit must say for `cgroup2-delegated`."""
_REMEDIES = {
    "cgroup2": "run Moonpool as a systemd service whose unit says\n" + UNIT_LINES + "\n",
    "cgroup1": "run Moonpool as root on a machine with cgroup v1 ",
}


class LimitsMode(StrEnum):
    """What bounds a sandbox as a whole."""

    CGROUP2 = "cgroup2-delegated"
    CGROUP1 = "cgroup1-root"
    RLIMITS = "rlimits-only"


@dataclass(kw_only=True)
class LimitGroups:
    """Makes a group for every sandbox, and knows what is missing."""

    mode: LimitsMode = LimitsMode.RLIMITS
    missing: tuple[str, ...] = ()
    """Why the mode that was asked for does not work, with the remedy."""
    version: Version | None = None
    tops: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Controller to this process's own folder."""
    controllers: tuple[str, ...] = ()
    """Of version 2: what is handed down from a folder to those in it."""
    _given_up: set[asyncio.Future[ControlGroup]] = field(default_factory=set["asyncio.Future[ControlGroup]"])

    async def open(self, name: str, limits: SandboxLimits) -> LimitGroup:
        """The group `name`, bounded by `limits`. Raises SandboxStartError."""
        if self.missing:
            raise SandboxStartError(step="limits", reason=self.missing[0])
        if self.version is None:
            return NoGroup(limits)
        making = asyncio.get_running_loop().run_in_executor(None, self.create, name, limits)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._given_up.add(making)  # not awaited here: a cancelled task may be cancelled again
            raise
        except OSError as error:
            raise SandboxStartError(step="limits", reason=f"{error.filename}: {error.strerror}") from error

    def create(self, name: str, limits: SandboxLimits) -> ControlGroup:
        """Make a group now. Raises OSError. Blocks."""
        assert self.version is not None
        folders = {controller: top / name for controller, top in self.tops.items()}
        try:
            return create_group(self.version, folders, limits)
        except FileNotFoundError:  # somebody tidied up: the folders above it were empty
            self.make_tops()
            return create_group(self.version, folders, limits)

    def make_tops(self) -> None:
        """Make this process's own folders. Raises OSError. Blocks."""
        assert self.version is not None
        for top in dict.fromkeys(self.tops.values()):
            top.mkdir(exist_ok=True)
            if self.controllers:
                cgroups_v2.hand_down(top, self.controllers)
        controller, file, value, _ = self.version.weight
        if controller in self.controllers or self.mode is LimitsMode.CGROUP1:
            write_number(self.tops[controller] / file, value)

    async def close(self) -> None:
        """Remove this process's own folders. Every sandbox must be gone."""
        for making in self._given_up:
            await asyncio.wait({making})
            if making.exception() is None:
                making.result().discard()
                await making.result().wait_discarded()
        await asyncio.to_thread(self.remove_tops)

    def remove_tops(self) -> None:
        """Remove this process's own folders now; the groups in them must be gone. Blocks."""
        remove_folders(tuple(dict.fromkeys(self.tops.values())))


def open_groups(wanted: str) -> LimitGroups:
    """The groups of this process. `wanted`: `auto`, `cgroup2`, `cgroup1` or `rlimits`. Never raises. Blocks."""
    if wanted == "rlimits":
        return LimitGroups()
    tries = {"cgroup2": _try_v2, "cgroup1": _try_v1}
    for name in tries if wanted == "auto" else (wanted,):
        try:
            groups = tries[name]()
            _prove(groups)
        except (OSError, LookupError) as error:
            reason = str(error)
        else:
            return groups
        if wanted != "auto":
            remedy = f"{_REMEDIES[name]}or set MOONPOOL_LIMITS=auto, which takes the best that this machine has"
            return LimitGroups(missing=(f"limits={name} does not work here: {reason}; {remedy}",))
    return LimitGroups()


def _try_v2() -> LimitGroups:
    return v2_groups(cgroups_v2.find_base(_PROCESS), cgroups_v2.VERSION)


def v2_groups(base: Path, version: Version, controllers: tuple[str, ...] = cgroups_v2.CONTROLLERS) -> LimitGroups:
    """Groups below `base`, a folder of version 2 that hands down `controllers`."""
    sweep((base,))
    top = base / owner_name()
    tops = dict.fromkeys(cgroups_v2.CONTROLLERS, top)
    return LimitGroups(mode=LimitsMode.CGROUP2, version=version, tops=tops, controllers=controllers)


def _try_v1() -> LimitGroups:
    bases = cgroups_v1.find_bases(_PROCESS)
    sweep(bases.values())
    name = owner_name()
    tops = {controller: base / name for controller, base in bases.items()}
    return LimitGroups(mode=LimitsMode.CGROUP1, version=cgroups_v1.VERSION, tops=tops)


def _prove(groups: LimitGroups) -> None:
    """Make a group as every sandbox gets one, read it, and remove it. Raises OSError with nothing left behind."""
    try:
        groups.make_tops()
        group = groups.create("trial", SandboxLimits())
    except OSError:
        groups.remove_tops()
        raise
    group.hits()
    group.cpu_s()
    group.close()
    remove_folders(group.places)


def owner_name() -> str:
    """A name for this process's folders that tells later ones whether it still lives."""
    return f"moonpool-{_pid_namespace()}-{os.getpid()}-{_start_time(os.getpid())}-{secrets.token_hex(4)}"


def sweep(bases: Iterable[Path]) -> None:
    """Remove the folders of owners that are gone. What cannot be removed is left for the next start. Blocks."""
    for base in dict.fromkeys(bases):
        for folder in base.glob("moonpool-*"):
            if _is_abandoned(folder.name):
                with contextlib.suppress(OSError):
                    write_number(folder / "cgroup.kill", 1)  # of version 2
                remove_folders((*folder.glob("*/"), folder))  # patiently: the last process may be on its way out


def _is_abandoned(name: str) -> bool:
    """Whether the process that made it certainly is gone: only one of our own pid namespace can be looked for."""
    match = _NAME.fullmatch(name)
    if match is None:
        return False
    namespace, pid, started = (int(number) for number in match.groups())
    return namespace == _pid_namespace() and _start_time(pid) != started


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; None if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _GONE else int(fields[19])
