"""Answers from a queue: somebody else, in another process, answers a request, or has answered it for a while already.

`QueueApprover` puts a question into the queue and looks for its answer, ever less often. `GrantedApprovals` looks for a
approval grant before anybody is asked. Both fail closed: a queue that cannot be used has not said yes.

INVARIANT: a request whose wait is cancelled is withdrawn. All that one approver does to the queue is done by one thread
in order, so a withdrawal never overtakes the request.
SECURITY: the call's own arguments are compared here with the conditions of approval grants; approvers never get them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

import anyio.to_thread

from moonpool.core.lookalikes import shown_name
from moonpool.features.approvals.model import QUEUE, WHOLE_CHARS_MAX, ApprovalQueueError, QueuedRequest
from moonpool.pipeline.approval import approve, reject

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalGrant, ApprovalQueue, ApprovalRequest
    from moonpool.features.approvals.notification import Announcer
    from moonpool.pipeline.approval import ApprovalService
    from moonpool.policy import CallFacts

_log = logging.getLogger(__name__)

_PAUSE_S_FIRST: Final = 0.05
PAUSE_S_MAX: Final = 0.4  # an answer that another replica took is here within half a second
_PAUSE_GROWTH: Final = 1.5
_PLAN_CHARS_MAX: Final = 7500  # the queue keeps a little more
_UNUSABLE: Final = "the queue of approvals cannot be used; the operator sees why"


class QueueApprover:
    """An `Approver` over a queue. `owner` names this process; `report` and `announcer` tell that something waits."""

    together: ClassVar[bool] = True

    def __init__(
        self,
        queue: ApprovalQueue,
        *,
        owner: str,
        report: Callable[[str], None] | None = None,
        announcer: Announcer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue, self._owner, self._clock = queue, owner, clock
        self._report, self._announcer = report or _log.warning, announcer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="moonpool-approvals")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await anyio.to_thread.run_sync(self._thread.shutdown)  # when it has withdrawn what it was told to
        if self._announcer is not None:
            await self._announcer.close()

    async def ask(self, request: ApprovalRequest, *, waits: Callable[[], None] | None = None) -> ApprovalAnswer:
        """`waits` is called once the question can be answered."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._queue.put, self._queued(request))
            if waits is not None:
                waits()
            self._report(f"{_name(request)} waits for approval: moonpool approvals show {request.request_id}")
            if self._announcer is not None:
                self._announcer.tell(request)
            return await self._wait(request)
        except asyncio.CancelledError:
            self._thread.submit(self._withdraw, request.request_id)
            raise
        except ApprovalQueueError as error:
            self._report(str(error))
            return reject(request, QUEUE, _UNUSABLE)

    async def _wait(self, request: ApprovalRequest) -> ApprovalAnswer:
        loop, pause_s = asyncio.get_running_loop(), _PAUSE_S_FIRST
        take = self._queue.take
        while (
            answer := await loop.run_in_executor(self._thread, take, request.request_id, request.arguments_digest)
        ) is None:
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * _PAUSE_GROWTH)
        return answer

    def _withdraw(self, request_id: str) -> None:
        try:
            self._queue.withdraw(request_id)
        except ApprovalQueueError as error:
            _log.warning("%s", error)  # it expires, or is abandoned when we end

    def _queued(self, request: ApprovalRequest) -> QueuedRequest:
        now, shown = self._clock(), _shown(request)
        whole = request.whole or ("" if shown is request.arguments else request.arguments)
        return QueuedRequest(
            request=replace(
                request,
                arguments=shown,
                cut=request.cut or shown is not request.arguments,
                whole=whole if len(whole) <= WHOLE_CHARS_MAX else "",
            ),
            asked_at=now,
            expires_at=now + request.expires_s,
            owner=self._owner,
        )


def _name(request: ApprovalRequest) -> str:
    return "a plan" if request.is_plan else f"a call of {request.server_id}.{shown_name(request.tool_name)}"


def _covers(answer: ApprovalGrant, request: ApprovalRequest, facts: CallFacts, now: float) -> bool:
    return answer.covers(
        facts,
        server_digest=request.server_digest,
        arguments_digest=request.arguments_digest,
        human_only=request.human_only,
        now=now,
    )


def _shown(request: ApprovalRequest) -> str:
    """SECURITY: a plan of which only the beginning would stand there is not shown at all; all of it is in `whole`."""
    if request.is_plan and len(request.arguments) > _PLAN_CHARS_MAX:
        return f"a plan that is too long for one screen: {request.reason}"
    return request.arguments


@dataclass(frozen=True, slots=True)
class GrantedApprovals:
    """An approval service that asks nobody where a person has answered for a while already.

    SECURITY: who answered for a while knew the call, not what the session would have read by then or how much it would
    have used: questions because of that are always asked.
    """

    approvals: ApprovalService
    queue: ApprovalQueue
    clock: Callable[[], float] = time.time

    async def settle(self, request: ApprovalRequest, facts: CallFacts | None = None) -> ApprovalAnswer:
        found = None if facts is None or request.of_the_moment else await self._covering(request, facts)
        if found is not None:
            return approve(request, f"standing:{found.answer_id} by {found.given_by}")
        return await self.approvals.settle(request, facts)

    async def _covering(self, request: ApprovalRequest, facts: CallFacts) -> ApprovalGrant | None:
        if self.queue.is_unused():
            return None  # as in most installations; a thread and back would cost a call 0.1 ms
        tool = facts.tool
        try:
            given = await anyio.to_thread.run_sync(self.queue.grants_for, facts.principal, tool.server_id, tool.name)
        except ApprovalQueueError as error:
            _log.warning("approval grants cannot be read, so a question is asked: %s", error)
            return None
        now = self.clock()
        return next((one for one in given if _covers(one, request, facts, now)), None)
