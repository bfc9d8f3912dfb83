"""Requests that wait for their answers: the client's ids outside, numbers of ours inside; and batches.

INVARIANT: a number is given out once, so an answer to a request that was cancelled finds nothing here, also when the
client has used its id again. `1` and `"1"` are two ids (A-005).
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moonpool.server.mcp.messages import Payload, Request, RequestId


@dataclass(slots=True)
class Batch:
    """Answers that leave together, when the last open element is done."""

    open: int = 1  # one for the reading itself, until all elements are read
    answers: list[Payload] = field(default_factory=list["Payload"])


@dataclass(frozen=True, slots=True)
class Waiting:
    """One request without an answer."""

    id: RequestId
    method: str
    batch: Batch | None


class InFlight:
    """The requests of one connection that wait."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Waiting] = {}
        self._number_of: dict[tuple[type, RequestId], int] = {}
        self.idle = asyncio.Event()  # set while nothing waits
        self.idle.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request_id: RequestId) -> bool:
        return _key(request_id) in self._number_of

    def add(self, request: Request, batch: Batch | None) -> int:
        """The number under which `request` goes on."""
        number = next(self._numbers)
        self._waiting[number] = Waiting(request.id, request.method, batch)
        self._number_of[_key(request.id)] = number
        self.idle.clear()
        return number

    def find(self, request_id: object) -> tuple[int, Waiting] | None:
        """The request that the client calls `request_id`."""
        number = self._number_of.get(_key(request_id)) if isinstance(request_id, int | str) else None
        return None if number is None else (number, self._waiting[number])

    def remove(self, number: object) -> Waiting | None:
        """Forget a request; None when it is not there (any more)."""
        waiting = self._waiting.pop(number, None) if isinstance(number, int) else None
        if waiting is not None:
            del self._number_of[_key(waiting.id)]
            if not self._waiting:
                self.idle.set()
        return waiting


def _key(request_id: RequestId) -> tuple[type, RequestId]:
    return (type(request_id), request_id)
