"""Host folders in a sandbox: each at its own path, with what code may not touch hidden or read-only.

The outer sandbox has bound them below `/folders`. PID 1 does the rest before any code runs and while it still may
mount; so nothing in a folder is resolved on the host, and links are not followed here either. `moonpool_wire.
folder_names` says which names are guarded.

SECURITY: a guard is a mount over what is there now. It stays on it when code moves a folder above, and it cannot be
removed, replaced or renamed by code. It is gone when a program of the host replaces the file (editors do); what is not
there yet is not guarded. See docs/limitations/sandbox.md.
"""

import os
import stat
from typing import Any

from moonpool_guest import linux
from moonpool_wire.folder_names import (
    ENTRIES_MAX,
    GUARDS_MAX,
    VENV_MARK,
    is_hidden,
    is_read_only,
    is_unsearched,
)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MASK_FILE, _MASK_FOLDER = "hidden-file", "hidden-folder"
_LOOKS_MAX = 5
_SET_ID = stat.S_ISUID | stat.S_ISGID  # SECURITY: what is written through a mapping leaves these bits as they are


def show(folders: "list[dict[str, Any]]", masks: str) -> None:
    """Put each folder in its place, guarded; those above others come first.

    A folder is `at` (where the outer sandbox has it), `path` (its own), `dev` and `ino` as the host saw it, and
    `fixed`, the paths below it that stay as they are. `masks` is a folder of the sandbox's own. Raises OSError.
    """
    _make_masks(masks)
    for folder in folders:
        path = folder["path"]
        if not os.path.isdir(path):
            os.makedirs(path, 0o755)  # below a place of the sandbox's own; others are there
        # SECURITY: what the host mounts below the folder from now on must not appear here, a drive for one.
        linux.mount("none", folder["at"], None, linux.MS_PRIVATE)
        linux.mount(folder["at"], path, None, linux.MS_BIND)
        linux.unmount(folder["at"])
        found = os.stat(path)
        if (found.st_dev, found.st_ino) != (folder["dev"], folder["ino"]):
            raise OSError(f"{path} was replaced while it was attached")
        _Guards(path, masks).set(folder["fixed"])


def _make_masks(masks: str) -> None:
    """A file and a folder that nobody can read or change, to be bound over others."""
    file, folder = f"{masks}/{_MASK_FILE}", f"{masks}/{_MASK_FOLDER}"
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0))
    os.mkdir(folder, 0)
    for mask in (file, folder):
        linux.mount(mask, mask, None, linux.MS_BIND)
        linux.make_read_only(mask)  # and so is each further mount of it


class _Guards:
    """Those of one folder."""

    def __init__(self, path: str, masks: str) -> None:
        self._path, self._masks = path, masks
        self._root = os.open(path, _FOLDER | os.O_CLOEXEC)
        self._count = self._entries = 0
        self._pinned: set[str] = set()
        self._hidden: set[str] = set()

    def set(self, fixed: "list[str]") -> None:
        try:
            for path in fixed:
                self._fix(path)
            waiting = [""]
            while waiting:
                below = waiting.pop()
                try:
                    waiting += self._guard(below)
                except PermissionError:
                    if not below:
                        raise
                    self._hide(below.rstrip("/"), stat.S_IFDIR)  # else its owner could open it later
        finally:
            os.close(self._root)

    def _guard(self, below: str) -> "list[str]":
        """Guard what is directly in a folder; the folders in it that are to be looked through.

        SECURITY: a guarded name that is gone before its guard is set may be back at once, under this name or another
        one: the whole folder is looked at again, and what never stands still is not attached.
        """
        for _ in range(_LOOKS_MAX):
            entries = self._listed(below)
            try:
                return self._guard_each(below, entries)
            except (FileNotFoundError, NotADirectoryError):
                continue
        raise OSError(f"guarded names in {self._path}/{below} come and go; end what changes them, then attach it")

    def _listed(self, below: str) -> "list[tuple[str, int]]":
        """Names in a folder with their modes: none if it was removed meanwhile, mode 0 for what was."""
        try:
            fd = self._open(below.rstrip("/") or ".", _FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return []
        try:
            with os.scandir(fd) as scan:
                return [(entry.name, _mode_of(entry)) for entry in scan]
        finally:
            os.close(fd)

    def _guard_each(self, below: str, entries: "list[tuple[str, int]]") -> "list[str]":
        """`_guard` for what was listed. Raises FileNotFoundError, NotADirectoryError when a guarded name is gone."""
        if below and any(name == VENV_MARK for name, _ in entries):
            self._fix(below.rstrip("/"))
        found: list[str] = []
        for name, mode in entries:
            hidden, read_only = is_hidden(name), is_read_only(name)
            if not mode and (hidden or read_only):
                raise FileNotFoundError(below + name)
            if hidden:
                self._hide(below + name, mode)
                continue
            if (read_only and not stat.S_ISLNK(mode)) or (stat.S_ISREG(mode) and mode & _SET_ID):
                self._fix(below + name)
            if stat.S_ISDIR(mode) and not is_unsearched(name):
                found.append(f"{below}{name}/")
        self._entries += len(entries)
        if self._entries > ENTRIES_MAX:
            raise OSError(f"{self._path} holds more than {ENTRIES_MAX:,} files; attach a smaller folder")
        return found

    def _hide(self, path: str, mode: int) -> None:
        """SECURITY: what is above is pinned, or code would move it to where the next sandbox does not look."""
        if stat.S_ISLNK(mode):
            target = os.path.realpath(f"{self._path}/{path}")
            if not target.startswith(f"{self._path}/") or not os.path.exists(target):
                return  # it leads nowhere from here
            path = target[len(self._path) + 1 :]
            mode = os.stat(target).st_mode
        if path in self._hidden:
            return
        self._pin_above(path)
        mask = _MASK_FOLDER if stat.S_ISDIR(mode) else _MASK_FILE
        self._mount(f"{self._masks}/{mask}", path)
        self._hidden.add(path)

    def _fix(self, path: str) -> None:
        """Make what is there read-only, and let nobody put something else in its place."""
        self._pin_above(path)
        self._pin(path)
        fd = self._open(path, os.O_PATH | os.O_NOFOLLOW)  # the mount that was just made
        try:
            linux.make_read_only(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)

    def _pin_above(self, path: str) -> None:
        """INVARIANT: before a guard, never after it: a mount of a folder onto itself has none of the mounts in it."""
        above = path.split("/")[:-1]
        for depth in range(1, len(above) + 1):
            self._pin("/".join(above[:depth]))

    def _pin(self, path: str) -> None:
        """Let what is there not be moved or removed: it becomes a mount of itself."""
        if path not in self._pinned:
            self._mount(None, path)
            self._pinned.add(path)

    def _mount(self, source: "str | None", path: str) -> None:
        """Bind `source`, or itself, over a path. No link on it is followed."""
        self._count += 1
        if self._count > GUARDS_MAX:
            raise OSError(f"{self._path} holds more than {GUARDS_MAX:,} guarded names; attach a smaller folder")
        fd = self._open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            place = f"/proc/self/fd/{fd}"
            linux.mount(source or place, place, None, linux.MS_BIND)
        finally:
            os.close(fd)

    def _open(self, path: str, flags: int) -> int:
        return linux.open_beneath(self._root, os.fsencode(path), flags)


def _mode_of(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0
