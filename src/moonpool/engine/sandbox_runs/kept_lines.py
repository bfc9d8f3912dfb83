"""Lines of one execution that can be read again, and how much memory those of an organisation may take. Pure.

INVARIANT: the newest line is always there. A reader holds one line at a time, so however slow it is, what has been
dropped meanwhile is gone.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moonpool.engine.sandbox_runs.base import RunEvent, SandboxOrder

ROOM_BYTES: int = 128 * 1024**2
"""What the streaming and asynchronous executions of one organisation may take in one process: orders and lines."""
LINES_BYTES_MAX: Final = 4 * 1024**2
"""Of one execution, beside its newest line."""
LINES_BYTES_LEAST: Final = 64 * 1024
"""Likewise, once its organisation's room is used up."""
_LINE_BYTES: Final = 400
"""Of a line without its text, as it was measured."""


class Room:
    """Of one organisation. Texts count as Python keeps them: up to 4 bytes for each character."""

    def __init__(self) -> None:
        self.used = 0

    def has(self, bytes_count: int) -> bool:
        return self.used + bytes_count <= ROOM_BYTES


class KeptLines:
    """Of one execution, by their consecutive numbers."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._lines: deque[RunEvent] = deque()
        self._bytes = 0

    def add(self, line: RunEvent) -> None:
        size = _line_bytes(line)
        self._lines.append(line)
        self._count(size)
        while len(self._lines) > 1 and self._bytes - size > self._kept_max:
            self._drop_oldest()

    @property
    def _kept_max(self) -> int:
        return LINES_BYTES_MAX if self._room.has(0) else LINES_BYTES_LEAST

    def after(self, seq: int) -> RunEvent | None:
        """The oldest that is kept of those behind `seq`."""
        if not self._lines or seq >= self._lines[-1].seq:
            return None
        return self._lines[max(0, seq + 1 - self._lines[0].seq)]

    def forget(self) -> None:
        """All but the newest, which is no longer counted: it goes with its last reader."""
        while len(self._lines) > 1:
            self._drop_oldest()
        self._count(-self._bytes)

    def _drop_oldest(self) -> None:
        self._count(-_line_bytes(self._lines.popleft()))

    def _count(self, bytes_count: int) -> None:
        self._bytes += bytes_count
        self._room.used += bytes_count


def order_bytes(order: SandboxOrder) -> int:
    """What an order takes while it waits and runs."""
    texts = (order.code, *order.variables.keys(), *order.variables.values())
    return _LINE_BYTES + sum(map(sys.getsizeof, texts))


def _line_bytes(line: RunEvent) -> int:
    result = line.body.get("result")
    texts = (line.body.get("data"), *(result.values() if isinstance(result, dict) else ()))
    return _LINE_BYTES + sum(sys.getsizeof(one) for one in texts if isinstance(one, str))
