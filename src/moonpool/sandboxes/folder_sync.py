"""A folder of the host and the copy of it in which a sandbox works, made equal whenever `synchronise` is called.

What changed on one side only is carried to the other. Where both changed, the host's version stays and the sandbox's is
kept beside it (`NAME.sandbox`). What one side removed and the other changed is kept. `folder_looks` says what takes
part, `folder_steps` what is done about each path, `folder_carrying` does it.

SECURITY: the copy is code's, which may put a link in the place of any folder between two system calls. Only regular
files, folders and links are carried, links as such, and only what the folder's owner could carry. Blocks; for one
thread at a time.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.folder_carrying import Carrier
from moonpool.sandboxes.folder_looks import Guarded, Owner, look_at_copy, look_at_host
from moonpool.sandboxes.folder_steps import Step, step_for
from moonpool.sandboxes.folder_trees import (
    CHUNK,
    NO_REPLACE,
    ChangedError,
    Entry,
    opened,
    read_fully,
    reading,
    rename,
    split,
)
from moonpool.store.beneath import open_beneath

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from collections.abc import Set as AbstractSet

_ROUNDS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What could not simply be carried over."""

    beside: tuple[tuple[str, str], ...] = ()  # paths that both sides changed, and where the sandbox's version is
    left: tuple[tuple[str, str], ...] = ()  # paths that are not the same on both sides, and why


@dataclass(slots=True)
class _Round:
    """What one pass found to do."""

    beside: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    left: dict[str, str] = field(default_factory=dict[str, str])


class FolderSync:
    """One folder and its copy."""

    def __init__(self, owner: tuple[int, int], uid: int, *, writable: bool, fixed: tuple[str, ...] = ()) -> None:
        """`owner` is the folder's uid and gid, `uid` the sandbox's. Not `writable`: nothing comes back."""
        self._owner, self._writable = Owner(*owner), writable
        self._carrier = Carrier(self._owner, uid)
        self._guarded = Guarded(frozenset(fixed))
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
        look = look_at_host(host, self._owner, self._guarded, self._known)
        self._guarded = look.guarded
        theirs = look.tree.entries
        ours, left = look_at_copy(copy, self._carrier.masked, theirs)
        done = _Round(left={**left, **look.tree.left})
        inward: list[str] = []
        outward: list[str] = []
        taken = theirs.keys() | ours.keys() | self._known.keys()
        for path in sorted(taken):
            there, here = theirs.get(path), ours.get(path)
            step = step_for(
                self._known.get(path), there, here,
                is_fixed=not self._writable or _is_in(self._guarded.fixed, path),
                is_foreign=path in look.foreign, has_begun=self._begun,
            )  # fmt: skip
            if step is Step.COMPARE and there is not None and here is not None:
                if _are_same(host, copy, path, there, here):
                    self._known[path] = there, here
                    continue
                step = Step.BESIDE
            if step is Step.BESIDE:
                self._put_beside(copy, path, taken, done)
            elif step is Step.FORGET:
                del self._known[path]
            elif step is not Step.NONE:
                (inward if step is Step.IN else outward).append(path)
        if done.beside:  # what was moved is looked at first
            moved = {path for path, _ in done.beside}
            self._known = {path: both for path, both in self._known.items() if not _is_in(moved, path)}
        else:
            self._carry(outward, (copy, ours), (host, theirs), done, on_host=True)
            self._carry(inward, (host, theirs), (copy, ours), done, on_host=False)
        return done

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
        done: _Round,
        *,
        on_host: bool,
    ) -> None:
        """Removals first, the deepest first, and whatever stands in the way of another kind; then the rest."""
        carrier = self._carrier
        for path in reversed(paths):
            wanted, there = source[1].get(path), target[1].get(path)
            if there is not None and (wanted is None or wanted.kind != there.kind):
                with _noted(path, done):
                    carrier.remove(target[0], path, there, on_host=on_host, may_stay=wanted is None)
            if wanted is None and path not in done.left:
                self._known.pop(path, None)
        put = carrier.put_on_host if on_host else carrier.put_in_copy
        for path in paths:
            wanted, there = source[1].get(path), target[1].get(path)
            if wanted is None or path in done.left:
                continue
            with _noted(path, done):
                same_kind = there is not None and there.kind == wanted.kind
                both = put(source[0], target[0], path, wanted, there if same_kind else None)
                if both is not None:
                    self._known[path] = both


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
