"""Approvals: one question to a person, one answer to exactly that question.

The approval service gives out requests and checks answers. An answer counts only for the request it names and the
arguments whose digest it repeats, once, before it expires; anything else, an approver that fails included, is a
rejection. Questions to one approver are put one after the other unless it takes several `together`; how many may wait,
and of how many executions, is bounded.

SECURITY: approvers run on the host and are passed in by the opener of the session. Nothing that code in a sandbox sends
reaches this module except as the text of a question, which is redacted and bounded before a person sees it. An
automatic approver never answers a question that policy reserved for a person (X-06).

The stage that asks is in `moonpool.pipeline.pipeline`; the terminal prompt belongs to the CLI; answers from a queue,
and approval grants, are in `features.approvals.queue_approver`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from moonpool.core.calls import ApprovalState
from moonpool.core.lookalikes import shown_name
from moonpool.core.shares import Shares
from moonpool.features.approvals.model import EXPIRY_S_DEFAULT, NOTE_CHARS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest
    from moonpool.policy import CallFacts

OPEN_COUNT_MAX_DEFAULT: Final = 64
LIMIT: Final = "application:limit"
"""Who refused, in the journal, where too many approvals are open."""
WAITING_RUNS_MAX_DEFAULT: Final = 32


class Approver(Protocol):
    """Asks a person or a program and waits; must pass `tests/pipeline/test_approver_contract.py`.

    May be cancelled at any time: the request is then void and can no longer be answered.
    """

    together: ClassVar[bool]
    """Whether it takes further requests while one is open; else the approval service sends one after the other."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer: ...


def approve(request: ApprovalRequest, approver: str, note: str = "") -> ApprovalAnswer:
    return request.answered(ApprovalState.APPROVED, approver, note)


def reject(request: ApprovalRequest, approver: str, note: str = "") -> ApprovalAnswer:
    return request.answered(ApprovalState.REJECTED, approver, note)


class AutoApprover:
    """The application answers yes in the caller's name, and the audit trail says so. Never for human-only calls."""

    together: ClassVar[bool] = False

    def __init__(self, name: str = "application:auto") -> None:
        self._name = name

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if request.human_only:
            return reject(request, self._name, "policy wants a person to answer; automatic approval does not count")
        return approve(request, self._name)


class DenyApprover:
    """Rejects, because nobody can be asked, and tells the operator, not the code, what would allow the call.

    `why` is for both, `hint` for the operator.
    """

    together: ClassVar[bool] = False

    def __init__(
        self,
        report: Callable[[str], None] | None = None,
        *,
        why: str = "nobody can be asked here",
        hint: str = "",
    ) -> None:
        self._report = report
        self._why, self._hint = why, hint

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if request.is_plan:  # a plan keeps waiting; its caller says how it is approved
            return reject(request, "application:deny", self._why)
        if self._report is not None:
            name = f"{request.server_id}.{shown_name(request.tool_name)}"
            told = f"{name} needs approval ({request.reason}): {self._why}"
            told += f" ({self._hint})" if self._hint else ""
            self._report(f"{told}; to allow it: {request.operators_remedy}")
        return reject(request, "application:deny", f"{self._why}; the operator is told what would allow it")


class ScriptedApprover:
    """Fake for tests: answers with the given states in order, then repeats the last one; records the questions."""

    together: ClassVar[bool] = False

    def __init__(self, states: Iterable[ApprovalState], *, approver: str = "scripted") -> None:
        self._states = list(states)
        self._approver = approver
        self.requests: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.requests.append(request)
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return request.answered(state, self._approver)


class ApprovalService(Protocol):
    """Settles requests. Implemented by `LiveApprovals` and by wrappers of it, e.g. to pause a deadline meanwhile.

    SECURITY: `facts` hold the call's own arguments, not redacted. They never go to an approver.
    """

    async def settle(self, request: ApprovalRequest, facts: CallFacts | None = None) -> ApprovalAnswer: ...


