"""Slots: the folders through which wrapper trees appear in live sandboxes.

A slot is a host folder that one sandbox sees, read-only, as /wrappers. Publishing makes a copy of hard links of a tree
inside the slot and then swaps the symbolic link `current`, so a sandbox sees the old tree or the new one, never half of
one. A tree that is still imported stays where it is.

SECURITY: the host writes here and never reads back; nothing in a sandbox can write to a slot.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.sandboxes.base import TreeRef

_CURRENT = "current"


class SlotFolder:
    """The slots of one scope, below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._doomed = root.parent / "doomed"  # slots on their way out; no wall sees them
        self._publishing = threading.Lock()  # worker threads publish
        self._removals: dict[str, asyncio.Future[None]] = {}
        self._shown: dict[str, str] = {}  # slot -> digest of the tree it shows
        root.mkdir(parents=True, exist_ok=True)
        self._doomed.mkdir(exist_ok=True, mode=0o700)
        for folder in (root, root.parent):  # ours; sandbox uids pass through, whatever the umask is
            folder.chmod(0o755)

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

    def publish_soon(self, name: str, tree: TreeRef | None) -> asyncio.Future[None]:
        """Publish on a worker thread, if there is a tree. One that is on disk no more is left to whoever shows it."""
        loop = asyncio.get_running_loop()
        if tree is None:
            nothing: asyncio.Future[None] = loop.create_future()
            nothing.set_result(None)
            return nothing
        return loop.run_in_executor(None, self._publish_if_there, name, tree)

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
                self._swap(name, tree, digest)
                self._shown[name] = digest

    def _swap(self, name: str, tree: Path, digest: str) -> None:
        slot = self.root / name
        target = f"tree-{digest.rpartition(':')[2][:32]}"
        if not (slot / target).exists():
            staging = slot / f".{target}"
            shutil.rmtree(staging, ignore_errors=True)  # left by a failed attempt
            _link_tree(str(tree), str(staging))
            staging.rename(slot / target)
        link = slot / f".{_CURRENT}"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        link.rename(slot / _CURRENT)

    def remove(self, name: str) -> None:
        """Delete a slot. The sandbox that saw it is gone. Its files are unlinked on a worker thread."""
        self._shown.pop(name, None)
        doomed = self._doomed / name
        try:
            (self.root / name).rename(doomed)
        except OSError:
            return  # it was never made, or the whole folder is gone already
        removal = asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, doomed, True)
        self._removals[name] = removal
        removal.add_done_callback(lambda _: self._removals.pop(name, None))

    async def wait_removed(self, name: str) -> None:
        """Wait until nothing of a removed slot is left, not even an open folder."""
        if (removal := self._removals.get(name)) is not None:
            await asyncio.wait({removal})


def _link_tree(source: str, target: str) -> None:
    os.mkdir(target)  # noqa: PTH102  os.scandir's strings: this runs once per sandbox
    os.chmod(target, 0o755)  # noqa: PTH101, S103  read by sandbox uids, whatever the umask is
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _link_tree(entry.path, f"{target}/{entry.name}")
            else:
                os.link(entry.path, f"{target}/{entry.name}")
