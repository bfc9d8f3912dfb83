"""What of a folder and of its copy takes part when both are made equal.

SECURITY: names of credentials never enter the copy, and what is read-only in it never comes back: the rules are those
by which PID 1 sets its guards (`moonpool_wire.folder_names`). They are asked when a path is first seen, as PID 1 does
once: what code has made since is code's.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.folder_trees import HIDDEN_FOLDER, WITHHELD, Entry, Tree, entry_of, split, walk
from moonpool_wire.folder_names import VENV_MARK, is_hidden, is_read_only, is_unsearched

if TYPE_CHECKING:
    from collections.abc import Container
    from collections.abc import Set as AbstractSet

OURS: Final = ".moonpool-sync-"
"""Files that are being written; one that is left was not finished."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Of an attached folder. Root does here what he could do, and no more."""

    uid: int
    gid: int

    def may(self, found: os.stat_result, bits: int) -> bool:
        """Whether he may do this (4 read, 2 write, 1 enter), by owner and mode; he could change the mode of his own."""
        shift = 3 if found.st_gid == self.gid else 0
        return found.st_uid == self.uid or found.st_mode >> shift & bits == bits

    def may_replace(self, folder: int, found: os.stat_result) -> bool:
        """Whether he may remove or rename what is in this folder, if he may change the folder."""
        if found.st_uid == self.uid:
            return True
        above = os.fstat(folder)
        return above.st_uid == self.uid or not above.st_mode & stat.S_ISVTX


@dataclass(frozen=True, slots=True)
class Guarded:
    """Paths that code may not change, with all below them; and folders in which no names are looked for."""

    fixed: frozenset[str] = frozenset()
    unsearched: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostLook:
    tree: Tree
    guarded: Guarded
    foreign: frozenset[str]  # what the folder's owner may see, and not change


class _Names:
    """What is guarded by name, while a folder is looked through."""

    def __init__(self, before: Guarded, known: Container[str]) -> None:
        self._fixed, self._unsearched, self._known = set(before.fixed), set(before.unsearched), known

    def hides(self, path: str, *, is_folder: bool) -> bool:
        """Whether it is a credential; notes what is read-only."""
        above, name = split(path)
        if above in self._unsearched:
            self._unsearched |= {path} if is_folder else set()
        elif path not in self._known:
            if is_hidden(name):
                return True
            self._fixed |= {path} if is_read_only(name) else set()
            self._unsearched |= {path} if is_unsearched(name) else set()
        return False

    def enter(self, path: str, names: set[str]) -> None:
        if path and VENV_MARK in names and path not in self._known:
            self._fixed.add(path)

    def guarded(self) -> Guarded:
        return Guarded(frozenset(self._fixed), frozenset(self._unsearched))


def look_at_host(root: int, owner: Owner, before: Guarded, known: Container[str]) -> HostLook:
    """The host's side. `before` is what was guarded at the last look. Raises FolderError, OSError."""
    names, foreign = _Names(before, known), set[str]()

    def look(path: str, found: os.stat_result, folder: int) -> Entry | None:
        name = split(path)[1]
        if name.startswith(OURS):
            return None
        is_folder = stat.S_ISDIR(found.st_mode)
        if not stat.S_ISLNK(found.st_mode):
            if names.hides(path, is_folder=is_folder):
                return HIDDEN_FOLDER if is_folder else WITHHELD
            if not owner.may(found, 5 if is_folder else 4):
                return WITHHELD
        if not owner.may_replace(folder, found) or (stat.S_ISREG(found.st_mode) and not owner.may(found, 2)):
            foreign.add(path)
        return entry_of(found, folder, name)

    tree = walk(root, look, names.enter, not_entered=WITHHELD)
    return HostLook(tree, names.guarded(), frozenset(foreign))


def look_at_copy(root: int, masked: AbstractSet[tuple[int, int]], there: Container[str]) -> Tree:
    """The copy's side. `masked` are device and inode of what stands for credentials. Raises FolderError, OSError.

    A folder of which the host has removed all, and which cannot be removed here because of a mask, is not there.
    """
    holding: set[str] = set()

    def look(path: str, found: os.stat_result, folder: int) -> Entry | None:
        above, name = split(path)
        if (found.st_dev, found.st_ino) in masked:
            holding.add(above)
            return None
        if name.startswith(OURS):
            return None
        entry = entry_of(found, folder, name)
        return entry if entry.kind else None

    tree = walk(root, look, lambda _path, _names: None, not_entered=None)
    emptied = {folder for folder in holding if folder not in there}
    count = Counter(split(path)[0] for path in tree.entries) if emptied else Counter[str]()
    for folder in emptied:
        while folder in tree.entries and folder not in there and not count[folder]:
            del tree.entries[folder]
            folder = split(folder)[0]  # noqa: PLW2901
            count[folder] -= 1
    return tree
