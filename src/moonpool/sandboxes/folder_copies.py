"""Copies of host folders for a sandbox that runs under a uid of its own where the file system has no id-mapped mounts.

For root only: on overlayfs (`/` of a container), 9p, virtiofs, FUSE, most NFS. The sandbox sees the copy at the
folder's path; `folder_sync` makes both equal before and after each execution and each transfer of files, and once more
when the sandbox has ended, however it did. Then the copy is removed; what could not be carried is kept for a person.

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
from moonpool.sandboxes.folder_trees import FOLDER, opened, remove_tree
from moonpool.sandboxes.host_folders import FREE_BYTES_MIN, FolderError, FolderNews
from moonpool.store.beneath import NO_LINKS, openat2
from moonpool.store.private_files import StoreFolderError, private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.sandboxes.host_folders import HostFolder

_NAMED_MAX: Final = 5
_SHOWN_CHARS_MAX: Final = 120
KEPT_MAX: Final = 5
"""Copies that could not be carried; the oldest is removed."""
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

    def __init__(self, place: Path, uid: int, probe: IdMapProbe, kept: Path) -> None:
        """`kept` is the folder for copies that could not be carried."""
        self.place, self._uid, self._probe, self._kept = place, uid, probe, kept
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
            return _logged(_told(copy) for copy in self._copies)

    def end(self) -> FolderNews:
        """Synchronise for the last time, and remove the copies; keep them if the folders lack what code did."""
        with self._turn:
            told = [_told(copy) for copy in self._copies]
            if any(one.failure and copy.folder.writable for one, copy in zip(told, self._copies, strict=True)):
                told.append(FolderNews(failure=self._keep()))
            news = _logged(told)
        self.remove()
        return news

    def _keep(self) -> str:
        """Move the copies to where only we enter, and say where they are."""
        kept = self._kept / self.place.name
        try:
            private_folder(self._kept)  # SECURITY: the files belong to a uid that other sandboxes will have
            os.chown(self.place, os.geteuid(), os.getegid())
            older = sorted(self._kept.iterdir(), key=lambda one: one.stat().st_ctime_ns)  # when it was moved here
            self.place.rename(kept)
        except (OSError, StoreFolderError) as error:
            return f"the sandbox's version could not be kept ({error})"
        for one in older[: max(0, len(older) + 1 - KEPT_MAX)]:
            remove_tree(one)
        return f"the sandbox's version is kept in {kept}; take what you need of it, then remove it"

    def remove(self) -> None:
        """Remove the copies, however deep code made them."""
        with self._turn:
            self._copies.clear()
            if self.place.exists():
                remove_tree(self.place)


def _logged(told: Iterable[FolderNews]) -> FolderNews:
    told = list(told)
    news = FolderNews(_joined(one.remark for one in told), _joined(one.failure for one in told))
    for words in filter(None, (news.remark, news.failure)):
        _log.warning("%s", words)
    return news


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
