"""The folder of one host process: slots and the small /etc of its sandboxes. Gone when the process is.

Each process holds a lock on its folder. When it is killed, its reaper removes the folder
(`moonpool.sandboxes.reaper`); when both were killed, there is a folder and no lock, and the next one that starts
removes it, and whatever bubblewrap may have left of it. The parent is locked while that happens and while a folder is
made, so that nobody takes a new folder, whose lock is not held yet, for an abandoned one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moonpool.sandboxes.folder_trees import remove_tree
from moonpool.sandboxes.leftovers import end_outer_sandboxes_naming
from moonpool.store.private_files import unusable_data_folder

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_LOCK = "lock"


@contextmanager
def run_folder(parent: Path) -> Generator[Path]:
    """Make a fresh folder below `parent`, removed on exit; remove what dead processes left. Raises StoreFolderError."""
    try:
        folder, lock = _make(parent)
    except OSError as exc:
        raise unusable_data_folder(parent, exc) from exc
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(parent: Path) -> tuple[Path, int]:
    """The folder, and the descriptor that locks it."""
    parent.mkdir(parents=True, exist_ok=True)
    os.chmod(parent, 0o711)  # noqa: PTH101, S103  sandbox uids pass through; names below are random
    with _locked(parent):
        _remove_abandoned(parent)
        folder = parent / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        folder.chmod(0o755)  # whatever the umask is
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


@contextmanager
def _locked(parent: Path) -> Generator[None]:
    """Hold the parent's lock. Others hold it for milliseconds."""
    lock = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.iterdir():
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # its maker may have died
        except OSError:
            continue  # not ours
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_outer_sandboxes_naming(folder)  # there are none unless its reaper was killed too
            remove_tree(folder)
        except BlockingIOError:
            pass  # its process lives
        finally:
            os.close(lock)
