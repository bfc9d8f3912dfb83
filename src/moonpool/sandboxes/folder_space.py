"""Ends a sandbox whose code fills the file system of an attached folder: no quota of ours holds there.

One file is bounded by RLIMIT_FSIZE; here is looked, twice a second, at the bytes and files that are left for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.host_folders import FREE_BYTES_MIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.sandboxes.host_folders import HostFolders

_PAUSE_S: Final = 0.5
_LEFT_BYTES_MIN: Final = FREE_BYTES_MIN // 2
_LEFT_FILES_MIN: Final = 0.02
"""Of all files that the file system can hold."""
_log = logging.getLogger(__name__)


class SpaceWatch:
    """Watches the folders of one sandbox until `stop`."""

    def __init__(self, folders: HostFolders, copies: Path | None, kill: Callable[[], None]) -> None:
        self._paths = [folder.path for folder in folders.shown if folder.writable]
        self._paths += [] if copies is None else [copies]
        self._kill = kill
        self.is_full = False
        self._timer: asyncio.TimerHandle | None = None
        if self._paths:
            self._look()

    def _look(self) -> None:
        try:
            self.is_full = any(map(_is_full, self._paths))
        except OSError as error:  # removed or unmounted: its files are still there for the sandbox
            _log.warning("the free space of an attached folder is not watched any more: %s", error)
            return
        if self.is_full:
            self._kill()
        else:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._look)

    def stop(self) -> None:
        """The sandbox has ended."""
        if self._timer is not None:
            self._timer.cancel()


def _is_full(path: Path) -> bool:
    """Whether an ordinary user may write little more there. Raises OSError."""
    space = os.statvfs(path)
    few = space.f_files > 0 and space.f_favail < space.f_files * _LEFT_FILES_MIN  # 0: they are not counted
    return few or space.f_bavail * space.f_frsize < _LEFT_BYTES_MIN
