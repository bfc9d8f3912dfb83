"""A folder of the host and the copy of it in which a sandbox works, made equal whenever `synchronise` is called.

What changed on one side only is carried to the other. Where both changed, the host's version stays and the sandbox's is
kept beside it (`NAME.sandbox`). What one side removed and the other changed is kept. Nothing is carried that the
folder's owner could not do: without id-mapped mounts it is root who reads and writes here (`folder_copies`).

SECURITY: the copy is code's, which may put a link in the place of any folder between two system calls. Everything is
opened below its root by openat2, without links and without leaving the mount; only regular files, folders and links are
carried, links as such. Names of credentials never enter the copy, and what is read-only in it never comes back.
INVARIANT: a file of the host is replaced by a rename of a complete one. Blocks; for one thread at a time.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.folder_trees import (
    CHUNK,
    FOLDER,
    HIDDEN_FOLDER,
    NO_REPLACE,
    WITHHELD,
    ChangedError,
    Entry,
    entry_at,
    entry_of,
    fill,
    make_folder,
    open_beneath,
    opened,
    place,
    read_fully,
    reading,
    rename,
    split,
    walk,
)
from moonpool_wire.folder_names import VENV_MARK, is_hidden, is_read_only, is_unsearched

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from collections.abc import Set as AbstractSet

_OURS: Final = ".moonpool-sync-"  # files that are being written; one that is left was not finished
_ROUNDS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What could not simply be carried over."""

    beside: tuple[tuple[str, str], ...] = ()  # paths that both sides changed, and where the sandbox's version is
    left: tuple[tuple[str, str], ...] = ()  # paths that are not the same on both sides, and why


class _Step(Enum):
    NONE = "none"
    IN = "in"  # the host's into the copy
    OUT = "out"
    BESIDE = "beside"


@dataclass(slots=True)
class _Round:
    """What one pass found to do."""

    beside: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    left: dict[str, str] = field(default_factory=dict[str, str])


