"""How much the files that tenants keep may take on the disk together: one count for all of a process's tenants.

Each tenant has bounds of its own (`artifact_total_bytes_max`, `recording_bytes_max`, numbers of plans and approvals);
this is the bound above them. Who is about to write asks `take`. A thread looks at the disk when much was written since,
or room is short, and lets those tenants that have most give way until a quarter is free.

Several processes may share the disk: each counts what it found when it last looked and what it wrote since.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

_log = logging.getLogger(__name__)
_LOOK_SHARE: Final = 64  # who wrote so small a part of the bound looks what others have
_PAUSE_S: Final = 10.0  # between looks that found nothing to remove


class DiskRoom:
    """Bytes that may still be written. Used by any thread."""

    def __init__(self, bytes_max: int, sweep: Callable[[int, AbstractSet[str]], int]) -> None:
        """`sweep(bytes_max, spare)` removes what is oldest of those who have most, but of runs in `spare`.

        Until at most `bytes_max` are left; it returns how many are. Blocking.
        """
        self._max, self._sweep = bytes_max, sweep
        self.open_runs: set[str] = set()  # that go on; nothing of them is removed
        self._lock = threading.Lock()
        self._found = self._since = 0  # at the last look, and taken since
        self._next_look = 0.0
        self._looking: threading.Thread | None = None
        self._closed = False

    def take(self, count: int) -> str:
        """Count `count` bytes that are about to be written; or say, as part of a sentence, why they may not be."""
        with self._lock:
            fits = self._found + self._since + count <= self._max
            if fits:
                self._since += count
            self._look_if_due(short=not fits)
        if fits:
            return ""
        return f"what all tenants keep would be larger than {self._max // 1024**2:,} MiB (kept_bytes_max)"

    def give_back(self, count: int) -> None:
        """What was taken is not on the disk."""
        with self._lock:
            self._since -= count

    async def close(self) -> None:
        """Look no more, and wait for a look that goes on."""
        with self._lock:
            self._closed, looking = True, self._looking
        if looking is not None:
            await asyncio.to_thread(looking.join)

    def _look_if_due(self, *, short: bool) -> None:
        many = self._since > self._max // _LOOK_SHARE
        short = short or self._found + self._since > self._max * 3 // 4
        if self._closed or self._looking is not None or not (many or (short and time.monotonic() >= self._next_look)):
            return
        thread = threading.Thread(target=self._look, name="moonpool-disk-room", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the machine lets us start no more
            _log.warning("what tenants keep on the disk cannot be looked at: %s", error)
        else:
            self._looking = thread

    def _look(self) -> None:
        before, found = self._since, None
        try:
            found = self._sweep(self._max * 3 // 4, frozenset(self.open_runs))
        except Exception as error:  # noqa: BLE001  whatever it is: nothing is written above the bound meanwhile
            _log.warning("what tenants keep on the disk cannot be looked at: %s", error)
        with self._lock:
            if found is not None:
                self._found, self._since = found, self._since - before
            self._next_look, self._looking = time.monotonic() + _PAUSE_S, None
