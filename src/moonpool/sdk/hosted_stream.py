"""The events of one execution, in the runtime's thread."""

from __future__ import annotations

import codecs
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from moonpool.core.calls import CallEnded, CallProgress, CallStarted
from moonpool.core.errors import InputError, MoonpoolError
from moonpool.engine.events import CallEventsDropped as HostedDropped
from moonpool.engine.events import OutputChunk, RunEnded, run_events
from moonpool.engine.server_request_events import ServerQuestion as HostedQuestion
from moonpool.features.approvals.events import ApprovalQuestion
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.sandboxes.shielding import finish
from moonpool.sdk.events import CallEventsDropped, Output, approval_fields, call_event, question_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from moonpool.core.envelope import Envelope
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.events import RunEvent, RunEvents
    from moonpool.engine.server_request_events import QuestionKind
    from moonpool.engine.sessions import Session
    from moonpool.sdk.approve_functions import Answers, EventTypes
    from moonpool.sdk.engines import OpenTenant
    from moonpool.sdk.events import ApprovalRequest, Progress, ServerQuestion, ToolCallEnded, ToolCallStarted
    from moonpool.sdk.results import Display, Result
    from moonpool.sdk.runtime_thread import RuntimeThread

    Told = Output | ToolCallStarted | ToolCallEnded | CallEventsDropped | Progress
    Event: TypeAlias = Told | ApprovalRequest | ServerQuestion | Display | Result

_EVENTS_MAX = 256  # that are handed over at once


class HostedStream:
    """The events of one execution, read in one place: those that wait, at once."""

    def __init__(
        self,
        thread: RuntimeThread,
        types: EventTypes,
        session: Session,
        done: Callable[[Envelope], Result],
        answers: Answers | None,
    ) -> None:
        """`done` makes the result, once; `answers` answers questions about calls; None: their reader does."""
        self.thread = thread
        self._types, self._session, self._done, self._answers = types, session, done, answers
        self._stack = AsyncExitStack()
        self._events: RunEvents | None = None
        self._texts = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._waiting: list[Event] = []
        self._reading = False
        self._ended = False

    async def begin(self, request: CodeRequest, opened: OpenTenant, questions: Collection[QuestionKind]) -> None:
        """Begin the execution."""
        self._events = await self._stack.enter_async_context(
            run_events(self._session.execute, request, opened.events, asks=questions)
        )

    async def next(self) -> list[Event]:
        """The next events, at least one; none after the last. Raises what kept the code from running.

        A question comes first, or not at all: it is open when it is handed over.
        """
        if self._reading:
            raise InputError("this stream is being read already; read it in one place")
        self._reading = True
        try:
            while not self._waiting and not self._ended:
                await self._read()
            events, self._waiting = self._waiting, []
            return events
        finally:
            self._reading = False

    async def _read(self) -> None:
        assert self._events is not None
        try:
            events = await self._events.several(_EVENTS_MAX)
        except MoonpoolError:
            self._ended = True
            await self._stack.aclose()
            raise
        self._ended = not events
        for event in events:
            await self._take(event)

    async def _take(self, event: RunEvent) -> None:
        match event:
            case OutputChunk():
                self._hear(event)
            case CallStarted() | CallEnded() | CallProgress():
                self._waiting.append(call_event(event))
            case HostedDropped():
                self._waiting.append(CallEventsDropped(count=event.count))
            case ApprovalQuestion():
                request = self._types.request(**approval_fields(event, self.thread))
                if self._answers is None:
                    self._waiting.append(request)
                else:
                    self._answers.begin(event, request)
            case HostedQuestion():
                self._waiting.append(self._types.question(**question_fields(event, self.thread)))
            case RunEnded():
                self._end(event.envelope)
                await self._stack.aclose()

    def _hear(self, chunk: OutputChunk) -> None:
        name: Any = chunk.stream.name.lower()
        text = self._texts[name].decode(chunk.data)
        if text or chunk.dropped_bytes:
            self._waiting.append(Output(stream=name, text=text, dropped_bytes=chunk.dropped_bytes))

    def _end(self, envelope: Envelope) -> None:
        self._ended = True
        for name, decoder in self._texts.items():
            if text := decoder.decode(b"", final=True):
                stream: Any = name
                self._waiting.append(Output(stream=stream, text=text))
        result = self._done(envelope)
        self._waiting.extend(result.displays)
        self._waiting.append(result)

    async def close(self) -> None:
        """End the code if it still runs, and wait for its end. Idempotent."""
        if not self._ended and self._events is not None and self._events.run_id:
            self._session.interrupt(run_id=self._events.run_id)
            with suppress(Exception):
                await finish(self._drain())
        self._ended = True
        with suppress(MoonpoolError):  # its reader has gone
            await finish(self._stack.aclose())

    async def _drain(self) -> None:
        """Read to the end. Questions are refused: whoever would answer them has gone."""
        assert self._events is not None
        async for event in self._events:
            if isinstance(event, ApprovalQuestion):
                with suppress(ApprovalAnswerError):
                    await event.deny("the application stopped listening before it answered")
            elif isinstance(event, HostedQuestion):
                event.give_up("the application stopped listening before it answered")
            elif isinstance(event, RunEnded):
                self._done(event.envelope)
