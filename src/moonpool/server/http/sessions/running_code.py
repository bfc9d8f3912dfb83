"""One execution of a session, as lines that several readers may read, and read again for a while.

Its code does not wait for its readers: what they have not taken is held up to `UNREAD_BYTES_MAX`, then the engine holds
its own share and counts what it drops (`engine.events`). What they have taken is kept up to `KEPT_BYTES_MAX`, for a
reader whose connection broke and who goes on behind the last line that it has.

INVARIANT: the last line is `result` or `error`, whatever happens, and is kept as long as the execution is.
"""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from moonpool.core.calls import CallEnded, CallProgress, CallStarted
from moonpool.engine.events import CallEventsDropped, OutputChunk, RunEnded, run_events
from moonpool.engine.server_request_events import ServerQuestion
from moonpool.features.approvals.events import ApprovalQuestion
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.sessions import lines, serialization
from moonpool.server.http.sessions.bodies import json_line
from moonpool.server.http.sessions.errors import ExecutionUnwantedError, error_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine

    from moonpool.core.envelope import Envelope
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.events import RunEvent, RunEvents
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.features.approvals.events import EventApprover
    from moonpool.server.http.sessions.lines import PrintedLine, ResultLine

UNREAD_BYTES_MAX: Final = 1024**2
KEPT_BYTES_MAX: Final = 4 * 1024**2
_EVENTS_MAX: Final = 256  # that are taken from the engine at once
_LEFT: Final = "the client ended the execution before it answered"
_encode = msgspec.json.Encoder().encode


