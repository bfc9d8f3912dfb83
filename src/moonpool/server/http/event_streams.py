"""Messages on their way to a client as server-sent events, kept for a while so that a broken stream can be resumed.

A stream has at most one reader, the newest: a client that resumes takes it over from a connection that the network has
not yet reported as broken. An event is kept after it was sent, or while nobody reads; what is kept is bounded by count,
bytes and age for all streams of one caller together. What a reader has not had yet is never dropped: the sender waits.

SECURITY: a log belongs to one caller, and an id is found only for the session that it was given to.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

KEPT_COUNT_MAX: Final = 1000
KEPT_BYTES_MAX: Final = 4 * 1024**2
KEPT_S: Final = 300.0
UNREAD_MAX: Final = 64
KEEP_ALIVE_S: Final = 15.0
_EVENT_ID: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})", re.ASCII)
_KEEP_ALIVE: Final = b": keep-alive\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    """One message, encoded."""

    number: int
    line: bytes


class EventLog:
    """The streams of one caller."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._numbers = itertools.count(1)
        self._streams: dict[int, EventStream] = {}
        self._kept: deque[tuple[float, EventStream, Event]] = deque()
        self._kept_bytes = 0

    def open(self, session_id: str) -> EventStream:
        stream = EventStream(self, next(self._numbers), session_id)
        self._streams[stream.number] = stream
        return stream

    def find(self, event_id: str, session_id: str) -> tuple[EventStream, int] | None:
        """The stream of this event, and the event's number in it; None: not of this session, or no longer kept."""
        self._forget_old()
        parts = _EVENT_ID.fullmatch(event_id)
        stream = self._streams.get(int(parts[1])) if parts is not None else None
        if parts is None or stream is None or stream.session_id != session_id:
            return None
        number = int(parts[2])
        return (stream, number) if stream.can_resume(number) else None

    def keep(self, stream: EventStream, event: Event) -> None:
        """Keep what was sent, or what nobody reads now, and make room for it."""
        self._kept.append((self._clock(), stream, event))
        self._kept_bytes += len(event.line)
        self._forget_old()

    def forget(self, stream: EventStream) -> None:
        """Its messages were answered in another way."""
        self._streams.pop(stream.number, None)

    def forget_session(self, session_id: str) -> None:
        for stream in [one for one in self._streams.values() if one.session_id == session_id]:
            self.forget(stream)
            stream.end()
        left = [entry for entry in self._kept if entry[1].session_id != session_id]
        self._kept_bytes -= sum(len(event.line) for _, stream, event in self._kept if stream.session_id == session_id)
        self._kept = deque(left)

    def _forget_old(self) -> None:
        oldest = self._clock() - KEPT_S
        while self._kept and (
            len(self._kept) > KEPT_COUNT_MAX or self._kept_bytes > KEPT_BYTES_MAX or self._kept[0][0] < oldest
        ):
            _, stream, event = self._kept.popleft()
            self._kept_bytes -= len(event.line)
            stream.drop(event)
            if stream.is_spent:
                self.forget(stream)


class EventStream:
    """The messages of one stream in their order."""

    def __init__(self, log: EventLog, number: int, session_id: str) -> None:
        self.number, self.session_id = number, session_id
        self._log = log
        self._events: deque[Event] = deque()
        self._count = 0  # events so far
        self._sent = 0  # the newest that a reader has had
        self._readers = 0
        self._reader: int | None = None  # the one that reads now
        self._changed = asyncio.Event()
        self._read = asyncio.Event()
        self.ended = False

    @property
    def is_read(self) -> bool:
        return self._reader is not None

    @property
    def is_spent(self) -> bool:
        """Nothing will come of it any more."""
        return self.ended and not self._events and self._reader is None

    @property
    def unread(self) -> list[Event]:
        return [event for event in self._events if event.number > self._sent]

    def can_resume(self, number: int) -> bool:
        """Whether all that followed this event is still here."""
        oldest = self._events[0].number if self._events else self._count + 1
        return oldest - 1 <= number <= self._count

    async def send(self, line: bytes) -> None:
        """Add a message; waits while its reader is far behind."""
        while self._reader is not None and self._count - self._sent >= UNREAD_MAX:
            self._read.clear()
            await self._read.wait()
        if self.ended:
            return
        self._count += 1
        event = Event(self._count, line)
        self._events.append(event)
        if self._reader is None:
            self._sent = self._count
            self._log.keep(self, event)
        self._changed.set()

    def end(self) -> None:
        self.ended = True
        self._changed.set()
        self._read.set()
        if self.is_spent:
            self._log.forget(self)

    def forget(self) -> None:
        """It ends, and nobody will resume it."""
        self._log.forget(self)
        self._events.clear()
        self.end()

    def drop(self, event: Event) -> None:
        """It is not kept any more; they go in their order."""
        if self._events and self._events[0] is event:
            self._events.popleft()

    def attach(self) -> int:
        """Become the reader; the one before reads nothing more."""
        self._readers += 1
        self._reader = self._readers
        self._changed.set()
        return self._readers

    def detach(self, reader: int) -> None:
        """Stop reading. What comes from now on is kept for one that resumes."""
        if self._reader != reader:
            return
        unread, self._reader, self._sent = self.unread, None, self._count
        for event in unread:
            self._log.keep(self, event)
        self._read.set()
        if self.is_spent:
            self._log.forget(self)

    async def wait(self, reader: int, seconds: float) -> bool:
        """Wait for something unread or the end; False when the time is over, or another reads now."""
        try:
            async with asyncio.timeout(seconds):
                while self._reader == reader and not self.ended and self._count == self._sent:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return self._reader == reader

    def sent(self, event: Event) -> None:
        """The reader has had it."""
        self._sent = event.number
        self._log.keep(self, event)
        self._read.set()

    async def frames(self, reader: int, *, after: int | None = None, prime: bool = False) -> AsyncGenerator[bytes]:
        """What the reader is sent: with `after` what followed that event, else what is unread; then all that comes.

        `prime` begins with an id, so that a client can resume before it has heard anything. Detach afterwards.
        """
        if prime:
            yield b"id: %d-%d\nretry: 1000\ndata: \n\n" % (self.number, self._sent)
        if after is not None:
            for event in [one for one in self._events if after < one.number <= self._sent]:
                yield self._frame(event)
        while self._reader == reader:
            for event in self.unread:
                yield self._frame(event)
                self.sent(event)
            if self.ended and not self.unread:
                return
            if not await self.wait(reader, KEEP_ALIVE_S) and self._reader == reader:
                yield _KEEP_ALIVE

    def _frame(self, event: Event) -> bytes:
        return b"id: %d-%d\nevent: message\ndata: %s\n\n" % (self.number, event.number, event.line.rstrip(b"\n"))
