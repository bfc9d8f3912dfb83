"""Answers to calls that wait, over HTTP. The queue of the organisation decides, whichever replica asks; what a
terminal's session asks is answered at the terminal, in this process.

SECURITY: a yes comes from another principal than whose code asks, with the scope `approve`; who runs code may refuse
its calls. To everybody else the question does not exist. A person is who logged in as one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moonpool.features.approvals.events import as_recorded
from moonpool.features.approvals.model import PROGRAMS, Answerer, ApprovalAnswerError, QueueState
from moonpool.features.approvals.service import check_may_approve, grant_terms
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.sessions.errors import SelfApprovalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.features.approvals.events import ApprovalQuestion
    from moonpool.features.approvals.model import QueuedRequest
    from moonpool.features.approvals.service import Approvals, GrantTerms
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions import messages

_NAME_CHARS_MAX: Final = 180  # a prefix of the records comes before it


async def open_requests(approvals: Approvals) -> Sequence[QueuedRequest]:
    """What waits for an answer, oldest first. Raises ApprovalQueueError."""
    return await asyncio.to_thread(approvals.requests)


async def answer_question(question: ApprovalQuestion, caller: HttpCaller, given: messages.AnswerApproval) -> None:
    """Answer a call of a terminal's session. Raises ApprovalAnswerError, InputError, JournalError."""
    by = answerer_of(caller, given.by)
    if given.approve:
        await question.approve(by=by, note=given.note, terms=_terms(given))
    else:
        await question.deny(given.note, by=by)


async def answer_request(
    approvals: Approvals, caller: HttpCaller, request_id: str, given: messages.AnswerApproval
) -> None:
    """Answer a call that waits; returns when whoever asked has the answer, or after some seconds.

    Raises SelfApprovalError, ApprovalAnswerError, InputError, JournalError, ApprovalQueueError.
    """
    terms = _terms(given)
    by = replace(as_recorded(answerer_of(caller, given.by)), principal=caller.principal)

    def answered() -> None:
        queued = next((one for one in approvals.requests() if one.request_id == request_id), None)
        is_own = queued is not None and queued.request.principal == caller.principal
        if queued is None or queued.state is not QueueState.WAITING or not ("approve" in caller.scopes or is_own):
            raise ApprovalAnswerError(f"request {request_id[:80]!r} cannot be answered: it is unknown, or over")
        if not given.approve:
            approvals.was_taken(approvals.deny(request_id, by, note=given.note), by)
            return
        if is_own:
            raise SelfApprovalError
        check_may_approve(queued.request, by, "somebody who has logged in has to answer")
        now, grant = approvals.approve(request_id, by, note=given.note, terms=terms)
        approvals.was_taken(now, by, grant)

    await finish(asyncio.to_thread(answered))  # an answer that has begun is given


def _terms(given: messages.AnswerApproval) -> GrantTerms | None:
    if given.keep_for is None:
        return None
    return grant_terms(given.keep_for, list(given.where), any_arguments=given.any_arguments)


def answerer_of(caller: HttpCaller, named: str) -> Answerer:
    """Who answered, for the records. SECURITY: the credential says who that is; what a client says stands behind it.

    At a terminal there is no credential: its command says whether its person or a program answered.
    """
    if caller.is_terminal and named:
        return Answerer(name=named, person=not named.startswith(PROGRAMS))
    shown = "".join(char if char.isprintable() else "?" for char in named)
    name = f"{caller.principal} ({shown})" if shown else caller.principal
    return Answerer(name=name[:_NAME_CHARS_MAX], person=caller.is_person)
