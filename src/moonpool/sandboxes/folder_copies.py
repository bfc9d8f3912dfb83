"""Copies of host folders for a sandbox that runs under a uid of its own where the file system has no id-mapped mounts.

For root only: on overlayfs (`/` of a container), 9p, virtiofs, FUSE, most NFS. The sandbox sees the copy at the
folder's path; `folder_sync` makes both equal before and after each execution and each transfer of files, and once more
when the sandbox has ended, however it did. Then the copy is removed.

SECURITY: a copy is the sandbox uid's, in a folder that no other uid enters. The host's folder is opened anew each time,
without following a link, and must be the one that was attached.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.core.phrases import clip, printable, storable
from moonpool.sandboxes.folder_sync import FolderSync, SyncReport
from moonpool.sandboxes.folder_trees import FOLDER, NO_LINKS, openat2, opened, remove_tree
from moonpool.sandboxes.host_folders import FREE_BYTES_MIN, FolderError, FolderNews

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.sandboxes.host_folders import HostFolder

_NAMED_MAX: Final = 5
_SHOWN_CHARS_MAX: Final = 120
_REMEDY: Final = "put it back, or open another session"
_PROBE_TIMEOUT_S: Final = 20.0
_HERE: Final = -100  # AT_FDCWD
_ROOT: Final = Path(__file__).parents[2]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Copy:
    folder: HostFolder
    place: Path
    identity: tuple[int, int]  # device and inode of the host's folder
    sync: FolderSync

    def synchronise(self) -> SyncReport:
        """Raises FolderError, OSError."""
        path = str(self.folder.path)
        try:
            host = openat2(_HERE, path, FOLDER, NO_LINKS)
        except OSError as error:
            raise FolderError(f"it was moved, removed or unmounted ({error.strerror}); {_REMEDY}") from None
        with opened(host), opened(openat2(_HERE, str(self.place), FOLDER, NO_LINKS)) as copy:
            if _identity(host) != self.identity:
                raise FolderError(f"another folder is in its place; {_REMEDY}")
            return self.sync.synchronise(host, copy)


class IdMapProbe:
    """Tells where a folder can be mounted for another uid. What it found of a device does not change."""

    def __init__(self) -> None:
        self._found: dict[int, bool] = {}

    def can_map(self, fd: int) -> bool:
        """Whether this folder's file system has id-mapped mounts, and we may make them. Blocks."""
        device = os.fstat(fd).st_dev
        if device not in self._found:
            program = (
                f"import sys; sys.path.append({str(_ROOT)!r}); "
                f"from moonpool.sandboxes.folder_mounts import is_mappable as m; "
                f"sys.exit(0 if m({fd}) else 1)"
            )
            try:
                done = subprocess.run(
                    [sys.executable, "-I", "-S", "-c", program],
                    pass_fds=(fd,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    timeout=_PROBE_TIMEOUT_S, check=False, cwd="/",
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return False
            self._found[device] = done.returncode == 0
        return self._found[device]


class FolderCopies:
    """Those of one sandbox, in `place`. Everything here blocks."""

    def __init__(self, place: Path, uid: int, probe: IdMapProbe) -> None:
        self.place, self._uid, self._probe = place, uid, probe
        self._copies: list[_Copy] = []
        self._turn = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._copies)

    def needed(self, fd: int) -> bool:
        """Whether this folder must be copied."""
        return not self._probe.can_map(fd)

    def add(self, folder: HostFolder, fd: int) -> Path:
        """Copy a folder that is opened as `fd`, and where the copy is. Raises FolderError, OSError."""
        if not self._copies:
            self.place.mkdir(parents=True)
            self.place.parent.chmod(0o711)
            os.chown(self.place, self._uid, self._uid)
            self.place.chmod(0o700)
        space = os.statvfs(self.place)
        if space.f_bavail * space.f_frsize < 2 * FREE_BYTES_MIN:
            raise FolderError(f"{folder.path} cannot be attached: {2 * FREE_BYTES_MIN:,} bytes must be free for a copy")
        place = self.place / str(len(self._copies))
        place.mkdir(mode=0o700)
        os.chown(place, self._uid, self._uid)
        found = os.fstat(fd)
        sync = FolderSync((found.st_uid, found.st_gid), self._uid, writable=folder.writable, fixed=folder.fixed)
        copy = _Copy(folder, place, _identity(fd), sync)
        self._copies.append(copy)
        try:
            report = copy.synchronise()
        except FolderError as error:
            raise FolderError(f"{folder.path} cannot be attached: {error}") from None
        if report.left:
            raise FolderError(f"{folder.path} cannot be attached: {_listed(report.left)}")
        return place

    def synchronise(self) -> FolderNews:
        """Make folders and copies equal, and say what is not."""
        with self._turn:
            told = [_told(copy) for copy in self._copies]
        news = FolderNews(_joined(one.remark for one in told), _joined(one.failure for one in told))
        for words in filter(None, (news.remark, news.failure)):
            _log.warning("%s", words)
        return news

    def remove(self) -> None:
        """Remove the copies, however deep code made them."""
        with self._turn:
            self._copies.clear()
            if self.place.exists():
                remove_tree(self.place)


def _told(copy: _Copy) -> FolderNews:
    path = copy.folder.path
    try:
        report = copy.synchronise()
    except (FolderError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return FolderNews(failure=f"{path} is not the same as what code sees: {why}")
    remark = failure = ""
    if report.beside:
        remark = (
            f"in {path} both code and somebody else changed files; the sandbox's versions: {_listed(report.beside)}"
        )
    if report.left:
        failure = f"in {path} not all is as in the sandbox: {_listed(report.left)}"
    return FolderNews(remark, failure)


def _listed(rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    named = ", ".join(f"{_shown(path)} ({_shown(text)})" for path, text in rows[:_NAMED_MAX])
    return named if len(rows) <= _NAMED_MAX else f"{named} and {len(rows) - _NAMED_MAX:,} more"


def _shown(text: str) -> str:
    return clip(printable(storable(text)), _SHOWN_CHARS_MAX)


def _joined(sentences: Iterable[str]) -> str:
    return "; ".join(filter(None, sentences))


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
