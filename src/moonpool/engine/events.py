"""One execution as a stream of events: its output as it comes, its calls, what it asks, its envelope.

`events` is for applications that have Moonpool inside them. The execution lives as long as the `with` block: who
leaves early ends it, and what it asked is withdrawn. It goes on while events wait to be read; a question waits for its
answer, until it expires.

INVARIANT: the last event of a stream is `RunEnded`, or the error that kept the code from running is raised instead.
SECURITY: output is redacted; like the texts of questions it is what code, servers and models wrote.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from moonpool.core.calls import CallEnded, CallProgress, CallStarted
from moonpool.engine.server_request_events import EventResponder, ServerQuestion
from moonpool.features.approvals.events import ApprovalQuestion
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection

    from moonpool.core.envelope import Envelope
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.features.approvals.events import EventApprover
    from moonpool.sandboxes.base import Stream

UNREAD_BYTES_MAX: Final = 1024**2
"""Output that is held for a reader who is slow. What is more is dropped from the stream, not from the envelope."""
UNREAD_CALL_BYTES_MAX: Final = 16 * 1024**2
"""Events of calls that are held for such a reader, some 60,000. What is more is counted in `CallEventsDropped`."""
_EVENT_BYTES: Final = 256  # that an event counts beside its text


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """Some of what the code printed, redacted; a character may be cut in two. `dropped_bytes` are missing after it."""

    stream: Stream
    data: bytes
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEventsDropped:
    """So many events of calls are missing from here on, because the reader was slow."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The last event."""

    envelope: Envelope


CallEvent: TypeAlias = CallStarted | CallEnded | CallProgress
RunEvent: TypeAlias = OutputChunk | CallEvent | CallEventsDropped | ApprovalQuestion | ServerQuestion | RunEnded


@asynccontextmanager
async def run_events(
    execute: Callable[[CodeRequest], Awaitable[Envelope]],
    request: CodeRequest,
    approver: EventApprover,
    *,
    asks: Collection[QuestionKind] = (),
    here: bool = False,
) -> AsyncGenerator[RunEvents]:
    """Begin `request` with `execute` (`Session.execute`, or `Runtime.run` with a ticket) and give its events.

    `approver` is the one that the application was assembled with; `asks` is what servers may ask where they are
    relayed; `here`: see `EventApprover.bound`. What `execute` raises is raised by the iteration.
    """
    events = RunEvents()
    responder = EventResponder(events.ask, asks, approver.by.name) if asks else None
    with approver.bound(events.ask, here=here) as begun:
        run = asyncio.ensure_future(execute(_heard(request, events, begun, responder)))
        run.add_done_callback(events.end)
        try:
            yield events
        finally:
            if responder is not None:
                responder.leave()
            if not run.done():
                run.cancel()
                await finish(_ended(run))
            if not run.cancelled():
                run.exception()  # seen, so that asyncio does not report it
    if not events.end_read and not run.cancelled():
        run.result()  # raises why the code could not run, where nobody has read so far


def _heard(
    request: CodeRequest, events: RunEvents, begun: Callable[[str], None], responder: EventResponder | None
) -> CodeRequest:
    """`request`, which `events` hears of, too."""

    def on_begun(run_id: str) -> None:
        events.run_id = run_id
        begun(run_id)
        if request.begun is not None:
            request.begun(run_id)

    def on_output(stream: Stream, data: bytes) -> None:
        events.hear(stream, data)
        if request.observer is not None:
            request.observer(stream, data)

    def on_progress(told: CallProgress) -> None:
        events.hear_progress(told)
        if request.progress is not None:
            request.progress(told)

    def on_call(told: CallStarted | CallEnded) -> None:
        events.hear_call(told)
        if request.calls is not None:
            request.calls(told)

    asked = request if responder is None else replace(request, responder=responder)
    return replace(asked, begun=on_begun, observer=on_output, progress=on_progress, calls=on_call)


