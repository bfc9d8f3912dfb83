"""Carries single files, folders and links between a folder and its copy, and removes them.

SECURITY: everything is opened below a root, without links and without leaving the mount (`folder_trees`). Nothing is
done on the host that the folder's owner could not do: without id-mapped mounts it is root who writes here.
INVARIANT: a file of the host is replaced by a rename of a complete one. Blocks.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING

from moonpool.sandboxes.folder_looks import OURS
from moonpool.sandboxes.folder_trees import (
    HIDDEN_FOLDER,
    ChangedError,
    Entry,
    entry_at,
    entry_of,
    fill,
    make_folder,
    opened,
    place,
    reading,
    split,
)
from moonpool.store.beneath import open_beneath
from moonpool_wire.folder_names import is_hidden

if TYPE_CHECKING:
    from moonpool.sandboxes.folder_looks import Owner

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Carrier:
    """Works in a folder as `owner`, in its copy for the sandbox's `uid`. All raise ChangedError, OSError."""

    owner: Owner
    uid: int
    masked: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])  # what stands for what is hidden

    def remove(self, root: int, path: str, expected: Entry, *, on_host: bool, may_stay: bool) -> None:
        """Remove what is as expected; with `may_stay` not a folder that still holds something."""
        above, name = split(path)
        with opened(open_beneath(root, above, os.O_PATH | os.O_DIRECTORY)) as folder:
            now = entry_at(folder, name)
            if now is None:
                return
            if now != expected:
                raise ChangedError
            if on_host:
                self._check_may_change(folder, name)
            if expected.kind != stat.S_IFDIR:
                os.unlink(name, dir_fd=folder)
                return
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:  # it holds what was withheld, or what the host made since
                if error.errno != errno.ENOTEMPTY or not may_stay:
                    raise

    def put_on_host(
        self, copy: int, host: int, path: str, wanted: Entry, there: Entry | None
    ) -> tuple[Entry, Entry] | None:
        """Both sides as they are then, if they are known. `there` is what is replaced."""
        above, name = split(path)
        with opened(open_beneath(host, above, os.O_PATH | os.O_DIRECTORY)) as folder:
            is_folder = wanted.kind == stat.S_IFDIR
            if there is None or not is_folder:
                self._check_may_change(folder, "" if there is None else name)
            if is_folder:
                owner = self.owner.uid, self.owner.gid
                make_folder(host, path, folder, wanted.mode, owner, is_new=there is None)
                return wanted, wanted
            temporary = OURS + token_hex(8)
            try:
                here = self._write(copy, folder, path, wanted, temporary)
                place(folder, temporary, name, there)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            now = entry_at(folder, name)
            return None if now is None else (now, here)

    def _write(self, copy: int, folder: int, path: str, wanted: Entry, temporary: str) -> Entry:
        """Make a link or a complete file; how the copy's was before."""
        owner = self.owner.uid, self.owner.gid
        if wanted.kind == stat.S_IFLNK:
            os.symlink(wanted.target, temporary, dir_fd=folder)
            os.chown(temporary, *owner, dir_fd=folder, follow_symlinks=False)
            return wanted
        made = os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder)
        with opened(made), reading(copy, path) as source:
            return fill(made, source, owner)

    def _check_may_change(self, folder: int, replaced: str) -> None:
        """Whether the owner may make something in this folder of the host, and replace what has this name."""
        if not self.owner.may(os.fstat(folder), 2):
            raise PermissionError(errno.EACCES, "the owner of the attached folder may not change the folder it is in")
        if replaced and not self.owner.may_replace(folder, os.stat(replaced, dir_fd=folder, follow_symlinks=False)):
            raise PermissionError(errno.EPERM, "it belongs to another user, and its folder has the sticky bit")

    def put_in_copy(
        self, host: int, copy: int, path: str, wanted: Entry, there: Entry | None
    ) -> tuple[Entry, Entry] | None:
        """As `put_on_host`, the other way. For what is hidden, a mask."""
        above, name = split(path)
        own = (self.uid, self.uid)
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
                made = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
            else:
                made = open_beneath(copy, path, os.O_WRONLY | os.O_NONBLOCK)
            with opened(made), reading(host, path) as source:
                if not (stat.S_ISREG(os.fstat(made).st_mode) and self.owner.may(os.fstat(source), 4)):
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
                os.close(os.open(name, _NEW_FILE, 0, dir_fd=folder))
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        self.masked.add((found.st_dev, found.st_ino))
