"""Calls that outlive the requests that wait for them: run, ask, be answered by a later request, end.

A face whose clients take no requests of a server (MCP 2026-07-28; REST) gives open questions back as its answer, with a
state. The client repeats its request with the answers and that state and so waits for the same call again. The call
itself is a task of `ParkedCalls`; its sandbox stays alive, its clock stands still while a question is open.

INVARIANT: one call runs its code once, however often its request is repeated; a question is answered once. A repeat
that brings the same answers again only waits again; other answers to an answered question are refused.
INVARIANT: a call that nobody waits for ends: its questions expire, then its clock does. What came of it goes to `keep`.
SECURITY: a state comes back from outside. It is sealed with a key of this process and bound to owner, request and the
questions it was given out with. Everything that is wrong with one has the same error.

What a state looks like: `request_state`. Who may ask what of whom: the face and `moonpool.pipeline`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from moonpool.core.json import digest_json
from moonpool.engine.request_state import RequestState, RequestStateError, StateSeal
from moonpool.pipeline.request_responder import AnswererGoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping

    from moonpool.core.calls import CallProgress, LogMessage
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.pipeline.call_state import CallContext
    from moonpool.sandboxes.base import Stream

_log = logging.getLogger(__name__)

OPEN_COUNT_MAX: Final = 16
KEPT_COUNT_MAX: Final = 64
NAME_CHARS_MAX: Final = 200
"""A longer name of a question is not used: its answers are asked for by its id."""
GATHER_S: Final = 0.05
"""How long further questions are waited for after the first, so that calls made together are asked about together."""
_ENDED_WITHIN_S: Final = 6.0
_LOOK_S: Final = 0.5
"""How often it is looked whether a call has begun to wait for somebody else."""

T = TypeVar("T")  # what a call comes to: an envelope, or the outcome of a tool call without code
Work: TypeAlias = "Callable[[ParkedCall[T]], Coroutine[object, object, T]]"


class Listener(Protocol):
    """Who waits for a call and wants to hear of it meanwhile."""

    def hear(self, stream: Stream, data: bytes, /) -> None: ...
    def hear_progress(self, told: CallProgress, /) -> None: ...
    def hear_log(self, told: LogMessage, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """One request of the protocol that waits for its result."""

    question_id: str
    name: str  # by which the client answers it
    method: str
    params: JsonObject
    answer: asyncio.Future[JsonObject]


class ParkedCall(Generic[T]):
    """One call. Used on one event loop; made by `ParkedCalls.start`."""

    def __init__(self, key: str, calls: ParkedCalls[T], early: Mapping[str, JsonObject]) -> None:
        self.call_id, self.key = secrets.token_hex(16), key
        self.run_ids: list[str] = []  # of its executions, from before anybody is asked
        self.contexts: list[CallContext] = []  # of those whose code can make calls
        self.given_out = False  # somebody holds a state of it
        self.spared = False  # it goes on when nobody waits for it any more
        self.gave_way = False  # it was ended so that another may ask
        self.set_aside = False  # its client was told to repeat the request as it was, and may come for it
        self._listeners: list[Listener] = []
        self._calls = calls
        self._early = dict(early)  # answers by name that came with the request itself
        self._names: dict[str, str] = {}  # question id -> the name by which the client knows it
        self._open: dict[str, OpenQuestion] = {}
        self._answered: dict[str, str] = {}  # question id -> digest of the answer
        self._news = asyncio.Event()
        self._task: asyncio.Task[T] | None = None
        self._waiters = 0

    @property
    def open(self) -> tuple[OpenQuestion, ...]:
        """Questions without an answer, in the order they were asked."""
        return tuple(self._open.values())

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def abandoned(self) -> bool:
        """Whether it asks, and nobody waits to hear it."""
        return bool(self._open) and not self._waiters and not self.gave_way

    async def ask(self, method: str, params: JsonObject, name: str = "") -> JsonObject:
        """Have whoever waits for this call asked. Cancel to take the question back. Raises AnswererGoneError.

        `name` is how the client is to call it; without one, or where an open one is called so, it gets its id.
        """
        if name and (early := self._early.pop(name, None)) is not None:
            return early
        self._calls.refuse_more(self)
        future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        question_id = secrets.token_hex(8)
        if not 0 < len(name) <= NAME_CHARS_MAX or any(one.name == name for one in self.open):
            name = question_id
        question = OpenQuestion(question_id=question_id, name=name, method=method, params=params, answer=future)
        self._open[question_id], self._names[question_id] = question, name
        self._news.set()
        try:
            return await future
        finally:
            self._open.pop(question.question_id, None)

    def hear(self, stream: Stream, data: bytes) -> None:
        """Output of its code; who waits for it now may listen."""
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
    def heard_by(self, listener: Listener | None) -> Generator[None]:
        """Let `listener` hear output and progress for the length of a `with` block."""
        if listener is None:
            yield
            return
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def outcome(
        self, patience_s: float | None = None, elsewhere: Callable[[], bool] = lambda: False
    ) -> T | tuple[OpenQuestion, ...] | None:
        """What came of it, or what it asks. When the last wait for it is cancelled, its code is ended first.

        None: `patience_s` are over and it waits for somebody else than its client, as `elsewhere` says. It goes on.
        """
        assert self._task is not None
        clock = asyncio.get_running_loop().time
        until = None if patience_s is None else clock() + patience_s
        self._waiters += 1
        try:
            while not self._task.done():
                if self._open:
                    await asyncio.wait({self._task}, timeout=GATHER_S)
                    if self._open and not self._task.done():
                        return self.open
                    continue
                if until is not None and clock() >= until and elsewhere():
                    self.given_out = self.set_aside = True
                    return None
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if until is None else max(_LOOK_S, until - clock())):
                        await self._news.wait()
            self.set_aside = False
            if self.gave_way:
                raise RequestStateError
            return self._task.result()
        except asyncio.CancelledError:
            if self._waiters == 1 and not self.spared:
                await self.end()
            raise
        finally:
            self._waiters -= 1

    async def finished(self) -> None:
        """Wait for the end, whoever else waits."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def end(self) -> None:
        """End the code and wait until it has ended."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_ENDED_WITHIN_S)

    def answer(self, answers: Mapping[str, JsonObject], asked: Iterable[str]) -> None:
        """Take answers to questions `asked`; others are ignored. Raises RequestStateError, then none was taken."""
        names = {one: self._names.get(one, one) for one in asked}
        given = {one: answers[name] for one, name in names.items() if name in answers}
        try:
            digests = {name: digest_json(answer) for name, answer in given.items()}
        except (ValueError, RecursionError):  # no JSON: an infinite number, half a character
            raise RequestStateError from None
        if any(self._answered.get(name, digest) != digest for name, digest in digests.items()):
            raise RequestStateError
        for name, answer in given.items():
            question = self._open.pop(name, None)  # an expired one is no longer there
            if question is not None and not question.answer.done():
                self._answered[name] = digests[name]
                question.answer.set_result(answer)

    def give_up_questions(self) -> None:
        """Nobody is left to answer them."""
        for question in self.open:
            if not question.answer.done():
                question.answer.set_exception(AnswererGoneError("the client left before its user answered"))

    def begin(self, work: Work[T]) -> None:
        self._task = asyncio.create_task(work(self))
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._news.set()
        failed = task.cancelled() or task.exception() is not None
        self.set_aside = self.set_aside and not failed  # nobody can have the outcome of what was ended
        self._calls.ended(self, None if failed or self._waiters else task.result())


class ParkedCalls(Generic[T]):
    """The calls of one owner: a connection, or a principal."""

    def __init__(
        self,
        *,
        owner: str,
        kept_s: float,
        parked_max: int,
        keep: Callable[[T], Awaitable[None]] | None = None,
        gives_way: bool = False,
    ) -> None:
        """`keep` gets the outcome of a call that nobody waited for; outcomes can be asked for again for `kept_s`.

        `gives_way`: above `parked_max` the oldest call that nobody waits for is ended; else no further one may ask.
        """
        self._seal = StateSeal(owner, valid_s=kept_s)
        self._kept_s, self._parked_max, self._keep = kept_s, parked_max, keep
        self._gives_way, self._ending = gives_way, set[asyncio.Task[None]]()
        self._calls: dict[str, ParkedCall[T]] = {}
        self._keeping: set[asyncio.Task[None]] = set()
        self._left = False

    def start(self, key: str, work: Work[T], early: Mapping[str, JsonObject] = MappingProxyType({})) -> ParkedCall[T]:
        """Begin a call. `key` is the digest of its request: repeats must be of the same.

        `early` are answers by name to what it has not asked yet.
        """
        call = ParkedCall(key, self, early)
        self._calls[call.call_id] = call
        call.begin(work)
        return call

    def resume(self, sealed: str, key: str, answers: Mapping[str, JsonValue]) -> ParkedCall[T]:
        """The call that `sealed` belongs to, with `answers` taken. Raises RequestStateError."""
        state = self._seal.opened(sealed)
        call = self._calls.get(state.call_id)
        if call is None or state.key != key or call.key != key:
            raise RequestStateError
        taken = {name: answer for name, answer in answers.items() if isinstance(answer, dict)}
        call.answer(taken, state.questions)
        return call

    def repeated(self, key: str) -> ParkedCall[T] | None:
        """The call that was set aside and whose request comes again.

        INVARIANT: until somebody has its outcome, or it is kept no more, every such request waits for it. None begins
        the code anew.
        """
        return next((call for call in self._calls.values() if call.set_aside and call.key == key), None)

    @property
    def calls(self) -> tuple[ParkedCall[T], ...]:
        """Those that go on, and those whose outcome is kept."""
        return tuple(self._calls.values())

    def state_of(self, call: ParkedCall[T], questions: Iterable[OpenQuestion]) -> str:
        """What the client brings back to wait for `call` again, and to answer `questions`."""
        call.given_out = True
        names = tuple(question.question_id for question in questions)
        return self._seal.sealed(RequestState(call_id=call.call_id, key=call.key, questions=names))

    def refuse_more(self, call: ParkedCall[T]) -> None:
        """Raises AnswererGoneError when `call` may not ask now."""
        if self._left:
            raise AnswererGoneError("the client has left")
        if len(call.open) >= OPEN_COUNT_MAX:
            raise AnswererGoneError(f"{OPEN_COUNT_MAX} questions of this execution are open already")
        if not call.open and sum(bool(other.open) for other in self._calls.values()) >= self._parked_max:
            oldest = next((other for other in self._calls.values() if other.abandoned), None)
            if self._gives_way and oldest is not None:
                oldest.gave_way = True
                ending = asyncio.ensure_future(oldest.end())
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
                return
            raise AnswererGoneError(f"{self._parked_max} executions wait for answers already")

    def leave(self, asks: Callable[[ParkedCall[T]], bool]) -> int:
        """The client has gone. Calls that wait for somebody else's answer go on; returns how many.

        `asks` says whether an answer to a question of a call's is waited for, whoever was asked.
        """
        self._left = True
        for call in self._calls.values():
            call.spared = not call.over and not call.open and asks(call)
            call.give_up_questions()
        return sum(call.spared for call in self._calls.values())

    async def wait_spared(self) -> None:
        """Wait for the calls that `leave` has spared."""
        while spared := [call for call in self._calls.values() if call.spared and not call.over]:
            await asyncio.gather(*(call.finished() for call in spared), return_exceptions=True)

    async def close(self) -> None:
        """End every call; what ended by itself has been kept when this returns."""
        self._left = True
        await asyncio.gather(*(call.end() for call in tuple(self._calls.values())))
        while self._keeping:
            await asyncio.wait(self._keeping)

    def ended(self, call: ParkedCall[T], unheard: T | None) -> None:
        """A call is over; `unheard` is its outcome if nobody waited for it."""
        if unheard is not None and self._keep is not None:
            keeping = asyncio.ensure_future(self._keep_safely(self._keep, unheard))
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
        if not call.given_out:
            self._calls.pop(call.call_id, None)
            return
        asyncio.get_running_loop().call_later(self._kept_s, self._calls.pop, call.call_id, None)
        over = [other for other in self._calls.values() if other.over and other is not call]
        over.sort(key=lambda other: other.set_aside)  # first those whose outcome somebody has; then the oldest
        for old in over[: max(0, len(over) + 1 - KEPT_COUNT_MAX)]:
            self._calls.pop(old.call_id, None)

    async def _keep_safely(self, keep: Callable[[T], Awaitable[None]], outcome: T) -> None:
        try:
            await keep(outcome)
        except Exception as error:  # noqa: BLE001  a task of our own: nobody else would hear of it
            _log.error("the outcome of %s could not be kept: %s", getattr(outcome, "run_id", "a call"), error)
