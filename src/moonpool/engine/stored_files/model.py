"""What is brought into a sandbox, and where. Pure.

INVARIANT: what does not fit stays in the tree: it is neither brought in nor ever taken for removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool_wire.filenames import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.features.storage.base import HeldTree, Snapshot
    from moonpool.features.storage.model import Entry
    from moonpool.sandboxes.base import SandboxLimits

WORKSPACE: Final = PLACES[0]
VOLUMES: Final = "/data"
HOME: Final = "/home/baponi"
"""The same folder as `WORKSPACE`, and `HOME` of code that runs with a thread."""
RESERVED: Final = ".moonpool"
"""A folder of a thread that the host alone writes to: sandboxes never see it."""
_PAGE_BYTES: Final = 4096
_SHARE: Final = 0.75


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
    left_out: frozenset[str]  # files that do not fit
    left_out_bytes: int


def choose(mount: Mount, room: Room) -> Choice:
    """What of a tree is brought in, in order of paths; `room` is less by that. The largest files are left out first.

    Raises StoredFilesError where not even its folders fit.
    """
    wanted = {one.path: one for one in mount.snapshot.tree if _is_wanted(one.path, mount)}
    size, count = sum(map(_size, wanted.values())), len(wanted)
    left_out: dict[str, Entry] = {}
    for one in sorted(wanted.values(), key=lambda one: (-one.size, one.path)):
        if size <= room.bytes_count and count <= room.entry_count and one.size <= room.file_bytes_max:
            break
        if one.kind == "file":
            left_out[one.path] = one
            size, count = size - _size(one), count - 1
    if count > room.entry_count or size > room.bytes_count:
        raise StoredFilesError(f"{mount.name} has more folders than fit into a sandbox; remove some by the Files API")
    room.bytes_count, room.entry_count = room.bytes_count - size, room.entry_count - count
    return Choice(
        entries={path: one for path, one in wanted.items() if path not in left_out},
        left_out=frozenset(left_out),
        left_out_bytes=sum(one.size for one in left_out.values()),
    )


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


def _is_wanted(path: str, mount: Mount) -> bool:
    if mount.place == WORKSPACE and is_reserved(path):
        return False
    return not mount.sub_paths or any(
        path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in mount.sub_paths
    )


def is_reserved(path: str) -> bool:
    """Whether the host alone writes there."""
    return path == RESERVED or path.startswith(f"{RESERVED}/")
