"""Which limits this machine can give a sandbox as a whole, found out by trying, and the groups of this host process.

Three modes, best first: `cgroup2-delegated`, `cgroup1-root`, `rlimits-only`. `open_groups("auto")` takes the best that
works and says what it passed over; one that is asked for by name and does not work is reported by `missing`, and no
sandbox opens (fail closed).

All groups of one host process lie below one folder per hierarchy, whose name says whose it is, so that what an owner
left behind can be removed: `moonpool-<pid namespace>-<pid>-<start time>-<random>`. Folders of owners that are gone are
removed by the next start: their processes are gone too, because walls die with their host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.sandboxes import cgroups_v1, cgroups_v2
from moonpool.sandboxes.base import SandboxLimits, SandboxStartError
from moonpool.sandboxes.control_group import NoGroup, create_group
from moonpool.sandboxes.group_files import remove_folders, remove_tree, write_number
from moonpool.sandboxes.short_work import ShortWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from moonpool.sandboxes.control_group import ControlGroup, LimitGroup, Version

_log = logging.getLogger(__name__)
_FAILURES = (OSError, LookupError, ValueError)  # refused, not there, another text than expected
_PROCESS = Path("/proc/self")
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
    passed_over: tuple[str, ...] = ()
    """Why `auto` found no control groups: for each mode a sentence."""
    version: Version | None = None
    tops: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Controller to this process's own folder."""
    controllers: tuple[str, ...] = ()
    """Of version 2: what is handed down from a folder to those in it."""
    _work: ShortWork = field(default_factory=ShortWork)
    _given_up: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def open(self, name: str, limits: SandboxLimits) -> LimitGroup:
        """The group `name`, bounded by `limits`. Raises SandboxStartError."""
        if self.missing:
            raise SandboxStartError(step="limits", reason=self.missing[0])
        if self.version is None:
            return NoGroup(limits)
        if self._work.is_short:
            try:
                return self._work.now(lambda: self.create(name, limits))
            except _FAILURES as error:
                raise SandboxStartError(step="limits", reason=str(error)) from error
        making = self._work.soon(lambda: self.create(name, limits))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._give_up(making)  # not awaited here: a cancelled task may be cancelled again
            raise
        except _FAILURES as error:
            raise SandboxStartError(step="limits", reason=str(error)) from error

    def _give_up(self, making: asyncio.Future[ControlGroup]) -> None:
        giving_up = asyncio.create_task(_discard(making))
        self._given_up.add(giving_up)
        giving_up.add_done_callback(self._given_up.discard)

    def create(self, name: str, limits: SandboxLimits) -> ControlGroup:
        """Make a group now. Raises OSError. Blocks."""
        assert self.version is not None
        folders = {controller: top / name for controller, top in self.tops.items()}
        try:
            return create_group(self.version, folders, limits, self._work)
        except FileNotFoundError:  # somebody tidied up: the folders above it were empty
            self.make_tops()
            return create_group(self.version, folders, limits, self._work)

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
        if self._given_up:
            await asyncio.wait(self._given_up)
        await asyncio.to_thread(self.remove_tops)

    def remove_tops(self) -> None:
        """Remove this process's own folders and every group in them now. Blocks."""
        left = [folder for top in dict.fromkeys(self.tops.values()) for folder in remove_tree(top)]
        if left:
            _log.warning("control groups could not be removed: %s", ", ".join(map(str, left)))


async def _discard(making: asyncio.Future[ControlGroup]) -> None:
    """Remove a group that nobody waits for any more, once it is made."""
    await asyncio.wait({making})
    if making.exception() is None:
        group = making.result()
        group.discard()
        await group.wait_discarded()


def open_groups(wanted: str) -> LimitGroups:
    """The groups of this process. `wanted`: `auto`, `cgroup2`, `cgroup1` or `rlimits`. Never raises. Blocks."""
    if wanted == "rlimits":
        return LimitGroups()
    tries = {"cgroup2": _try_v2, "cgroup1": _try_v1}
    passed_over: list[str] = []
    for name in tries if wanted == "auto" else (wanted,):
        try:
            return _proven(tries[name])
        except _FAILURES as error:
            reason = f"limits={name} does not work here: {error}"
            passed_over.append(reason)
            if wanted == "auto" and not isinstance(error, LookupError):  # it is there, and should work
                _log.warning("%s; what is left bounds sandboxes less", reason)
    if wanted == "auto":
        return LimitGroups(passed_over=tuple(passed_over))
    remedy = f"{_REMEDIES[wanted]}or set MOONPOOL_LIMITS=auto, which takes the best that this machine has"
    return LimitGroups(missing=(f"{passed_over[0]}; {remedy}",))


def _proven(find: Callable[[], LimitGroups]) -> LimitGroups:
    """What `find` finds, proved to work. Raises LookupError where there is nothing to find; OSError, ValueError.

    Tried twice: an error that does not come again must not cost a whole run its groups.
    """
    try:
        return _prove(find())
    except (OSError, ValueError):
        return _prove(find())


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


def _prove(groups: LimitGroups) -> LimitGroups:
    """Make a group as every sandbox gets one, read it, and remove it. Raises OSError with nothing left behind."""
    try:
        groups.make_tops()
        group = groups.create("trial", SandboxLimits())
        try:
            group.hits()
            group.cpu_s()
        finally:
            group.close()
            remove_folders(group.places)
    except (LookupError, ValueError) as error:
        groups.remove_tops()
        raise OSError(f"a trial group cannot be used: {error}") from error
    except BaseException:
        groups.remove_tops()
        raise
    return groups


_GONE = frozenset({"Z", "X"})  # a zombie holds nothing any more
_NAME = re.compile(r"moonpool-(\d+)-(\d+)-(\d+)-[0-9a-f]{8}")


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
                remove_tree(folder)


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
