"""A call that outlives the requests that wait for it: it runs, asks, is answered by a later request, ends.

Two kinds of requests leave a call behind. A face whose clients take no requests of a server (MCP 2026-07-28; REST)
gives open questions back as its answer; the client repeats its request with the answers. And a request whose patience
is over is answered by the call's id, with which later requests wait for it, read its output or cancel it. The call
itself is a task; its sandbox stays alive, its clock stands still while a question is open.

INVARIANT: one call runs its code once, however often its request is repeated.
INVARIANT: a call that nobody waits for ends: its questions expire, then its clock does.

Who owns calls, and how many there may be: `executions`. Who may ask what of whom: the face and `moonpool.pipeline`.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.engine.code_request import new_run_id
from moonpool.engine.open_questions import OpenQuestions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from moonpool.core.calls import CallProgress, LogMessage
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.engine.open_questions import OpenQuestion
    from moonpool.engine.output_window import OutputWindow
    from moonpool.pipeline.call_state import CallContext
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.sandboxes.base import Stream

GATHER_S: Final = 0.05
"""How long further questions are waited for after the first, so that calls made together are asked about together."""
_ENDED_WITHIN_S: Final = 6.0
_LOOK_S: Final = 0.5
"""How often it is looked whether a call has begun to wait for somebody else, or may be left."""

T = TypeVar("T")  # what a call comes to: the envelope of an execution, or the outcome of a tool call without code
Work: TypeAlias = "Callable[[ParkedCall], Coroutine[object, object, Envelope]]"


class ExecutionCancelledError(MoonpoolError):
    """The execution was cancelled while it ran: it has ended, and left no outcome."""

    code = "execution_cancelled"
    fault = Fault.CALLER

    def __init__(self, call_id: str) -> None:
        super().__init__(f"{call_id} was cancelled and has ended; calls that it made stay made")


class Listener(Protocol):
    """Who waits for a call and wants to hear of it meanwhile."""

    def hear(self, stream: Stream, data: bytes, /) -> None: ...
    def hear_progress(self, told: CallProgress, /) -> None: ...
    def hear_log(self, told: LogMessage, /) -> None: ...


class CallOwner(Protocol):
    """Who owns a call (`executions.PrincipalExecutions`), which is of the kind that this owner makes."""

    def refuse_more(self, call: Any, /) -> None:
        """Raises AnswererGoneError when `call` may not ask now."""
        ...

    def detach(self, call: Any, /) -> bool:
        """Have `call` go on while nobody waits for it; False: it may not."""
        ...

    def ended(self, call: Any, outcome: Any, /) -> None:
        """It is over; None: without an outcome."""
        ...


class Pause(Enum):
    """Why a request is answered before the call has ended. The call goes on."""

    ELSEWHERE = "it waits for somebody else than its client"
    RUNNING = "the request's patience is over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one request waits. None: until the end."""

    running_s: float | None = None
    elsewhere_s: float | None = None  # while `elsewhere` says that the call waits for somebody else than its client
    elsewhere: Callable[[], bool] = lambda: False
    asked: Callable[[], bool] = lambda: False  # whether somebody else is asked for this very call


UNTIL_OVER: Final = Patience()


