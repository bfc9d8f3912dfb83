"""What arrived from a process, as lines: taken apart when somebody wants the next one. No I/O.

INVARIANT: what arrives costs the event loop nothing but its place here. A server that sends nothing but line breaks
makes a quarter of a million lines of one piece, and nobody may have to wait until they are found.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from moonpool.net.message_limits import HEAD_BYTES, TAIL_BYTES

_PIECE_BYTES: Final = 64
"""What a piece that waits costs at least: a server may write single bytes."""


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line that was discarded; only its two ends are left."""

    head: bytes
    tail: bytes


class ArrivedLines:
    """`queued_bytes` have arrived and were not looked at."""

    def __init__(self, line_bytes_max: int) -> None:
        self.queued_bytes = 0
        self._line_bytes_max = line_bytes_max
        self._arrived: deque[bytes] = deque()
        self._at = 0  # where the next line begins in the first of them
        self._partial = bytearray()
        self._oversized: OversizedLine | None = None

    def add(self, data: bytes) -> None:
        self._arrived.append(data)
        self.queued_bytes += max(len(data), _PIECE_BYTES)

    def next(self, *, ended: bool = False) -> bytes | OversizedLine | None:
        """The next whole line without its end, or what is left when nothing more will come."""
        while self._arrived:
            piece = self._arrived[0]
            end = piece.find(b"\n", self._at)
            tail = piece[self._at : end if end >= 0 else None]
            self._at = end + 1
            if end < 0 or self._at == len(piece):
                self._arrived.popleft()
                self._at = 0
                self.queued_bytes -= max(len(piece), _PIECE_BYTES)
            if end >= 0:
                return self._whole(tail)
            self._partial += tail
            if len(self._partial) > self._line_bytes_max:
                self._discard_partial()
        return self._whole(b"") if ended and (self._partial or self._oversized) else None

    def _whole(self, tail: bytes) -> bytes | OversizedLine:
        line: bytes | OversizedLine
        if self._oversized is not None or len(self._partial) + len(tail) > self._line_bytes_max:
            self._partial += tail
            self._discard_partial()
            line, self._oversized = self._oversized or OversizedLine(b"", b""), None
        else:
            line = bytes(self._partial) + tail if self._partial else tail
        self._partial.clear()
        return line

    def _discard_partial(self) -> None:
        head, before = (self._oversized.head, self._oversized.tail) if self._oversized else (b"", b"")
        tail = (before + bytes(self._partial[-TAIL_BYTES:]))[-TAIL_BYTES:]
        self._oversized = OversizedLine(head or bytes(self._partial[:HEAD_BYTES]), tail)
        self._partial.clear()
