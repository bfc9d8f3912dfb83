"""The newest output of an execution, to be read again from any offset: stdout and stderr in the order they came.

An offset counts bytes since the execution began. What is older than the window is gone from here; where a stream has
an artifact, that has all of it (`engine.output`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moonpool.core.errors import InputError

_SLACK_BYTES: Final = 64 * 1024
"""What may be kept beyond the bound, so that not every few bytes move all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPiece:
    """A part of an execution's output. Between the offset asked for and `start` nothing is kept any more."""

    asked: int
    start: int
    data: bytes
    total: int  # bytes of output so far

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.start + len(self.data)

    @property
    def missing(self) -> int:
        """Bytes after `asked` that are kept no more."""
        return self.start - self.asked


class OutputWindow:
    """Keeps at least the newest `bytes_max` bytes, and little more."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self._kept += data
        self.total += len(data)
        if len(self._kept) > self._bytes_max + _SLACK_BYTES:
            self._trim()

    def shrink(self, bytes_max: int) -> None:
        """Keep less from now on."""
        self._bytes_max = bytes_max
        self._trim()

    def read(self, offset: int, count: int) -> OutputPiece:
        """At most `count` bytes from `offset`, or from where the window begins. Raises InputError."""
        if not 0 <= offset <= self.total:
            raise InputError(f"the output has {self.total:,} bytes so far; give an offset from 0 to that")
        begin = self.total - len(self._kept)
        start = max(offset, begin)
        data = bytes(self._kept[start - begin : start - begin + count])
        return OutputPiece(asked=offset, start=start, data=data, total=self.total)

    def _trim(self) -> None:
        if len(self._kept) > self._bytes_max:
            del self._kept[: len(self._kept) - self._bytes_max]
