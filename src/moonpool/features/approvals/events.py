"""Approvals as events, for an application that has Moonpool inside it: it takes questions and answers each once.

`EventApprover.questions` gives an iterator for the length of a `with` block; several may be open, and each question
goes to one of them. The questions of one execution go to its stream instead, where it has one (`engine.events`).

What is shown, bounded and checked otherwise: `moonpool.pipeline.approval`, whose service asks here.

INVARIANT: no question outlives whoever would answer it. One that nobody takes is refused at once; those of a consumer
that leaves are refused; of a call that ends or expires they are withdrawn, and whoever answers later is told.
SECURITY: whoever answers says who they are and whether a person is there to see the question. What policy reserves for
a person is approved by one only, and a program's name in the records says that it is a program's.
SECURITY: texts of a request are redacted and bounded, but code, servers and models had a hand in them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self

from moonpool.core.calls import ApprovalState
from moonpool.core.errors import InputError
from moonpool.features.approvals.model import PROGRAMS, Answerer, ApprovalAnswerError, QueueState
from moonpool.features.approvals.service import check_may_approve, check_seen
from moonpool.pipeline.approval import OPEN_COUNT_MAX_DEFAULT, approve, reject
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalGrant, ApprovalRequest
    from moonpool.features.approvals.service import GrantTerms

    Taker = Callable[["ApprovalQuestion"], None]

NAME: Final = "application:events"
_NAME_CHARS_MAX: Final = 200
_EXPIRY_SLACK_S: Final = 0.1  # the approval service's clock started a little before ours


class GrantStorage(Protocol):
    """Keeps answers that stand for a while (`moonpool.features.approvals.service.Approvals`). Blocking."""

    def give(self, request: ApprovalRequest, answerer: Answerer, terms: GrantTerms) -> ApprovalGrant: ...
    def remove_grant(self, answer_id: str, answerer: Answerer) -> object: ...


class Queue(Protocol):
    """Where answers come from that are not given here (`features.approvals.queue_approver.QueueApprover`)."""

    async def ask(self, request: ApprovalRequest, *, waits: Callable[[], None] | None = None) -> ApprovalAnswer: ...


class ApprovalQuestion:
    """One question, to be answered once. Used on one event loop; made by an `EventApprover`."""

    def __init__(self, request: ApprovalRequest, by: Answerer, grants: GrantStorage | None) -> None:
        self.request = request
        self.state = QueueState.WAITING
        self._by, self._grants = by, grants
        self._loop = asyncio.get_running_loop()
        self._expires_at = self._loop.time() + request.expires_s
        self._answer: asyncio.Future[ApprovalAnswer] = self._loop.create_future()
        self._over = asyncio.Event()
        self.withdrawn = asyncio.Event()
        """Set once it is over without an answer: its call has ended, or its time."""
        self._claimed = False
        self._given_up = ""  # why nobody answers any more, should the answer that is being given fail

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer."""
        return self.state is QueueState.WAITING

    async def approve(
        self, *, by: Answerer | None = None, note: str = "", terms: GrantTerms | None = None
    ) -> ApprovalGrant | None:
        """Allow the call; with `terms` further ones too, for a while. Returns when the answer has been taken.

        Raises ApprovalAnswerError when it cannot be answered (any more), ApprovalQueueError and JournalError when the
        terms cannot be kept: then nothing was answered.
        """
        by = as_recorded(by or self._by)
        check_may_approve(self.request, by, "show it to one and pass `by=Answerer(name=..., person=True)`")
        if terms is not None:
            self._check_terms()
        self._claim()
        return await finish(self._approve(by, note, terms))  # an answer that has begun is given

    async def deny(self, note: str = "", *, by: Answerer | None = None) -> None:
        """Refuse the call; `note` reaches the code. Raises ApprovalAnswerError when it is answered or over."""
        by = as_recorded(by or self._by)
        self._claim()
        self._answer.set_result(reject(self.request, by.name, note))
        await self._taken(QueueState.DENIED)

    async def wait(self) -> ApprovalAnswer:
        """The answer, for the approver. Cancel it to withdraw the question."""
        try:
            answer = await self._answer
        except asyncio.CancelledError:
            late = self._loop.time() >= self._expires_at - _EXPIRY_SLACK_S
            self.state = QueueState.EXPIRED if late else QueueState.WITHDRAWN
            self.withdrawn.set()
            raise
        else:
            self.state = QueueState.APPROVED if answer.state is ApprovalState.APPROVED else QueueState.DENIED
            return answer
        finally:
            self._over.set()

    async def wait_over(self) -> None:
        """Returns once it cannot be answered any more, however that came."""
        await self._over.wait()

    def give_up(self, why: str) -> None:
        """Whoever was to answer is gone. An answer that is being given is given."""
        self._given_up = why
        if not self._claimed and not self._answer.done():
            self._claimed = True
            self._answer.set_result(reject(self.request, NAME, why))

    def _claim(self) -> None:
        if self._claimed or self._over.is_set() or self._answer.done():
            raise self._not_answerable()
        self._claimed = True

    async def _approve(self, by: Answerer, note: str, terms: GrantTerms | None) -> ApprovalGrant | None:
        given: ApprovalGrant | None = None
        try:
            if terms is not None:
                assert self._grants is not None
                given = await asyncio.to_thread(self._grants.give, self.request, by, terms)
        except BaseException:
            self._claimed = False  # it can be answered again
            if self._given_up:  # by nobody
                self.give_up(self._given_up)
            raise
        if not self._answer.done():  # else it is over: its wait was cancelled meanwhile
            self._answer.set_result(approve(self.request, by.name, note))
        try:
            await self._taken(QueueState.APPROVED)
        except ApprovalAnswerError:
            if given is not None:
                assert self._grants is not None
                await asyncio.to_thread(self._grants.remove_grant, given.answer_id, by)
            raise
        return given

    async def _taken(self, state: QueueState) -> None:
        """Wait until whoever asked has the answer. Raises ApprovalAnswerError when it was over at that very moment."""
        await self._over.wait()
        if self.state is not state:
            raise self._not_answerable()

    def _check_terms(self) -> None:
        request = self.request
        check_seen(request, whole=False)
        if self._grants is None:
            raise ApprovalAnswerError("approval grants are not kept here; approve this one call, without terms")
        if not request.tool_digest:
            problem = f"request {request.request_id} is not about a call of a tool"
            raise ApprovalAnswerError(f"{problem}, so it cannot have an approval grant; approve it without terms")

    def _not_answerable(self) -> ApprovalAnswerError:
        waiting = "being answered" if self._claimed else QueueState.WITHDRAWN
        how = waiting if self.state is QueueState.WAITING else self.state
        return ApprovalAnswerError(f"request {self.request.request_id} cannot be answered any more: it is {how}")