class FolderSync:
    """One folder and its copy."""

    def __init__(self, owner: tuple[int, int], uid: int, *, writable: bool, fixed: tuple[str, ...] = ()) -> None:
        """`owner` is the folder's uid and gid, `uid` the sandbox's. Not `writable`: nothing comes back."""
        self._owner, self._uid, self._writable = owner, uid, writable
        self._fixed = set(fixed)  # what code may not change, with all below it
        self._whole: set[str] = set()  # folders in which no names are looked for: repositories
        self._masked: set[tuple[int, int]] = set()  # what stands in the copy for what is hidden
        self._foreign: set[str] = set()  # files that the folder's owner may read, and not write
        self._known: dict[str, tuple[Entry, Entry]] = {}  # path -> the host's and the copy's, when they were the same
        self._begun = False

    def synchronise(self, host: int, copy: int) -> SyncReport:
        """Make both equal, given their roots. Raises FolderError for too much; then nothing was carried. OSError."""
        beside: list[tuple[str, str]] = []
        done = _Round()
        for _ in range(_ROUNDS_MAX):
            done = self._pass(host, copy)
            beside += done.beside
            if not done.beside and not any(why == "" for why in done.left.values()):
                break
        self._begun = True
        left = {**{path: "" for path, _ in done.beside}, **done.left}
        left = {path: why or "it keeps changing" for path, why in left.items()}
        return SyncReport(tuple(beside), tuple(sorted(left.items())))

    def _pass(self, host: int, copy: int) -> _Round:
        theirs, ours = self._host_tree(host), self._copy_tree(copy)
        done = _Round()
        inward: list[str] = []
        outward: list[str] = []
        taken = theirs.keys() | ours.keys() | self._known.keys()
        for path in sorted(taken):
            step = self._step(host, copy, path, theirs.get(path), ours.get(path))
            if step is _Step.BESIDE:
                self._put_beside(copy, path, taken, done)
            elif step is not _Step.NONE:
                (inward if step is _Step.IN else outward).append(path)
        if done.beside:  # what was moved is looked at first
            moved = {path for path, _ in done.beside}
            self._known = {path: both for path, both in self._known.items() if not _is_in(moved, path)}
        else:
            self._carry(outward, (copy, ours), (host, theirs), self._put_on_host, done)
            self._carry(inward, (host, theirs), (copy, ours), self._put_in_copy, done)
        return done

    def _step(self, host: int, copy: int, path: str, there: Entry | None, here: Entry | None) -> _Step:
        """What has to be done about one path. Loses nothing that either side made."""
        known = self._known.get(path, (None, None))
        host_changed, copy_changed = there != known[0], here != known[1] and not self._is_fixed(path)
        if there is not None and not there.kind:  # withheld: only hidden before the sandbox starts
            if here is None:
                return _Step.NONE if self._begun else _Step.IN
            return _Step.BESIDE if copy_changed else _Step.NONE
        if not copy_changed:
            return _Step.IN if host_changed else _Step.NONE
        if not host_changed:
            if path not in self._foreign:
                return _Step.OUT
            return _Step.IN if here is None else _Step.BESIDE
        if there is None or here is None:
            if there is here:
                del self._known[path]
                return _Step.NONE
            return _Step.IN if here is None else _Step.OUT
        if not _are_same(host, copy, path, there, here):
            return _Step.BESIDE
        self._known[path] = there, here
        return _Step.NONE

    # --- looking

    def _host_tree(self, root: int) -> dict[str, Entry]:
        self._foreign.clear()

        def look(path: str, found: os.stat_result, folder: int) -> Entry | None:
            name = path.rpartition("/")[2]
            if name.startswith(_OURS):
                return None
            if stat.S_ISLNK(found.st_mode):
                return entry_of(found, folder, name)
            is_folder = stat.S_ISDIR(found.st_mode)
            if self._hides(path, name, is_folder=is_folder):
                return HIDDEN_FOLDER if is_folder else WITHHELD
            if not self._allows(found, 5 if is_folder else 4):
                return WITHHELD
            if not is_folder and not self._may_change(found):
                self._foreign.add(path)
            return entry_of(found, folder, name)

        def enter(path: str, names: set[str]) -> None:
            if path and VENV_MARK in names and path not in self._known:
                self._fixed.add(path)

        return walk(root, look, enter, not_entered=WITHHELD)

    def _hides(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Whether it is a credential by its name; notes what is read-only by its name. Both as PID 1 does."""
        if path.rpartition("/")[0] in self._whole:
            self._whole |= {path} if is_folder else set()
        elif path not in self._known:
            if is_hidden(name):
                return True
            if is_read_only(name):
                self._fixed.add(path)
                self._whole |= {path} if is_unsearched(name) else set()
        return False

    def _copy_tree(self, root: int) -> dict[str, Entry]:
        def look(path: str, found: os.stat_result, folder: int) -> Entry | None:
            name = path.rpartition("/")[2]
            if name.startswith(_OURS) or (found.st_dev, found.st_ino) in self._masked:
                return None
            entry = entry_of(found, folder, name)
            return entry if entry.kind else None

        return walk(root, look, lambda _path, _names: None, not_entered=None)

    def _is_fixed(self, path: str) -> bool:
        return not self._writable or _is_in(self._fixed, path)

    def _allows(self, found: os.stat_result, bits: int) -> bool:
        """Whether the folder's owner may do this (4 read, 2 write, 1 enter), by the mode alone."""
        shift = 6 if found.st_uid == self._owner[0] else 3 if found.st_gid == self._owner[1] else 0
        return found.st_mode >> shift & bits == bits

    def _may_change(self, found: os.stat_result) -> bool:
        return found.st_uid == self._owner[0] or self._allows(found, 2)

    # --- carrying

    def _put_beside(self, copy: int, path: str, taken: AbstractSet[str], done: _Round) -> None:
        """Both sides changed: the sandbox's version gets another name in the copy, and comes to the host under it."""
        above, name = split(path)
        stem = os.fsdecode(os.fsencode(name)[:230])
        number, new = 1, f"{stem}.sandbox"
        while (f"{above}/{new}" if above else new) in taken:
            number += 1
            new = f"{stem}.sandbox-{number}"
        try:
            with opened(open_beneath(copy, above, os.O_PATH | os.O_DIRECTORY)) as folder:
                rename(folder, name, new, NO_REPLACE)
        except OSError as error:
            done.left[path] = f"both sides changed it, and {error.strerror}"
            return
        done.beside.append((path, f"{above}/{new}" if above else new))

    def _carry(
        self,
        paths: list[str],
        source: tuple[int, Mapping[str, Entry]],
        target: tuple[int, Mapping[str, Entry]],
        put: Callable[[int, int, str, Entry, Entry | None], tuple[Entry, Entry] | None],
        done: _Round,
    ) -> None:
        """Removals first, the deepest first, and whatever stands in the way of another kind; then the rest."""
        for path in reversed(paths):
            wanted, there = source[1].get(path), target[1].get(path)
            if there is not None and (wanted is None or wanted.kind != there.kind):
                with _noted(path, done):
                    self._remove(target[0], path, there, may_stay=wanted is None)
            if wanted is None and path not in done.left:
                self._known.pop(path, None)
        for path in paths:
            wanted, there = source[1].get(path), target[1].get(path)
            if wanted is None or path in done.left:
                continue
            with _noted(path, done):
                same_kind = there is not None and there.kind == wanted.kind
                both = put(source[0], target[0], path, wanted, there if same_kind else None)
                if both is not None:
                    self._known[path] = both

    def _remove(self, root: int, path: str, expected: Entry, *, may_stay: bool) -> None:
        above, name = split(path)
        with opened(open_beneath(root, above, os.O_PATH | os.O_DIRECTORY)) as folder:
            now = entry_at(folder, name)
            if now is None:
                return
            if now != expected:
                raise ChangedError
            self._check_may_change(folder)
            if expected.kind != stat.S_IFDIR:
                os.unlink(name, dir_fd=folder)
                return
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:  # it holds what was withheld, or what the host made since
                if error.errno != errno.ENOTEMPTY or not may_stay:
                    raise

    def _check_may_change(self, folder: int) -> None:
        found = os.fstat(folder)
        if found.st_uid != self._uid and not self._may_change(found):
            raise PermissionError(errno.EACCES, "the owner of the attached folder may not change the folder it is in")

    def _put_on_host(
        self, copy: int, host: int, path: str, wanted: Entry, there: Entry | None
    ) -> tuple[Entry, Entry] | None:
        above, name = split(path)
        with opened(open_beneath(host, above, os.O_PATH | os.O_DIRECTORY)) as folder:
            self._check_may_change(folder)
            if wanted.kind == stat.S_IFDIR:
                if there is not None:
                    with opened(open_beneath(host, path, FOLDER)) as own:
                        self._check_may_change(own)
                make_folder(host, path, folder, wanted.mode, self._owner, is_new=there is None)
                return wanted, wanted
            temporary = _OURS + token_hex(8)
            here = wanted
            try:
                if wanted.kind == stat.S_IFLNK:
                    os.symlink(wanted.target, temporary, dir_fd=folder)
                    os.chown(temporary, *self._owner, dir_fd=folder, follow_symlinks=False)
                else:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                    made = os.open(temporary, flags, 0o600, dir_fd=folder)
                    with reading(copy, path) as source, opened(made):
                        here = fill(made, source, self._owner)
                place(folder, temporary, name, there)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            now = entry_at(folder, name)
            return None if now is None else (now, here)

    def _put_in_copy(
        self, host: int, copy: int, path: str, wanted: Entry, there: Entry | None
    ) -> tuple[Entry, Entry] | None:
        above, name = split(path)
        own = (self._uid, self._uid)
        with opened(open_beneath(copy, above, os.O_PATH | os.O_DIRECTORY)) as folder:
            if not wanted.kind:
                self._mask(folder, name, is_folder=wanted == HIDDEN_FOLDER)
                return None
            if wanted.kind == stat.S_IFDIR:
                make_folder(copy, path, folder, wanted.mode, own, is_new=there is None)
                return wanted, wanted
            if entry_at(folder, name) != there:
                raise ChangedError
            if wanted.kind == stat.S_IFLNK:
                if there is not None:
                    os.unlink(name, dir_fd=folder)
                os.symlink(wanted.target, name, dir_fd=folder)
                os.chown(name, *own, dir_fd=folder, follow_symlinks=False)
                return wanted, wanted
            # In place: a guard that PID 1 has set on the file stays on it.
            if there is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                made = os.open(name, flags, 0o600, dir_fd=folder)
            else:
                made = open_beneath(copy, path, os.O_WRONLY | os.O_NONBLOCK)
            with opened(made), reading(host, path) as source:
                if not (stat.S_ISREG(os.fstat(made).st_mode) and self._allows(os.fstat(source), 4)):
                    raise ChangedError
                os.ftruncate(made, 0)
                from_host = fill(made, source, own)
                return from_host, entry_of(os.fstat(made), folder, name)

    def _mask(self, folder: int, name: str, *, is_folder: bool) -> None:
        """Something for PID 1 to hide, in the place of what never enters the copy."""
        if not is_hidden(name):
            return
        with suppress(FileExistsError):
            if is_folder:
                os.mkdir(name, 0, dir_fd=folder)
            else:
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0, dir_fd=folder))
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        self._masked.add((found.st_dev, found.st_ino))


def _are_same(host: int, copy: int, path: str, there: Entry, here: Entry) -> bool:
    if there.kind != here.kind or there.size != here.size:
        return False
    if there.kind != stat.S_IFREG:
        return there.kind == stat.S_IFDIR or there == here
    with reading(host, path) as one, reading(copy, path) as other:
        while chunk := os.read(one, CHUNK):
            if chunk != read_fully(other, len(chunk)):
                return False
        return not os.read(other, 1)


def _is_in(folders: AbstractSet[str], path: str) -> bool:
    """Whether it is one of these, or below one."""
    while path and path not in folders:
        path = path.rpartition("/")[0]
    return bool(path)


@contextmanager
def _noted(path: str, done: _Round) -> Generator[None]:
    """What fails is noted for the path, without a reason where somebody changed it just now."""
    try:
        yield
    except ChangedError:
        done.left[path] = ""
    except OSError as error:
        moved = error.errno in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EEXIST}
        done.left[path] = "" if moved else error.strerror or type(error).__name__
