"""What is brought into a sandbox, and where.

INVARIANT: what does not fit stays in the tree: it is neither brought in nor ever taken for removed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.storage.model import is_reserved
from moonpool.sandboxes.shielding import in_thread
from moonpool_wire.filenames import PLACES
from moonpool_wire.limits import TREE_PATH_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.features.storage.base import HeldTree, Snapshot
    from moonpool.features.storage.model import Entry
    from moonpool.sandboxes.base import SandboxLimits

WORKSPACE: Final = PLACES[0]
VOLUMES: Final = "/data"
HOME: Final = "/home/baponi"
"""The same folder as `WORKSPACE`, and `HOME` of code that runs with a thread."""
_PAGE_BYTES: Final = 4096
_SHARE: Final = 0.75
_LARGE: Final = 1000


class StoredFilesError(MoonpoolError):
    """Files of a thread or volume could not be brought into a sandbox, or not be kept. They are as they were."""

    code = "stored_files_failed"
    fault = Fault.HOST
    _names_host = False

    def __init__(self, message: str, *, retryable: bool = False, is_full: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable  # pyright: ignore[reportAttributeAccessIssue]  of this failure, not of all
        self.is_full = is_full


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A tree at a place of the sandbox. Without `held` code reads it only, which a thread cannot be."""

    place: str  # `/workspace`, or `/data/<slug>`
    snapshot: Snapshot
    held: HeldTree | None = None  # whom changes are committed to
    sub_paths: tuple[str, ...] = ()  # below the tree's root; empty: all of it

    @property
    def is_writable(self) -> bool:
        return self.held is not None

    def shows(self, path: str) -> bool:
        """Whether code sees what is there."""
        return self.holds(path) or any(one.startswith(f"{path}/") for one in self.sub_paths)

    def holds(self, path: str) -> bool:
        """Whether it is code's to change, if the tree is: not the host's, and in one of the sub paths."""
        if self.place == WORKSPACE and is_reserved(path):
            return False
        return not self.sub_paths or any(path == one or path.startswith(f"{one}/") for one in self.sub_paths)

    @property
    def name(self) -> str:
        """What people call it."""
        return "the thread" if self.place == WORKSPACE else f"the volume {self.place.rpartition('/')[2]}"


@dataclass(slots=True)
class Room:
    """What may be brought in still."""

    bytes_count: int
    entry_count: int
    file_bytes_max: int

    @classmethod
    def of(cls, limits: SandboxLimits) -> Room:
        """A share of a sandbox's disk: code needs the rest."""
        return cls(
            int(limits.disk_bytes_max * _SHARE), int(limits.disk_inodes_max * _SHARE), int(limits.fsize_bytes_max)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of a tree is brought in."""

    entries: Mapping[str, Entry]
    left_out: frozenset[str]  # files that do not fit, and what has too long a path
    left_out_bytes: int


def choose(mount: Mount, room: Room) -> Choice:
    """What of a tree is brought in, in order of paths; `room` is less by that. The largest files are left out first.

    Raises StoredFilesError where not even its folders fit.
    """
    wanted = {one.path: one for one in mount.snapshot.tree if mount.shows(one.path)}
    left_out = {path: one for path, one in wanted.items() if _is_too_long(path)}
    for path in left_out:
        del wanted[path]
    size, count = sum(map(_size, wanted.values())), _Count(wanted)
    for one in sorted(wanted.values(), key=lambda one: (-one.size, one.path)):
        if size <= room.bytes_count and count.entries <= room.entry_count and one.size <= room.file_bytes_max:
            break
        if one.kind == "file":
            left_out[one.path] = one
            size -= _size(one)
            count.leave_out(one.path)
    if count.entries > room.entry_count or size > room.bytes_count:
        raise StoredFilesError(
            f"the code was not run: {mount.name} has more folders than fit into a sandbox; "
            "remove some by the Files API",
            is_full=True,
        )
    room.bytes_count, room.entry_count = room.bytes_count - size, room.entry_count - count.entries
    return Choice(
        entries={path: one for path, one in wanted.items() if path not in left_out},
        left_out=frozenset(left_out),
        left_out_bytes=sum(one.size for one in left_out.values()),
    )


async def chosen(mount: Mount, room: Room) -> Choice:
    """As `choose`, for a large tree in a thread, so that others are served meanwhile."""
    if len(mount.snapshot.tree) < _LARGE:
        return choose(mount, room)
    return await in_thread(lambda: choose(mount, room))


def with_folders_above(paths: Iterable[str]) -> set[str]:
    """These paths and all that are above them."""
    found: set[str] = set()
    for one in paths:
        path = one
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found


def _size(entry: Entry) -> int:
    return -(-entry.size // _PAGE_BYTES) * _PAGE_BYTES


def _is_too_long(path: str) -> bool:
    """Whether Linux may not take it, below its place in a sandbox or below a checkout."""
    return len(path) * 4 > TREE_PATH_BYTES_MAX and len(path.encode()) > TREE_PATH_BYTES_MAX


class _Count:
    """Files and folders that a tree makes, those included that its paths imply."""

    def __init__(self, wanted: Mapping[str, Entry]) -> None:
        self._wanted = wanted
        self._uses = Counter[str]()  # folder -> how many lie directly in it
        for one in wanted:
            path = one
            while path := path.rpartition("/")[0]:
                self._uses[path] += 1
                if self._uses[path] > 1 or path in wanted:
                    break
        self.entries = len(wanted) + sum(path not in wanted for path in self._uses)

    def leave_out(self, path: str) -> None:
        """This file, and the folders that were implied by it alone."""
        self.entries -= 1
        while path := path.rpartition("/")[0]:
            self._uses[path] -= 1
            if self._uses[path] or path in self._wanted:
                return
            self.entries -= 1