class ApprovalBounds:
    """How many approvals may be open, and how many executions wait for one: in all, per tenant, per principal."""

    def __init__(
        self, open_max: int = OPEN_COUNT_MAX_DEFAULT, waiting_runs_max: int = WAITING_RUNS_MAX_DEFAULT
    ) -> None:
        self.open, self.waiting_runs = Shares(open_max), Shares(waiting_runs_max)


class LiveApprovals:
    """Sends requests to one approver and accepts only answers that match. One per approver."""

    def __init__(
        self,
        approver: Approver,
        *,
        expiry_s: float = EXPIRY_S_DEFAULT,
        tenant_id: str = "",
        bounds: ApprovalBounds | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`bounds` are those of the process; by default this approver has its own."""
        self._approver, self._expiry_s, self._clock = approver, expiry_s, clock
        self._tenant_id, self._bounds = tenant_id, bounds or ApprovalBounds()
        self._turn = nullcontext() if approver.together else asyncio.Semaphore(1)
        self._open_of_run: defaultdict[str, dict[str, ApprovalRequest]] = defaultdict(dict)
        self.open_count = 0

    def waiting(self, run_id: str) -> tuple[ApprovalRequest, ...]:
        """What an execution waits for now, in the order it was asked."""
        return tuple(self._open_of_run[run_id].values()) if run_id in self._open_of_run else ()

    async def settle(self, request: ApprovalRequest, facts: CallFacts | None = None) -> ApprovalAnswer:
        """Ask, and return an answer that counts. Never raises but for cancellation."""
        del facts
        whose, bounds = (self._tenant_id, request.principal), self._bounds
        if bounds.open.reached(*whose):
            bounds.open.turn_away(*whose)
            return reject(request, LIMIT, _too_many("approvals are open", self.open_count))
        new = request.run_id not in self._open_of_run
        if new and bounds.waiting_runs.reached(*whose):
            bounds.waiting_runs.turn_away(*whose)
            return reject(request, LIMIT, _too_many("executions wait for approval", len(self._open_of_run)))
        bounds.open.take(*whose)
        if new:
            bounds.waiting_runs.take(*whose)
        request = replace(request, request_id=uuid.uuid4().hex, expires_s=self._expiry_s)
        deadline = self._clock() + self._expiry_s
        self.open_count += 1
        self._open_of_run[request.run_id][request.request_id] = request
        try:
            async with asyncio.timeout(self._expiry_s):
                async with self._turn:
                    answer = await self._approver.ask(replace(request, expires_s=max(0.0, deadline - self._clock())))
        except TimeoutError:
            return _expired(request, self._expiry_s)
        except Exception as exc:  # noqa: BLE001  an approver that fails has not said yes
            return reject(request, "application:error", f"the approver failed ({type(exc).__name__})")
        finally:
            self.open_count -= 1
            bounds.open.give_back(*whose)
            del self._open_of_run[request.run_id][request.request_id]
            if not self._open_of_run[request.run_id]:
                del self._open_of_run[request.run_id]
                bounds.waiting_runs.give_back(*whose)
        if self._clock() > deadline:
            return _expired(request, self._expiry_s)
        return checked_answer(request, answer)


def _too_many(what: str, own: int) -> str:
    """Why one more is refused: `own` are this caller's, 0 where other tenants fill the bound of the process."""
    if own:
        return f"{own} {what} already; answer them first"
    return f"too many {what} for other callers; try again later"


def checked_answer(request: ApprovalRequest, answer: ApprovalAnswer) -> ApprovalAnswer:
    """SECURITY: a yes to another question, or to other arguments, is a no to this one."""
    bound = answer.request_id == request.request_id and answer.arguments_digest == request.arguments_digest
    final = answer.state in {ApprovalState.APPROVED, ApprovalState.REJECTED, ApprovalState.EXPIRED}
    if not bound or not final:
        return reject(request, answer.approver, "the answer does not belong to this call")
    return replace(answer, note=answer.note[:NOTE_CHARS_MAX])


def _expired(request: ApprovalRequest, expiry_s: float) -> ApprovalAnswer:
    return request.answered(ApprovalState.EXPIRED, "", f"nobody answered within {expiry_s:g} s")
