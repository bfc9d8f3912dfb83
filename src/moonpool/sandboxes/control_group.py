"""The control groups of one sandbox: what bounds it as a whole, and what tells which bound it met.

Versions 1 and 2 differ only in where a number stands; `Version` says so as data (`cgroups_v1`, `cgroups_v2`). A sandbox
without groups gets a `NoGroup`, which bounds nothing and knows nothing.

INVARIANT: a sandbox is in its groups before it is sent anything. Its first process writes "0" (itself) to the files
behind `join_fds`, which the host opened: the Linux kernel checks the rights of who opened them. Moving it from outside
takes a lock that waits for an RCU grace period and stops every fork of the machine (8.9 ms against 0.3 ms).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from moonpool.sandboxes.base import LimitKind
from moonpool.sandboxes.group_files import remove_folders, write_number
from moonpool.sandboxes.short_work import ShortWork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import SandboxLimits

_log = logging.getLogger(__name__)
_READ_BYTES = 4096
_FULL_BUT_BYTES = 4 * 1024**2  # memory is charged in batches, the largest of which is a huge page


class Bound(NamedTuple):
    """A value to write. An error of `tolerated` means that something above bounds us already, or nothing has to."""

    controller: str
    file: str
    value: int
    tolerated: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Count:
    """A number to read: of the line `key number`, or the only one in the file."""

    controller: str
    file: str
    key: bytes = b""
    unit: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Where a version of control groups keeps what we write and read."""

    join: str
    bounds: Callable[[SandboxLimits], Sequence[Bound]]
    oom_kills: Count
    memory_peak: Count
    memory_now: Count
    forks_refused: Count
    cpu_s: Count
    weight: Bound  # of all sandboxes together, beside what else runs where we run
    kill: str | None = None  # ends every process of a group when 1 is written to it


class LimitGroup(Protocol):
    """What bounds one sandbox as a whole, if anything."""

    limits: SandboxLimits
    join_fds: tuple[int, ...]

    @property
    def counts(self) -> bool:
        """Whether `hits` and `cpu_s` know anything."""
        ...

    def joined(self) -> None:
        """The sandbox's first process has its own copies of `join_fds`."""
        ...

    def hits(self) -> frozenset[LimitKind]:
        """The limits that were met since this was last asked. Raises OSError, LookupError, ValueError."""
        ...

    def cpu_s(self) -> float:
        """Processor time used by every process there ever was in it. Raises OSError, LookupError, ValueError."""
        ...

    def memory_share(self) -> float:
        """How much of its memory is used, files included, from 0 to 1. Raises OSError, LookupError, ValueError."""
        ...

    def kill(self) -> None:
        """End every process in it at once, where groups can; `discard` ends them everywhere."""
        ...

    def discard(self) -> None:
        """Its first process is gone: end what may be left in it, give everything back. Idempotent."""
        ...

    async def wait_discarded(self) -> None:
        """Wait until no folder of it is left."""
        ...


class NoGroup:
    """Stands for a group where there are none."""

    counts = False

    def __init__(self, limits: SandboxLimits) -> None:
        self.limits = limits
        self.join_fds: tuple[int, ...] = ()

    def joined(self) -> None:
        pass

    def hits(self) -> frozenset[LimitKind]:
        return frozenset()

    def cpu_s(self) -> float:
        return 0.0

    def memory_share(self) -> float:
        return 0.0

    def kill(self) -> None:
        pass

    def discard(self) -> None:
        pass

    async def wait_discarded(self) -> None:
        pass