class EventApprover:
    """An `Approver` that gives its questions to the application. Of one application at a time, on one event loop."""

    together: ClassVar[bool] = True

    def __init__(
        self,
        *,
        by: Answerer = Answerer(name=NAME, person=False),  # noqa: B008  frozen
        open_count_max: int = OPEN_COUNT_MAX_DEFAULT,
        queue: Queue | None = None,
    ) -> None:
        """`by` answers where an answer does not say who gave it. With a `queue` answers come from there: whoever takes
        questions here is only shown them, and may end them.

        Raises InputError.
        """
        self.by, self._open_count_max, self._queue = as_recorded(by), open_count_max, queue
        self._grants: GrantStorage | None = None
        self._open: dict[ApprovalQuestion, None] = {}  # oldest first
        self._takers: dict[str, Taker] = {}  # of one execution each
        self._here: set[str] = set()  # executions whose questions the queue never sees
        self._readers: set[Questions] = set()
        self._waiting: deque[ApprovalQuestion] = deque()  # for whichever reader comes first
        self._news = asyncio.Event()

    @property
    def open(self) -> tuple[ApprovalQuestion, ...]:
        """Questions without an answer, taken by somebody or not; oldest first."""
        return tuple(self._open)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        take = self._takers.get(request.run_id) or (self._put if self._readers else None)
        if take is None and self._queue is not None:
            return await self._queue.ask(request)
        if take is None:
            return reject(request, NAME, "this application takes no questions")
        if len(self._open) >= self._open_count_max:
            return reject(
                request, "application:limit", f"{len(self._open)} approvals are open already; answer them first"
            )
        question = ApprovalQuestion(request, self.by, self._grants)
        self._open[question] = None
        try:
            if self._queue is not None and request.run_id not in self._here:
                return await _first(question, self._queue, take)
            take(question)
            return await question.wait()
        finally:
            del self._open[question]
            if question in self._waiting:
                self._waiting.remove(question)

    @contextmanager
    def questions(self) -> Generator[Questions]:
        """Take questions for the length of a `with` block. What was taken and not answered by its end is refused."""
        reader = Questions(self._waiting, self._news)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._leave(reader)

    @contextmanager
    def bound(self, take: Taker, *, here: bool = False) -> Generator[Callable[[str], None]]:
        """Give `take` the questions of every execution whose id is told, for the length of a `with` block. `here`: it
        answers them alone, also where there is a queue.
        """
        runs: set[str] = set()

        def begun(run_id: str) -> None:
            runs.add(run_id)
            self._takers[run_id] = take
            if here:
                self._here.add(run_id)

        try:
            yield begun
        finally:
            for run_id in runs:
                self._takers.pop(run_id, None)
                self._here.discard(run_id)
            for question in self.open:
                if question.request.run_id in runs:
                    question.give_up("the application stopped listening before it answered")

    @contextmanager
    def serving(self, grants: GrantStorage) -> Generator[Self]:
        """Ask for one application, whose approval grants are kept in `book`. Afterwards no iterator goes on."""
        if self._grants is not None:
            raise InputError("this EventApprover asks for another application already; make one for each")
        self._grants = grants
        try:
            yield self
        finally:
            self._grants = None
            for reader in tuple(self._readers):
                self._leave(reader)
            for question in self.open:
                question.give_up("the application has ended")

    def _put(self, question: ApprovalQuestion) -> None:
        self._waiting.append(question)
        self._news.set()

    def _leave(self, reader: Questions) -> None:
        self._readers.discard(reader)
        reader.close()
        if not self._readers:
            for question in self._waiting:
                question.give_up("this application takes no more questions")
            self._waiting.clear()