class Parked(Generic[T]):
    """One call. Used on one event loop; made by its owner."""

    def __init__(self, key: str, owner: CallOwner, opener: object, output: OutputWindow) -> None:
        self.call_id, self.key, self.opener, self.output = new_run_id(), key, opener, output
        self.questions = OpenQuestions()
        self.run_ids: list[str] = []  # of its executions, from before anybody is asked
        self.contexts: list[CallContext] = []  # of those whose code can make calls
        self.given_out = False  # somebody holds a state of it, or its id
        self.detached = False  # somebody has its id: it goes on when nobody waits for it
        self.spared = False  # its client has left, and it goes on
        self.cancelled = False  # by somebody who had its id
        self.is_marked = False  # a restart does not make its id unknown
        self.set_aside = False  # its client was told to repeat the request as it was, and may come for it
        self.session: str | None = None  # the name that its face has for the session it runs in
        self.told_to = 0  # how far its output was given out
        self._owner = owner
        self._listeners: list[Listener] = []
        self._askers: list[RequestResponder] = []  # of the requests that wait for it
        self._later: RequestResponder | None = None  # of the client's next request
        self._failed = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[T] | None = None
        self._waiters = 0

    @property
    def open(self) -> tuple[OpenQuestion, ...]:
        """Questions without an answer, in the order they were asked."""
        return self.questions.open

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def waited_for(self) -> bool:
        return self._waiters > 0

    @property
    def is_lost(self) -> bool:
        """Whether it ended because this process ends, without an outcome and without anybody who asked for that."""
        return self._task is not None and self._task.cancelled() and not self.cancelled

    @property
    def has_outcome(self) -> bool:
        return self.over and not self._failed

    @property
    def asker(self) -> RequestResponder | None:
        """The client that can be asked now: of the newest request that waits for it, or of the next one."""
        return self._askers[-1] if self._askers else self._later

    async def ask(self, method: str, params: JsonObject, name: str = "") -> JsonObject:
        """Have whoever waits for this call asked. Cancel to take the question back. Raises AnswererGoneError.

        `name` is how the client is to call it; without one, or where an open one is called so, it gets its id.
        """
        if name and (early := self.questions.early.pop(name, None)) is not None:
            return early
        self._owner.refuse_more(self)
        question = self.questions.add(method, params, name)
        self._news.set()
        try:
            return await question.answer
        finally:
            self.questions.remove(question)

    def hear(self, stream: Stream, data: bytes) -> None:
        """Output of its code, redacted: it is kept for a while, and who waits for it now may listen."""
        self.output.add(data)
        for listener in self._listeners:
            listener.hear(stream, data)

    def hear_progress(self, told: CallProgress) -> None:
        """How a tool call of its code gets on."""
        for listener in self._listeners:
            listener.hear_progress(told)

    def hear_log(self, told: LogMessage) -> None:
        """What the server of a tool call logs."""
        for listener in self._listeners:
            listener.hear_log(told)

    @contextmanager
    def attended(
        self, listener: Listener | None, asker: RequestResponder | None, *, asks_later: bool = False
    ) -> Generator[None]:
        """For the length of a `with` block `listener` hears output and progress, and `asker` can be asked.

        `asks_later`: questions wait for the client's next request, so it can be asked after the block, too.
        """
        if listener is not None:
            self._listeners.append(listener)
        if asker is not None:
            self._askers.append(asker)
        try:
            yield
        finally:
            if listener is not None:
                self._listeners.remove(listener)
            if asker is not None:
                self._askers.remove(asker)
                self._later = asker if asks_later else self._later

    async def outcome(self, patience: Patience = UNTIL_OVER) -> T | tuple[OpenQuestion, ...] | Pause:
        """What came of it, what it asks, or why it is waited for no longer. Raises what its work raised, and
        ExecutionCancelledError.

        When the last wait for a call that nobody has the id of is cancelled, its code is ended first.
        """
        assert self._task is not None
        clock = asyncio.get_running_loop().time
        begun = clock()
        self._waiters += 1
        try:
            while not self._task.done():
                if self.open:
                    await asyncio.wait({self._task}, timeout=GATHER_S)
                    if self.open and not self._task.done():
                        return self.open
                    continue
                waited_s = clock() - begun
                if pause := self._pause(patience, waited_s):
                    return pause
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_next_look_s(patience, waited_s)):
                        await self._news.wait()
            self.set_aside = False
            if self._task.cancelled():
                raise ExecutionCancelledError(self.call_id)
            return self._task.result()
        except asyncio.CancelledError:
            if self._waiters == 1 and not (self.spared or self.detached):
                await self.end()
            raise
        finally:
            self._waiters -= 1

    def _pause(self, patience: Patience, waited_s: float) -> Pause | None:
        running_s, elsewhere_s = patience.running_s, patience.elsewhere_s
        impatient = running_s is not None and waited_s >= running_s
        if (impatient and patience.asked()) or (
            elsewhere_s is not None and waited_s >= elsewhere_s and patience.elsewhere()
        ):
            self.given_out = self.set_aside = True
            return Pause.ELSEWHERE
        if impatient and (self.detached or self._owner.detach(self)):
            self.given_out = self.detached = True
            return Pause.RUNNING
        return None

    async def finished(self) -> None:
        """Wait for the end, whoever else waits."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def end(self) -> None:
        """End the code and wait until it has ended."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_ENDED_WITHIN_S)

    async def cancel(self) -> None:
        """End the code, because somebody who has its id wants that."""
        self.cancelled = not self.over
        await self.end()

    def client_left(self, *, spared: bool) -> None:
        """Its client is not there any more, so nobody answers its questions. `spared`: it goes on."""
        self.spared = spared
        self.questions.give_up()

    def start(self, work: Coroutine[object, object, T]) -> None:
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._news.set()
        failed = self._failed = task.cancelled() or task.exception() is not None
        self.set_aside = self.set_aside and not failed  # nobody can have the outcome of what was ended
        self._owner.ended(self, None if failed else task.result())


class ParkedCall(Parked["Envelope"]):
    """An execution of code; made by `PrincipalExecutions.start`."""

    def begin(self, work: Work) -> None:
        self.start(work(self))


def _next_look_s(patience: Patience, waited_s: float) -> float | None:
    """How long nothing but news of the call can end a wait."""
    ends = [end - waited_s for end in (patience.running_s, patience.elsewhere_s) if end is not None]
    return min((end if end > 0 else _LOOK_S for end in ends), default=None)