class ControlGroup:
    """One folder per hierarchy. Made by `create_group`; `work` says where its folders are removed."""

    counts = True

    def __init__(
        self, version: Version, folders: Mapping[str, Path], limits: SandboxLimits, work: ShortWork | None = None
    ) -> None:
        self.limits = limits
        self._work = work or ShortWork()
        self._version, self._folders = version, folders
        self.places = tuple(dict.fromkeys(folders.values()))
        self.join_fds: tuple[int, ...] = ()
        self._fds: dict[Count, int] = {}
        try:
            for place in self.places:
                self.join_fds += (os.open(f"{place}/{version.join}", os.O_WRONLY | os.O_CLOEXEC),)
            for one in (version.oom_kills, version.forks_refused, version.cpu_s):
                self._fds[one] = os.open(f"{folders[one.controller]}/{one.file}", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise
        self._kinds = {version.oom_kills: LimitKind.MEMORY, version.forks_refused: LimitKind.PROCESSES}
        self._seen = dict.fromkeys(self._kinds, 0.0)
        self._removal: asyncio.Future[None] | None = None

    def joined(self) -> None:
        for fd in self.join_fds:
            os.close(fd)
        self.join_fds = ()

    def hits(self) -> frozenset[LimitKind]:
        found: set[LimitKind] = set()
        for count, kind in self._kinds.items():
            now = self._read(count)
            if now > self._seen[count]:
                self._seen[count] = now
                found.add(kind)
        if LimitKind.MEMORY in found and not self._was_full():
            found.discard(LimitKind.MEMORY)  # the machine ran out of memory, or all of us together
        return frozenset(found)

    def _was_full(self) -> bool:
        """Whether it was this very group, not one above it, that had no memory left."""
        count = self._version.memory_peak
        peak = _read_now(self._folders[count.controller], count)
        return peak is None or peak > self.limits.memory_and_disk_bytes_max - _FULL_BUT_BYTES

    def cpu_s(self) -> float:
        return self._read(self._version.cpu_s)

    def memory_share(self) -> float:
        count = self._version.memory_now
        used = _read_now(self._folders[count.controller], count) or 0.0
        return used / self.limits.memory_and_disk_bytes_max

    def _read(self, count: Count) -> float:
        if (fd := self._fds.get(count)) is None:
            return 0.0
        return _number(os.pread(fd, _READ_BYTES, 0), count)

    def kill(self) -> None:
        if self._version.kill is not None and self._fds:
            with contextlib.suppress(OSError):  # it ends by its pidfd in any case
                write_number(self.places[0] / self._version.kill, 1)

    def discard(self) -> None:
        if self._fds:
            self.close()
            if not (self._work.is_short and self._work.now(self._removed_at_once)):
                self._removal = self._work.soon(self._remove)

    def _removed_at_once(self) -> bool:
        """Try once: usually everybody has left by now."""
        try:
            for place in self.places:
                place.rmdir()
        except OSError:
            return False
        return True

    def _remove(self) -> None:
        if left := remove_folders(self.places):
            _log.warning(
                "control groups of a sandbox that has ended could not be removed: %s", ", ".join(map(str, left))
            )

    def close(self) -> None:
        """Give back the descriptors."""
        self.joined()
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    async def wait_discarded(self) -> None:
        if self._removal is not None:
            await asyncio.wait({self._removal})


def _read_now(folder: Path, count: Count) -> float | None:
    try:
        fd = os.open(folder / count.file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # a Linux kernel that does not tell
        return None
    try:
        return _number(os.pread(fd, _READ_BYTES, 0), count)
    finally:
        os.close(fd)


def _number(text: bytes, count: Count) -> float:
    if not count.key:
        return int(text) * count.unit
    for line in text.splitlines():
        if line.startswith(count.key):
            return int(line.removeprefix(count.key)) * count.unit
    raise LookupError(f"{count.file} has no line {count.key.decode().strip()!r}")


def create_group(
    version: Version, folders: Mapping[str, Path], limits: SandboxLimits, work: ShortWork | None = None
) -> ControlGroup:
    """Make and bound the groups in `folders` (controller to folder). Blocks.

    Raises OSError that names the file; nothing is left then.
    """
    places = tuple(dict.fromkeys(folders.values()))
    try:
        for place in places:
            place.mkdir()
        for controller, file, value, tolerated in version.bounds(limits):
            try:
                write_number(f"{folders[controller]}/{file}", value)
            except OSError as error:
                if error.errno not in tolerated:
                    raise
        return ControlGroup(version, folders, limits, work)
    except BaseException:
        remove_folders(places)
        raise
