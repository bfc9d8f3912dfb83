"""Ends a sandbox whose code fills the file system of an attached folder: no quota of ours holds there.

One file is bounded by RLIMIT_FSIZE; here is looked, twice a second, at the bytes and files that are left for everybody.
By a thread of its own for each sandbox: a file server that does not answer holds up nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Final

from moonpool.sandboxes.folder_binding import open_without_links
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
    """Of the folders of one sandbox. They are held open: each stays what it is when it is moved or removed."""

    def __init__(self, folders: HostFolders, copies: Path | None) -> None:
        """Blocks. Raises OSError."""
        self.is_full = False
        self._stopped = threading.Event()
        self._watched: dict[Path, int] = {}
        with contextlib.ExitStack() as stack:
            for path in (*(one.path for one in folders.shown if one.writable), *filter(None, [copies])):
                self._watched[path] = open_without_links(path)
                stack.callback(os.close, self._watched[path])
            self._opened = stack.pop_all()

    def start(self, kill: Callable[[], None]) -> None:
        """Watch until `stop`, and `kill` the sandbox, in this event loop, when a folder is full."""
        if self._watched:
            loop, opened = asyncio.get_running_loop(), self._opened.pop_all()
            threading.Thread(target=self._watch, args=(opened, loop, kill), name="moonpool-space", daemon=True).start()

    def stop(self) -> None:
        """The sandbox has ended, or never began."""
        self._stopped.set()
        self._opened.close()

    def _watch(self, opened: contextlib.ExitStack, loop: asyncio.AbstractEventLoop, kill: Callable[[], None]) -> None:
        def end() -> None:
            if not self._stopped.is_set():
                self.is_full = True
                kill()

        with opened:
            while not self._is_over():
                if self._stopped.wait(_PAUSE_S):
                    return
        with contextlib.suppress(RuntimeError):  # the loop is closed, and every sandbox of it
            loop.call_soon_threadsafe(end)

    def _is_over(self) -> bool:
        """Whether a folder is full. SECURITY: or none can be looked at: nothing bounds what code writes there."""
        for path, fd in tuple(self._watched.items()):
            try:
                if _is_full(fd):
                    return True
            except OSError as error:
                _log.warning("the free space of the attached folder %s is not watched any more: %s", path, error)
                del self._watched[path]
        return not self._watched


def _is_full(fd: int) -> bool:
    """Whether an ordinary user may write little more there. Raises OSError."""
    space = os.statvfs(fd)
    few = space.f_files > 0 and space.f_favail < space.f_files * _LEFT_FILES_MIN  # 0: they are not counted
    return few or space.f_bavail * space.f_frsize < _LEFT_BYTES_MIN
