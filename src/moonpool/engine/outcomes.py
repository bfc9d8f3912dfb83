"""Envelopes of executions whose caller was gone when they ended, so that a person can still look them up.

One file per execution in a private folder, the newest `COUNT_MAX` and no older than `AGE_S_MAX`. They were redacted
before. Blocking: call from a worker thread. Several processes may write at once.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Final

from moonpool.store.private_files import private_folder, replace_private_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.core.json import JsonObject

COUNT_MAX: Final = 100
AGE_S_MAX: Final = 7 * 86_400.0
FILE_BYTES_MAX: Final = 8 * 1024**2
_RUN_ID: Final = re.compile(r"run_[0-9a-f]{32}")


class OutcomeStore:
    """Files below one private folder."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock

    def keep(self, run_id: str, envelope: JsonObject) -> None:
        """Write it, and remove what is too old or too much. Raises StoreFolderError, OSError."""
        content = json.dumps(envelope, separators=(",", ":")).encode()
        if len(content) > FILE_BYTES_MAX:
            raise OSError(27, "the envelope is too large to be kept")
        path = private_folder(self._folder) / self._name(run_id)
        replace_private_file(path, content, durable=False)  # a copy of what was: that it ended is in the journal
        self._tidy()

    def find(self, run_id: str) -> JsonObject | None:
        """The envelope of `run_id`, if it was kept and is not too old."""
        if _RUN_ID.fullmatch(run_id) is None:
            return None
        path = self._folder / self._name(run_id)
        try:
            if self._clock() - path.stat().st_mtime > AGE_S_MAX:
                return None
            found = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]

    def _tidy(self) -> None:
        ages: list[tuple[float, Path]] = []
        for path in self._folder.glob("run_*.json"):
            try:
                ages.append((self._clock() - path.stat().st_mtime, path))
            except OSError:
                continue  # another process was faster
        for place, (age_s, path) in enumerate(sorted(ages)):
            if place >= COUNT_MAX or age_s > AGE_S_MAX:
                path.unlink(missing_ok=True)

    @staticmethod
    def _name(run_id: str) -> str:
        assert _RUN_ID.fullmatch(run_id), "run ids are ours"
        return f"{run_id}.json"
