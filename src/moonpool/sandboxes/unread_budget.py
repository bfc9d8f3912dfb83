"""What all sandboxes of this host process together have been sent and have not read: one budget for the host's memory.

Each sandbox has a limit of its own (`link`), which may be large, because many calls at once may return much before a
guest reads. A hundred guests that never read would hold a hundred times that, so above the budget one after the other
is ended. Which one, in this order:

1. of the scope for which most is held: no tenant pays while another holds more, whatever its sandboxes do;
2. in it, one of those that have read nothing for some seconds, if there are any;
3. of these the one that holds most.

Whoever was sent the last byte, or most of all at this moment, may be an honest reader of a large result.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

UNREAD_BYTES_MAX: Final = 1024 * 1024 * 1024
STALLED_S: Final = 5.0
"""Whoever has read nothing for so long is taken for one that does not read."""


class Reader(Protocol):
    """One sandbox's end that is sent things."""

    @property
    def scope(self) -> str:
        """The tenant whose sandbox it is."""
        ...

    def give_up(self) -> None:
        """End the sandbox: it does not read, and the host cannot keep more."""
        ...


class _Held(NamedTuple):
    size: int  # bytes
    read_at: float  # when something was read last, or the first byte was held


_NOTHING: Final = _Held(0, 0.0)


class UnreadBudget:
    """Counts per reader. INVARIANT: a reader that is closed is forgotten, so what it held counts no more."""

    def __init__(self, bytes_max: int = UNREAD_BYTES_MAX, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes_max, self._clock = bytes_max, clock
        self._held: dict[Reader, _Held] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes held for all readers."""
        return self._total

    def hold(self, reader: Reader, count: int) -> None:
        """Say how much is held for `reader` now; give up readers while all together hold too much."""
        before = self._held.get(reader, _NOTHING)
        if count == before.size:
            return
        self._total += count - before.size
        if count:
            more = 0 < before.size < count
            self._held[reader] = _Held(count, before.read_at if more else self._clock())
        else:
            self._held.pop(reader, None)
        while self._total > self._bytes_max:
            chosen = self._choose()
            self._total -= self._held.pop(chosen).size
            chosen.give_up()

    def _choose(self) -> Reader:
        """Whom to end."""
        scopes: Counter[str] = Counter()
        for reader, held in self._held.items():
            scopes[reader.scope] += held.size
        ((largest, _),) = scopes.most_common(1)
        long_ago = self._clock() - STALLED_S

        def guilt(reader: Reader) -> tuple[bool, int]:
            held = self._held[reader]
            return (held.read_at <= long_ago, held.size)

        return max((reader for reader in self._held if reader.scope == largest), key=guilt)
