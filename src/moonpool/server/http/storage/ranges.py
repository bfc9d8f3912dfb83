"""Which bytes of a file a request is for (RFC 9110 §14). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from moonpool.core.errors import Fault, MoonpoolError

_ONE: Final = re.compile(r"bytes=[ \t]*([0-9]{0,19})-([0-9]{0,19})[ \t]*", re.ASCII | re.IGNORECASE)


class RangeError(MoonpoolError):
    """The range that was asked for begins behind the end of the file (HTTP 416)."""

    code = "range_unsatisfiable"
    fault = Fault.CALLER

    def __init__(self, size: int) -> None:
        super().__init__(f"the range begins behind the end of the file, which has {size:,} bytes")
        self.size = size


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `start` to before `end`."""

    start: int
    end: int


def wanted_range(header: str | None, if_range: str | None, *, size: int, etag: str) -> ByteRange | None:
    """The part that is wanted; None: the whole file, also for several ranges and what is none. Raises RangeError.

    `if_range`: only if the file is still the one with this `etag`; a date is not known well enough to compare.
    """
    match = None if header is None else _ONE.fullmatch(header)
    if match is None or (if_range is not None and if_range.strip() != etag):
        return None
    first, last = match.groups()
    if not first:
        if not last:
            return None
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= size:
        raise RangeError(size)
    return ByteRange(start, end)
