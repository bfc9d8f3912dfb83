"""Paths of orders, opened. A link is never followed, on any part of a path; `..` and other roots are refused.

Everything is done relative to a descriptor of the place, with openat2, in one step: there is no moment between looking
and opening in which another process could exchange a folder for a link.
"""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from moonpool_guest import linux
from moonpool_guest.files.refusals import RefusedError
from moonpool_wire.filenames import NameFault, OutsideFault, split_place

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
TEMPORARY = ".moonpool-"
"""What our own passing names begin with. They are left out of listings and archives."""


class Place:
    """A path below one of the places. `root` is a descriptor of the place, `below` the path from there."""

    def __init__(self, root: int, below: str) -> None:
        self.root, self.below = root, below
        folder, _, self.name = below.rpartition("/")
        self.folder = folder or "."

    @property
    def is_root(self) -> bool:
        return self.below == "."

    def open_folder(self, path: str, *, make: bool = False) -> int:
        """A descriptor of the folder at `path` below the place; `make` makes what is missing of it."""
        try:
            return open_beneath(self.root, path, _FOLDER)
        except FileNotFoundError:
            if not make:
                raise
        above, _, name = path.rpartition("/")
        folder = self.open_folder(above or ".", make=True)
        try:
            try:
                os.mkdir(name, 0o755, dir_fd=folder)
            except FileExistsError:
                pass  # something else made it; a link is found out now
            return open_beneath(folder, name, _FOLDER)
        finally:
            os.close(folder)


@contextmanager
def located(path: str) -> "Generator[Place]":
    """The place that `path` names, held open. Raises RefusedError."""
    try:
        root, below = split_place(path)
    except NameFault as fault:
        raise RefusedError("outside" if isinstance(fault, OutsideFault) else "name", str(fault)) from None
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Place(fd, below)
    finally:
        os.close(fd)


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open `path` below `folder`, following nothing."""
    return linux.open_beneath(folder, os.fsencode(path), flags)


def open_regular(folder: int, path: str) -> "tuple[int, os.stat_result]":
    """Open a regular file for reading. Never waits for a pipe, never reads a device. Raises RefusedError, OSError."""
    fd = open_beneath(folder, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    state = os.fstat(fd)
    if stat.S_ISREG(state.st_mode):
        return fd, state
    os.close(fd)
    raise RefusedError("not_regular", f"it is {kind_of(state.st_mode)}, not a regular file")


def kind_of(mode: int) -> str:
    """What a file is, in words."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFREG: "a file",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")


def fresh_name() -> str:
    """A passing name that nothing else has."""
    return TEMPORARY + os.urandom(8).hex()
