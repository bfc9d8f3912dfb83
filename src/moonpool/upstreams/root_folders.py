"""The folders that one server may know of, now: those of its configuration, and what was added or removed since.

A root is shown as it really is (links resolved) and only while it is there. Servers of versions with a handshake are
told when that changes; `watch` looks for folders that came or went. A 2026-07-28 server asks when it wants to know.

SECURITY: nothing is exposed that was not named for this very server; `configuration.roots` refuses the whole file
system.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from moonpool.configuration.roots import root_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.json import JsonValue

LOOK_S: Final = 5.0
"""How often is checked whether a folder still exists."""
FOLDER_COUNT_MAX: Final = 256


class RootFolders:
    """One server's. Used on one event loop."""

    def __init__(self, server_id: str, folders: tuple[str, ...] = ()) -> None:
        self._server_id = server_id
        self._folders = dict.fromkeys(folders)
        self._moved = anyio.Event()

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(self._folders)

    def add(self, folder: str) -> None:
        """Let the server know of a folder (a path or a `file://` address). Raises ConfigError."""
        path = root_path(folder, f"server {self._server_id!r}", "roots")
        if len(self._folders) < FOLDER_COUNT_MAX:
            self._folders[path] = None
        self._move()

    def remove(self, folder: str) -> bool:
        """Returns whether it was there. The server may remember it. Raises ConfigError."""
        path = root_path(folder, f"server {self._server_id!r}", "roots")
        found = path in self._folders
        self._folders.pop(path, None)
        self._move()
        return found

    async def present(self) -> list[JsonValue]:
        """What `roots/list` is answered with."""
        return await anyio.to_thread.run_sync(_present, self.folders)

    async def watch(self, seen: list[JsonValue], notify: Callable[[], Awaitable[None]]) -> None:
        """Call `notify` whenever `present` differs from `seen` or from its last value; never ends."""
        while True:
            moved = self._moved
            with anyio.move_on_after(LOOK_S):
                await moved.wait()
            if (now := await self.present()) != seen:
                seen = now
                await notify()

    def _move(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()


def _present(folders: tuple[str, ...]) -> list[JsonValue]:
    """The folders that exist now, links resolved, so that a root says where it really is (D-028)."""
    found: list[JsonValue] = []
    for folder in folders:
        try:
            real = Path(folder).resolve(strict=True)
            there = real.is_dir()
        except (OSError, RuntimeError):
            continue
        if there:
            found.append({"uri": real.as_uri(), "name": real.name or str(real)})
    return found
