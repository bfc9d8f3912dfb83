"""Checks that the files of an SQLite connection are still those at their paths.

SQLite keeps writing to a file that was removed or replaced: its descriptor stays valid, and the data is never read. For
a truncated file it trusts its cache. With write-ahead logging there are three files, and each can be lost separately:
the database, its log (`-wal`), and the index of the log (`-shm`), without which two processes write over each other's
records.

INVARIANT: while a connection is open, no other process removes or replaces the three in normal operation: SQLite does
so only with an exclusive lock, and every connection holds a shared one. The database never shrinks (nothing is deleted
from it, `VACUUM` is not used). The log shrinks only when all of it is in the database, after `PRAGMA
wal_checkpoint(TRUNCATE)`; other checkpoints only restart it. SECURITY: paths are examined by stat, never opened:
closing a descriptor would drop this process's locks on the file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_IDENTITY: Final = slice(1, 3)  # inode and device


class OpenedFiles:
    """The files of the database at `path` as they were when a connection had opened them. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._log = f"{path}-wal"
        paths = (str(path), self._log, f"{path}-shm")
        states = [os.stat(one) for one in paths]  # noqa: PTH116
        self._known = [(one, state[_IDENTITY]) for one, state in zip(paths, states, strict=True)]
        self._bytes = [state.st_size for state in states]
        self._log_bytes = self._bytes[1]  # at the last commit

    def fault(self) -> str:
        """What has happened to one of the files, or "". Call it while the connection may write."""
        sizes: list[int] = []
        for path, identity in self._known:
            try:
                state = os.stat(path)  # noqa: PTH116  three in each transaction
            except FileNotFoundError:
                return f"{path} was removed"
            except OSError as error:
                return f"{path} cannot be looked at: {error.strerror}"
            if state[_IDENTITY] != identity:
                return f"{path} was replaced by another file"
            sizes.append(state.st_size)
        if sizes[0] < self._bytes[0]:
            return f"{self._known[0][0]} was cut off ({sizes[0]:,} bytes are left of {self._bytes[0]:,})"
        self._bytes = sizes
        return ""

    @property
    def log_is_shorter(self) -> bool:
        """Whether `fault` found the log shorter than `note_log` did, due to a checkpoint or truncation."""
        return self._bytes[1] < self._log_bytes

    def note_log(self) -> None:
        """Remember the length of the log; call it after a commit."""
        try:
            self._log_bytes = os.stat(self._log).st_size  # noqa: PTH116
        except OSError:
            return  # `fault` will report it
