"""Counts what is left of processes that were ended: processes, control groups, mounts, sockets, files.

A `Graveyard` is the reaper of everything that is started below the test process while it is open, so a process that
loses its parent cannot hide: it becomes a child of the test.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from process_tree import children_of, descendants

if TYPE_CHECKING:
    from collections.abc import Callable

_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Remains:
    """What is there, of the kinds that must not be left."""

    processes: frozenset[int]
    groups: frozenset[str]
    mounts: frozenset[str]
    sockets: frozenset[str]
    files: frozenset[str]

    def since(self, earlier: Remains) -> Remains:
        """What has come since then and is still there."""
        return Remains(
            self.processes - earlier.processes,
            self.groups - earlier.groups,
            self.mounts - earlier.mounts,
            self.sockets - earlier.sockets,
            self.files - earlier.files,
        )

    def __bool__(self) -> bool:
        return any((self.processes, self.groups, self.mounts, self.sockets, self.files))


class Graveyard:
    """Everything below this process and in `folders`, from now on."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        _adopt_orphans(True)
        self._earlier = self._look()

    def close(self) -> None:
        """Kill what a failed test left; adopt nobody any more."""
        for pid in self._look().since(self._earlier).processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._bury()
        _adopt_orphans(False)

    async def is_empty_soon(self, within_s: float = 60) -> None:
        """Fail unless all is gone before the deadline."""
        with anyio.move_on_after(within_s):
            while self.remains():  # noqa: ASYNC110  nobody announces it
                await anyio.sleep(0.05)
        remains = self.remains()
        assert not remains, (remains, [_describe(pid) for pid in remains.processes])

    def remains(self) -> Remains:
        self._bury()
        return self._look().since(self._earlier)

    def _look(self) -> Remains:
        return Remains(
            processes=frozenset(descendants()),
            groups=frozenset(_groups({os.getpid(), *_STARTED_HERE})),
            mounts=frozenset(
                line for line in _read("/proc/self/mountinfo").decode().splitlines() if "moonpool" in line
            ),
            sockets=frozenset(_named_sockets(self._folders)),
            files=frozenset(_files(self._folders)),
        )

    def _bury(self) -> None:
        """Reap adopted processes that have ended; those that somebody here started are left to whoever did."""
        for pid in descendants() - self._earlier.processes:
            if _state(pid) == ("Z", os.getpid()) and pid not in _STARTED_HERE:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def outer_sandboxes_in_start(reaper: int) -> set[int]:
    """Processes of bubblewrap that have made their child, which still is bubblewrap: the middle of a start."""
    walls = {pid for pid in children_of(reaper) if _program(pid) == "bwrap"}
    return {pid for pid in walls if any(_program(child) == "bwrap" for child in children_of(pid))}


def reapers(host: int) -> list[int]:
    return [pid for pid in children_of(host) if b"reaper" in _read(f"/proc/{pid}/cmdline")]


async def caught(look: Callable[[], set[int] | list[int]], *, unless: Callable[[], object] = bool) -> int | None:
    """Spin until `look` sees something: a moment that nobody announces and that is over in a millisecond.

    None if `unless` came true first: on a busy machine the moment may pass unseen.
    """
    with anyio.fail_after(150):
        while True:
            if found := look():
                return min(found)
            if unless():
                return None
            await anyio.lowlevel.checkpoint()


_STARTED_HERE: set[int] = set()


def started_here(pid: int) -> int:
    """Leave the reaping of `pid` to the test that started it."""
    _STARTED_HERE.add(pid)
    return pid


def _adopt_orphans(on: bool) -> None:
    assert ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0


def _program(pid: int) -> str:
    return _read(f"/proc/{pid}/comm").decode().strip()


def _state(pid: int) -> tuple[str, int]:
    words = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (words[0].decode(), int(words[1])) if words else ("", 0)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _groups(owners: set[int]) -> set[str]:
    """Control groups of these processes: their names say whose they are."""
    found: set[str] = set()
    for top, inner, _ in os.walk("/sys/fs/cgroup"):
        ours = (name for name in inner if name.startswith("moonpool-"))
        found |= {f"{top}/{name}" for name in ours if not owners.isdisjoint(map(int, re.findall(r"\d+", name)))}
    return found


def _named_sockets(folders: tuple[Path, ...]) -> set[str]:
    names = (line.split()[-1] for line in _read("/proc/net/unix").decode(errors="replace").splitlines()[1:])
    return {name for name in names if any(name.startswith(str(folder)) for folder in folders)}


def _files(folders: tuple[Path, ...]) -> set[str]:
    """Paths below `folders`; what vanishes meanwhile does not matter."""
    found: set[str] = set()
    for folder in folders:
        for top, inner, files in os.walk(folder):
            found |= {f"{top}/{name}" for name in (*inner, *files)}
    return found


def _describe(pid: int) -> str:
    return f"{pid}: {_state(pid)} {_read(f'/proc/{pid}/wchan').decode()} {_read(f'/proc/{pid}/cmdline')[:300]!r}"