class RunningCode:
    """Made with `begin`; ends by itself, or with `end`."""

    def __init__(
        self,
        execution_id: str,
        digest: str,
        code_chars: int,
        result: Callable[[Envelope, int], ResultLine | PrintedLine],
        *,
        at_terminal: bool = False,
    ) -> None:
        """`digest` is of what was asked to run; `result` makes the last line, once."""
        self.execution_id, self.digest, self.code_chars, self._result = execution_id, digest, code_chars, result
        self._at_terminal = at_terminal
        self.questions: dict[str, ServerQuestion] = {}  # of servers, that are open
        self.is_over = False  # its last line is there
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = self._unread_bytes = 0
        self._seq: int = 0  # of the newest line
        self._taken: int = 0  # of the newest that a reader took
        self._changed = asyncio.Event()
        self._taken_some = asyncio.Event()
        self._texts = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._events: RunEvents | None = None
        self._pump: asyncio.Task[None] | None = None
        self._watching: set[asyncio.Task[None]] = set()
        self._unread_matters = True

    @property
    def run_id(self) -> str:
        """Empty before its turn has come."""
        return "" if self._events is None else self._events.run_id

    @property
    def kept_bytes(self) -> int:
        """Of the lines that can be read again."""
        return self._kept_bytes

    # --- its life

    def begin(
        self,
        execute: Callable[[CodeRequest], Awaitable[Envelope]],
        request: CodeRequest,
        approver: EventApprover,
        asks: Collection[QuestionKind],
        *,
        here: bool,
    ) -> None:
        """Begin it; `here`: only who reads its lines answers its calls."""
        self._tell(lines.Accepted(seq=self._next(), execution_id=self.execution_id))
        self._pump = asyncio.ensure_future(self._run(execute, request, approver, asks, here))

    def when_over(self, call: Callable[[], None]) -> None:
        """Call it when nothing of this runs any more."""
        assert self._pump is not None
        self._pump.add_done_callback(lambda _: call())

    async def end(self, interrupt: Callable[[str], object]) -> None:
        """End its code if it runs or waits, by `interrupt` if it runs; returns when its last line is there."""
        self.let_go()
        if self._pump is None or self._pump.done():
            return
        for question in tuple(self.questions.values()):
            question.give_up(_LEFT)
        if self.run_id:
            interrupt(self.run_id)
        self.give_up_turn()
        await finish(_ended(self._pump))

    def remark(self, text: str) -> None:
        """Tell the person at the terminal something beside the code."""
        if not self.is_over:
            self._tell(lines.RemarkLine(seq=self._next(), text=text))

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Do something for as long as it runs."""
        task = asyncio.ensure_future(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    def give_up_turn(self) -> None:
        """Not run it, where it waits for its turn."""
        if self._pump is not None and not self.run_id:
            self._pump.cancel()

    def let_go(self) -> None:
        """Wait for readers no longer."""
        self._unread_matters = False
        self._taken_some.set()

    def trim(self) -> None:
        """Keep no more than its last line of what a reader took, where others need the room."""
        while len(self._kept) > 1 and self._kept[0][0] <= self._taken:
            self._kept_bytes -= len(self._kept.popleft()[1])

    async def _run(
        self,
        execute: Callable[[CodeRequest], Awaitable[Envelope]],
        request: CodeRequest,
        approver: EventApprover,
        asks: Collection[QuestionKind],
        here: bool,
    ) -> None:
        failure: Exception = ExecutionUnwantedError()  # where it waits for its turn, and nobody wants it any more
        try:
            async with run_events(execute, request, approver, asks=asks, here=here) as self._events:
                while events := await self._events.several(_EVENTS_MAX):
                    for event in events:
                        self._take(event)
                    await self._room()
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  whatever it is, the stream has a last line
            failure = error
        finally:
            for watch in self._watching:
                watch.cancel()
            if not self.is_over:
                self._tell(lines.ErrorLine(seq=self._next(), error=error_body(failure, whole=self._at_terminal)))
                self._be_over()

    async def _room(self) -> None:
        while self._unread_bytes > UNREAD_BYTES_MAX and self._unread_matters and not self.is_over:
            self._taken_some.clear()
            await self._taken_some.wait()

    # --- what it tells

    def _take(self, event: RunEvent) -> None:
        match event:
            case OutputChunk():
                name: Any = event.stream.name.lower()
                self._hear(name, self._texts[name].decode(event.data), event.dropped_bytes)
            case CallStarted() | CallEnded() | CallProgress():
                self._tell(serialization.call_line(event, self._next()))
            case CallEventsDropped():
                self._tell(lines.CallsDroppedLine(seq=self._next(), count=event.count))
            case ApprovalQuestion():
                self._tell(serialization.approval_line(event.request, self._next(), whole=self._at_terminal))
                self._watch(event.request.request_id, event.wait_over)
            case ServerQuestion():
                self._ask(event)
            case RunEnded():
                for name, decoder in self._texts.items():
                    self._hear(name, decoder.decode(b"", final=True), 0)  # pyright: ignore[reportArgumentType]
                self._tell(self._result(event.envelope, self._next()))
                self._be_over()

    def _hear(self, stream: Literal["stdout", "stderr"], text: str, dropped_bytes: int) -> None:
        if text or dropped_bytes:
            self._tell(lines.OutputLine(seq=self._next(), stream=stream, text=text, dropped_bytes=dropped_bytes))

    def _ask(self, question: ServerQuestion) -> None:
        question_id = serialization.new_id()
        self.questions[question_id] = question
        self._tell(
            lines.QuestionLine(
                seq=self._next(), question_id=question_id, kind=question.kind, params=dict(question.params)
            )
        )
        self._watch(question_id, question.wait_over)

    def _watch(self, question_id: str, over: Callable[[], Awaitable[None]]) -> None:
        async def watch() -> None:
            await over()
            self.questions.pop(question_id, None)
            if not self.is_over:
                self._tell(lines.WithdrawnLine(seq=self._next(), id=question_id))

        self.beside(watch())

    def _next(self) -> int:
        return self._seq + 1

    def _tell(self, line: lines.Line) -> None:
        assert line.seq == self._seq + 1
        data = json_line(line)
        self._seq = line.seq
        self._kept.append((line.seq, data))
        self._kept_bytes += len(data)
        self._unread_bytes += len(data)
        while self._kept_bytes > KEPT_BYTES_MAX and self._kept[0][0] <= self._taken and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft()[1])
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _be_over(self) -> None:
        self.is_over = True
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # --- reading

    async def read(self, after: int = 0) -> AsyncIterator[bytes]:
        """The lines behind `after`, encoded, as they come; ends behind the last. For any number of readers.

        A reader that is so far behind that lines are gone is told how many.
        """
        while True:
            changed = self._changed
            if self._kept and self._kept[0][0] > after + 1:
                last_gone = self._kept[0][0] - 1
                yield _encode(lines.MissedLine(seq=last_gone, count=last_gone - after)) + b"\n"
                after = last_gone
            pieces = self._from(after)
            if pieces:
                after += len(pieces)
                self._note_taken(after, pieces)
                for piece in pieces:
                    yield piece
            elif self.is_over:
                return
            elif not await _heard(changed):
                yield _encode(lines.AliveLine(seq=after)) + b"\n"

    def _from(self, after: int) -> list[bytes]:
        """At most 64 KiB of the lines behind `after`, or one."""
        if not self._kept or after >= self._seq:
            return []
        pieces: list[bytes] = []
        size = 0
        start = max(0, after + 1 - self._kept[0][0])
        for index in range(start, len(self._kept)):
            data = self._kept[index][1]
            if pieces and size + len(data) > _PIECE_BYTES:
                break
            pieces.append(data)
            size += len(data)
        return pieces

    def _note_taken(self, seq: int, pieces: list[bytes]) -> None:
        new = seq - self._taken
        if new > 0:
            self._taken = seq
            self._unread_bytes -= sum(map(len, pieces[-new:]))
            self._taken_some.set()


_PIECE_BYTES: Final = 64 * 1024


async def _heard(changed: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(lines.ALIVE_S):
            await changed.wait()
    except TimeoutError:
        return False
    return True


async def _ended(pump: asyncio.Task[None]) -> None:
    await asyncio.gather(pump, return_exceptions=True)