async def _first(question: ApprovalQuestion, queue: Queue, take: Taker) -> ApprovalAnswer:
    """The answer of a queue, unless the question is given up first. It is shown once it can be answered."""
    given_up = asyncio.ensure_future(question.wait())
    queued = asyncio.ensure_future(queue.ask(question.request, waits=lambda: take(question)))
    both = {given_up, queued}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return given_up.result() if given_up.done() else queued.result()
    finally:
        for one in both:
            one.cancel()  # the queue's question is taken back
        await finish(asyncio.wait(both))


class Questions:
    """An iterator over questions, each given to one reader. It ends when it is closed, with its application too."""

    def __init__(self, waiting: deque[ApprovalQuestion], news: asyncio.Event) -> None:
        self._waiting, self._news = waiting, news
        self._taken: list[ApprovalQuestion] = []
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ApprovalQuestion:
        while not self._closed:
            while self._waiting:
                question = self._waiting.popleft()
                if question.state is QueueState.WAITING:
                    self._taken = [one for one in self._taken if one.state is QueueState.WAITING]
                    self._taken.append(question)
                    return question
            self._news.clear()
            await self._news.wait()
        raise StopAsyncIteration

    def close(self) -> None:
        """Refuse what was taken and not answered."""
        self._closed = True
        self._news.set()
        for question in self._taken:
            question.give_up("the application stopped listening before it answered")


def as_recorded(by: Answerer) -> Answerer:
    """`by` under the name that is recorded. Raises InputError.

    SECURITY: records, and plans, tell programs from people by the beginning of a name.
    """
    if not by.name or not by.name.isprintable() or len(by.name) > _NAME_CHARS_MAX:
        problem = "the name of the answerer must be printable and have at most"
        raise InputError(f"{problem} {_NAME_CHARS_MAX} characters; give one like app:alice")
    if not by.person:
        return by if by.name.startswith(PROGRAMS) else replace(by, name=f"application:{by.name}")
    if by.name.startswith(PROGRAMS):
        raise InputError(f"{by.name!r} is the name of a program; name the person who answers, e.g. app:alice")
    return by
