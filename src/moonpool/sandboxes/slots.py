"""Slots: the folders through which wrapper trees appear in live sandboxes.

A slot is a host folder that one sandbox sees, read-only, as /wrappers. Publishing makes a copy of hard links of a tree
inside the slot and then swaps the symbolic link `current`, so a sandbox sees the old tree or the new one, never half of
one. A tree that is still imported stays where it is.

Packages that a session installs appear in the same way as `packages`: several folders as one, of links.

A slot whose sandbox is gone and that showed one tree only serves the next sandbox that is to see just that tree: its
folders and links cost a fifth of what the host does for a short execution, and two hops to worker threads.

SECURITY: the host writes here and never reads back; nothing in a sandbox can write to a slot, or be in two at once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.sandboxes.base import TreeRef

_CURRENT = "current"
_PACKAGES = "packages"
_SPARES_MAX = 8  # what ends at about the same time; each holds the folders and links of one tree


class SlotFolder:
    """The slots of one scope, below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._doomed = root.parent / "doomed"  # slots being removed; no outer sandbox sees them
        self._spare = root.parent / "spare"  # slots ready for a sandbox; no outer sandbox sees them either
        self._spares: dict[str, str] = {}  # slot -> digest of the one tree in it, the oldest first
        self._publishing = threading.Lock()  # worker threads publish
        self._mixed: set[str] = set()  # slots in which there is, or may be, more than one whole tree
        self._removals: dict[str, asyncio.Future[None]] = {}
        self._shown: dict[str, str] = {}  # slot -> digest of the tree it shows
        self._packages: dict[str, str] = {}  # slot -> digest of the packages it shows
        root.mkdir(parents=True, exist_ok=True)
        for hidden in (self._doomed, self._spare):
            hidden.mkdir(exist_ok=True, mode=0o700)
        for folder in (root, root.parent):  # ours; sandbox uids pass through, whatever the umask is
            folder.chmod(0o755)

    def open(self, name: str, tree: TreeRef | None) -> asyncio.Future[None]:
        """Make a slot that shows `tree` when the future is done. Raises OSError."""
        if tree is not None and self._reuse(name, tree.digest):
            return _done()
        self.create(name)
        return _done() if tree is None else self._publish_soon(name, tree)

    def _reuse(self, name: str, digest: str) -> bool:
        spare = next((spare for spare, shown in self._spares.items() if shown == digest), None)
        if spare is None:
            return False
        del self._spares[spare]
        try:
            os.rename(f"{self._spare}/{spare}", f"{self.root}/{name}")  # noqa: PTH104  twice per sandbox
        except OSError:  # somebody removed it: a new one will do
            return False
        self._shown[name] = digest
        return True

    def create(self, name: str) -> Path:
        """Make an empty slot."""
        slot = self.root / name
        slot.mkdir()
        slot.chmod(0o755)
        return slot

    def shows(self, name: str, digest: str) -> bool:
        """Whether the slot shows the tree of this digest already."""
        return self._shown.get(name) == digest

    async def wait_all_removed(self) -> None:
        """Wait until nothing of any removed slot is left."""
        if self._removals:
            await asyncio.wait(set(self._removals.values()))

    def _publish_soon(self, name: str, tree: TreeRef) -> asyncio.Future[None]:
        """Publish on a worker thread. A tree that is on disk no more is left to whoever shows it."""
        return asyncio.get_running_loop().run_in_executor(None, self._publish_if_there, name, tree)

    def _publish_if_there(self, name: str, tree: TreeRef) -> None:
        try:
            self.publish(name, tree.path, tree.digest)
        except FileNotFoundError:
            if tree.path.exists():
                raise

    def publish(self, name: str, tree: Path, digest: str) -> None:
        """Show `tree` in slot `name`. A tree that is there already is only pointed at."""
        with self._publishing:
            if not self.shows(name, digest):
                if name in self._shown:
                    self._mixed.add(name)
                try:
                    self._swap(name, tree, digest)
                except BaseException:
                    self._mixed.add(name)  # a part of the tree may be in it
                    raise
                self._shown[name] = digest

    def show_file(self, name: str, file_name: str, content: bytes) -> None:
        """Show a file in slot `name`, beside the tree; replaces an earlier one at once. Raises OSError."""
        with self._publishing:
            self._mixed.add(name)  # SECURITY: it is for this sandbox; the next one gets another slot
            staging = self.root / name / f".{file_name}"
            staging.write_bytes(content)
            staging.chmod(0o644)
            staging.rename(staging.with_name(file_name))

    def _swap(self, name: str, tree: Path, digest: str) -> None:
        slot = self.root / name
        target = f"tree-{digest.rpartition(':')[2][:32]}"
        if not (slot / target).exists():
            staging = slot / f".{target}"
            shutil.rmtree(staging, ignore_errors=True)  # left by a failed attempt
            _link_tree(str(tree), str(staging))
            staging.rename(slot / target)
        _point(slot, _CURRENT, target)

    def shows_packages(self, name: str, digest: str) -> bool:
        """Whether the slot shows the packages of this digest already."""
        return self._packages.get(name, "") == digest

    def publish_packages(self, name: str, folders: Sequence[Path], digest: str) -> None:
        """Show all that is in `folders` as one folder in slot `name`. A file that several have is the same in each.

        Raises OSError, and what was shown before is shown still.
        """
        with self._publishing:
            if self.shows_packages(name, digest):
                return
            self._mixed.add(name)  # SECURITY: no other sandbox may see them
            slot, target = self.root / name, f"packages-{digest[:32]}"
            if not (slot / target).exists():
                staging = slot / f".{target}"
                try:
                    for folder in folders:
                        _link_tree(str(folder), str(staging), merge=True)
                    for folder in folders:  # who removes one takes its name first: with its name it was whole until now
                        folder.stat()
                    staging.rename(slot / target)
                except BaseException:
                    shutil.rmtree(staging, ignore_errors=True)
                    raise
            _point(slot, _PACKAGES, target)
            self._packages[name] = digest
            for old in slot.glob(f"{_PACKAGES}-*"):  # code reaches files by the link only
                if old.name != target:
                    shutil.rmtree(old, ignore_errors=True)

    def show_volume(self, name: str, volume: str, folder: Path) -> None:
        """Show `folder` as `volumes/VOLUME` in slot `name`, once. Raises OSError."""
        with self._publishing:
            self._mixed.add(name)  # SECURITY: no other sandbox may see it
            volumes = self.root / name / "volumes"
            volumes.mkdir(exist_ok=True)
            volumes.chmod(0o755)
            _link_tree(str(folder), str(volumes / volume))

    def remove(self, name: str) -> None:
        """Take a slot back. The sandbox that saw it is gone. What is not kept is unlinked on a worker thread."""
        if self._keep(name):
            if len(self._spares) > _SPARES_MAX:
                oldest = next(iter(self._spares))
                del self._spares[oldest]
                self._unlink_soon(self._spare / oldest)
        else:
            self._shown.pop(name, None)
            self._packages.pop(name, None)
            self._mixed.discard(name)
            self._unlink_soon(self.root / name)

    def _keep(self, name: str) -> bool:
        """Keep it for the next sandbox. SECURITY: only with one whole tree in it; the next one may not see another."""
        if name not in self._shown or not self._publishing.acquire(blocking=False):
            return False
        try:
            if name in self._mixed:
                return False
            os.rename(f"{self.root}/{name}", f"{self._spare}/{name}")  # noqa: PTH104
        except OSError:
            return False
        else:
            self._spares[name] = self._shown.pop(name)
            return True
        finally:
            self._publishing.release()

    def _unlink_soon(self, slot: Path) -> None:
        name = slot.name
        doomed = self._doomed / name
        try:
            slot.rename(doomed)
        except OSError:
            return  # it was never made, or the whole folder is gone already
        removal = asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, doomed, True)
        self._removals[name] = removal
        removal.add_done_callback(lambda _: self._removals.pop(name, None))

    async def wait_removed(self, name: str) -> None:
        """Wait until nothing of a removed slot is left, not even an open folder."""
        if (removal := self._removals.get(name)) is not None:
            await asyncio.wait({removal})


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


def _point(slot: Path, name: str, target: str) -> None:
    """Let the link `name` of the slot lead to `target` from now on, in one step."""
    link = slot / f".{name}"
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    link.rename(slot / name)


def _link_tree(source: str, target: str, *, merge: bool = False) -> None:
    """Make `target` a copy of links. `merge`: it may be there; files that it has already stay."""
    if not (merge and os.path.isdir(target)):  # noqa: PTH112  os.scandir's strings: this runs once per sandbox
        os.mkdir(target)  # noqa: PTH102
        os.chmod(target, 0o755)  # noqa: PTH101, S103  read by sandbox uids, whatever the umask is
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _link_tree(entry.path, f"{target}/{entry.name}", merge=merge)
            elif not (merge and os.path.exists(f"{target}/{entry.name}")):  # noqa: PTH110
                _link(entry.path, f"{target}/{entry.name}")


def _link(source: str, target: str) -> None:
    """A link, or a copy where the slots are on another file system, as with `moonpool serve --data-dir`."""
    try:
        os.link(source, target, follow_symlinks=False)  # SECURITY: a volume's links are a tenant's
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy(source, target, follow_symlinks=False)
