"""Requests without an answer yet: the client's ids outside, our own numbers inside; and batches.

INVARIANT: a number is never reused, so an answer to a cancelled request finds nothing here, even if the client has
reused its id. `1` and `"1"` are two ids (A-005).
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.server.mcp.messages import Payload, Request, RequestId


class Reply(Protocol):
    """Where the answer to one message of the client goes, and what the server sends because of it meanwhile."""

    @property
    def takes_requests(self) -> bool:
        """Whether the client can be asked something before its answer."""
        ...

    async def send(self, line: bytes, /) -> None:
        """Send one message, encoded."""
        ...

    def end(self) -> None:
        """Nothing follows: what needed an answer was answered or cancelled. Called once."""
        ...


@dataclass(slots=True)
class Batch:
    """Answers that are sent together when the last element is done."""

    reply: Reply
    open: int = 1  # counts the reading itself until all elements are read
    answers: list[Payload] = field(default_factory=list["Payload"])


@dataclass(frozen=True, slots=True)
class Waiting:
    """One request without an answer."""

    id: RequestId
    method: str
    reply: Reply
    batch: Batch | None


class InFlight:
    """The waiting requests of one connection."""

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

    def add(self, request: Request, reply: Reply, batch: Batch | None) -> int:
        """Add a request; returns our number for it."""
        number = next(self._numbers)
        self._waiting[number] = Waiting(request.id, request.method, reply, batch)
        self._number_of[_key(request.id)] = number
        self.idle.clear()
        return number

    def find(self, request_id: object) -> tuple[int, Waiting] | None:
        """The request to which the client gave `request_id`."""
        number = self._number_of.get(_key(request_id)) if isinstance(request_id, int | str) else None
        return None if number is None else (number, self._waiting[number])

    def reply_to(self, number: object) -> Reply | None:
        """Where what belongs to the request with our `number` goes; None if it is not waiting."""
        waiting = self._waiting.get(number) if isinstance(number, int) else None
        return None if waiting is None else waiting.reply

    def remove(self, number: object) -> Waiting | None:
        """Forget a request; None if it is not waiting."""
        waiting = self._waiting.pop(number, None) if isinstance(number, int) else None
        if waiting is not None:
            del self._number_of[_key(waiting.id)]
            if not self._waiting:
                self.idle.set()
        return waiting

    def clear(self) -> list[Waiting]:
        """Forget all requests; returns them."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._number_of.clear()
        self.idle.set()
        return waiting


def _key(request_id: RequestId) -> tuple[type, RequestId]:
    return (type(request_id), request_id)
