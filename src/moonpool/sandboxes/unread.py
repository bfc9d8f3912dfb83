"""What all sandboxes of this host process together have been sent and have not read: one budget for the host's memory.

Each sandbox has a limit of its own (`link`), which may be large, because many calls at once may return much before a
guest reads. A hundred guests that never read would hold a hundred times that. Above the budget the one that holds most
is ended; whoever was sent the last byte may be an honest neighbour.
"""

from __future__ import annotations

from typing import Final, Protocol

UNREAD_BYTES_MAX: Final = 1024 * 1024 * 1024


class Reader(Protocol):
    """One sandbox's end that is sent things."""

    def give_up(self) -> None:
        """End the sandbox: it does not read, and the host cannot keep more."""
        ...


class UnreadBudget:
    """Counts per reader. INVARIANT: a reader that is closed is forgotten, so what it held counts no more."""

    def __init__(self, bytes_max: int = UNREAD_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: dict[Reader, int] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes held for all readers."""
        return self._total

    def hold(self, reader: Reader, count: int) -> None:
        """Say how much is held for `reader` now; give up readers while all together hold too much."""
        before = self._held.get(reader, 0)
        if count == before:
            return
        self._total += count - before
        if count:
            self._held[reader] = count
        else:
            self._held.pop(reader, None)
        while self._total > self._bytes_max:
            largest = max(self._held, key=self._held.__getitem__)
            self._total -= self._held.pop(largest)
            largest.give_up()
