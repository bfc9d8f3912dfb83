"""What was accepted of each server's tools, on disk beside the cached listings, so that a restart accepts nothing.

One file per server, under the same key as its listing (`moonpool.tools.listing_cache`). Unlike that cache this is no
convenience: a file that is there but cannot be read is told as damaged, never as missing. Several processes may change
one file; each change is made under a lock on what the file says then. Blocking: call from a worker thread.

SECURITY: the content is untrusted text from servers and is typed again on reading; the folder is private.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moonpool.features.drift.model.acceptance import Accepted
from moonpool.store.private_files import (
    StoreFolderError,
    create_private_file,
    private_folder,
    replace_private_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from moonpool.core.json import JsonObject, JsonValue

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 128 * 1024**2
_KEY: Final = re.compile(r"(?:sha256:)?[0-9a-f]{64}")


class AcceptanceStore:
    """Files below one private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> Accepted | None:
        """What was accepted under `key`; None when nothing ever was."""
        path = self._path(key)
        try:
            if path.stat().st_size > FILE_BYTES_MAX:
                return Accepted(damaged=True)
            stored: JsonValue = json.loads(path.read_bytes())
            if not isinstance(stored, dict) or stored.get("format") != FORMAT or stored.get("key") != key:
                return Accepted(damaged=True)
            return Accepted.from_json(stored.get("accepted"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            return Accepted(damaged=True)

    def update(self, key: str, change: Callable[[Accepted | None], Accepted]) -> bool:
        """Replace what is kept by what `change` makes of it; False when it cannot be kept. `change` runs once."""
        try:
            private_folder(self._folder)
            locked = self._locked(key)
            locked.__enter__()
        except (OSError, StoreFolderError):
            change(self.load(key))
            return False
        try:
            before = self.load(key)
            after = change(before)
            return after == before or self._save(key, after)
        finally:
            locked.__exit__(None, None, None)

    def stamp(self, key: str) -> tuple[int, int, int]:
        """Changes whenever the file does."""
        try:
            state = self._path(key).stat()
        except OSError:
            return (0, 0, 0)
        return (state.st_mtime_ns, state.st_ino, state.st_size)

    def _save(self, key: str, accepted: Accepted) -> bool:
        stored: JsonObject = {"format": FORMAT, "key": key, "accepted": accepted.to_json()}
        content = json.dumps(stored, separators=(",", ":")).encode()
        if len(content) > FILE_BYTES_MAX:
            return False
        try:
            replace_private_file(self._path(key), content, durable=True)
        except OSError:
            return False
        return True

    @contextmanager
    def _locked(self, key: str) -> Generator[None]:
        """Hold the lock of `key`; the kernel lets go of it when the process dies."""
        path = self._path(key).with_suffix(".lock")
        create_private_file(path)
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError("the key is a SHA-256 digest")
        return self._folder / f"{key.removeprefix('sha256:')}.json"