class RunEvents:
    """An iterator over one execution's events; made by `events`, for one reader."""

    def __init__(self) -> None:
        self.run_id = ""  # empty before the execution has begun
        self._waiting: deque[_Unread | CallEvent | _Dropped | ApprovalQuestion | ServerQuestion] = deque()
        self._unread_bytes = self._call_bytes = 0
        self._dropped: _Dropped | None = None  # the one that waits
        self._news = asyncio.Event()
        self._run: asyncio.Future[Envelope] | None = None  # when it is done
        self.end_read = False  # whoever reads has had the last event, or the error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        while (event := self._next()) is None:
            if self.end_read:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return event

    async def several(self, count_max: int) -> list[RunEvent]:
        """The next event and those that wait behind it, up to the next question; empty after the last."""
        events: list[RunEvent] = []
        try:
            events.append(await anext(self))
        except StopAsyncIteration:
            return events
        while self._waiting and len(events) < count_max:
            if isinstance(self._waiting[0], ApprovalQuestion | ServerQuestion):
                break
            event = self._next()
            assert event is not None, "only questions are passed over"
            events.append(event)
        return events

    def _next(self) -> RunEvent | None:
        while self._waiting:
            event = self._waiting.popleft()
            if isinstance(event, _Unread):
                self._unread_bytes -= event.cost
                return event.chunk()
            if isinstance(event, _Dropped):
                self._dropped = None
                return CallEventsDropped(count=event.count)
            if isinstance(event, CallStarted | CallEnded | CallProgress):
                self._call_bytes -= _cost(event)
                return event
            if event.is_open:
                return event
        if self._run is None or self.end_read:
            return None
        self.end_read = True
        return RunEnded(envelope=self._run.result())

    def hear(self, stream: Stream, data: bytes) -> None:
        """Take output."""
        last = self._waiting[-1] if self._waiting else None
        goes_on = isinstance(last, _Unread) and last.stream is stream and not last.dropped_bytes
        if not isinstance(last, _Unread) or not (goes_on or self._room <= _EVENT_BYTES):
            last = _Unread(stream)
            self._waiting.append(last)
            self._unread_bytes += _EVENT_BYTES
            goes_on = True
        taken = data[: max(0, self._room)] if goes_on else b""
        last.data += taken
        last.dropped_bytes += len(data) - len(taken)
        self._unread_bytes += len(taken)
        self._news.set()

    def hear_progress(self, told: CallProgress) -> None:
        """Take how a call gets on. A newer report takes the place of the last event, if that is of the same tool."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, CallProgress) and last.tool == told.tool:
            self._waiting[-1] = told
            self._call_bytes += _cost(told) - _cost(last)
        else:
            self.hear_call(told)
        self._news.set()

    def hear_call(self, told: CallStarted | CallEnded | CallProgress) -> None:
        """Take an event of a call. It is only counted when the reader is so far behind that no room is left."""
        cost = _cost(told)
        if self._call_bytes + cost <= UNREAD_CALL_BYTES_MAX:
            self._waiting.append(told)
            self._call_bytes += cost
        else:
            if self._dropped is None:
                self._dropped = _Dropped()
                self._waiting.append(self._dropped)
            self._dropped.count += 1
        self._news.set()

    def ask(self, question: ApprovalQuestion | ServerQuestion) -> None:
        """Take a question."""
        self._waiting.append(question)
        self._news.set()

    def end(self, run: asyncio.Future[Envelope]) -> None:
        """The execution is over, one way or the other."""
        self._run = run
        self._news.set()

    @property
    def _room(self) -> int:
        return UNREAD_BYTES_MAX - self._unread_bytes


def _cost(told: CallEvent) -> int:
    return _EVENT_BYTES + len(told.tool) + (0 if isinstance(told, CallStarted) else len(told.message))


class _Dropped:
    """Events of calls for which there was no room."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Unread:
    """Output of one stream that nobody has read yet."""

    __slots__ = ("data", "dropped_bytes", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream, self.data, self.dropped_bytes = stream, bytearray(), 0

    @property
    def cost(self) -> int:
        return _EVENT_BYTES + len(self.data)

    def chunk(self) -> OutputChunk:
        return OutputChunk(stream=self.stream, data=bytes(self.data), dropped_bytes=self.dropped_bytes)


async def _ended(run: asyncio.Future[Envelope]) -> None:
    await asyncio.wait({run})
