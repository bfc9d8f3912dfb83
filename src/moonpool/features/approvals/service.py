"""Answering queued approvals: list, find, approve, deny, and approval grants.

For the command line now; whatever shows the queue elsewhere calls the same, and so does an application that answers by
itself (`events`) and wants an answer to stand. Blocking: call from a worker thread.

SECURITY: whoever answers says who they are and whether a person is there to see the question (`person`); a question
that policy reserves for a person is not answered otherwise. Code in a sandbox reaches none of this: it has neither the
file nor a call for it.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, cast

from moonpool.core.audit_records import ApprovalGrantRecord, time_stamp
from moonpool.core.durations import duration_s
from moonpool.core.errors import InputError
from moonpool.core.json import digest_json
from moonpool.features.approvals.model import (
    GRANT_S_MAX,
    Answerer,
    ApprovalAnswerError,
    ApprovalGrant,
    ApprovalQueue,
    QueueState,
)
from moonpool.policy import Condition, Glob
from moonpool.policy.findings import Finding
from moonpool.store.outbox import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from moonpool.core.json import JsonValue
    from moonpool.features.approvals.model import ApprovalRequest, QueuedRequest

_CONDITIONS_MAX: Final = 32
_PREFIX_CHARS_MIN: Final = 8
_TAKEN_WITHIN_S: Final = 3.0  # who asks looks every second
_PAUSE_S: Final = 0.05


class ApprovalStorage(ApprovalQueue, Protocol):
    """A queue as whoever answers uses it, a file or in a database. Blocking; its methods raise ApprovalQueueError."""

    def deliver_left(self, write: Callable[..., None], /) -> None: ...
    def answer(
        self,
        request_id: str,
        arguments_digest: str,
        /,
        *,
        approved: bool,
        approver: str,
        note: str = "",
        grant: ApprovalGrant | None = None,
        delivery: Delivery | None = None,
    ) -> QueuedRequest: ...
    def was_taken(self, answered: QueuedRequest, /) -> bool: ...
    def keep_grant(self, grant: ApprovalGrant, delivery: Delivery, /) -> None: ...
    def requests(self, *, waiting_only: bool) -> Sequence[QueuedRequest]: ...
    def grants(self) -> Sequence[ApprovalGrant]: ...
    def remove_grant(self, answer_id: str, delivery: Delivery, /) -> bool: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """For how long an approval also covers further calls, and which: with the same arguments, unless it says others."""

    seconds: float
    where: tuple[Condition, ...] = ()  # whatever meets all of these
    any_arguments: bool = False


class Approvals:
    """The queue as whoever answers sees it."""

    def __init__(
        self,
        store: ApprovalStorage,
        record: Callable[[ApprovalGrantRecord], None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`record` writes to the audit journal before an approval grant counts, or raises JournalError."""
        self._store, self._record, self._clock = store, record, clock

    def deliver_left(self) -> None:
        """Put on record what processes that ended did not; then it counts. Raises ApprovalQueueError."""
        self._store.deliver_left(self._record)

    def requests(self, *, waiting_only: bool = True) -> Sequence[QueuedRequest]:
        """Requests, oldest first. Raises ApprovalQueueError."""
        self.deliver_left()
        return self._store.requests(waiting_only=waiting_only)

    def find(self, request_id: str) -> QueuedRequest:
        """The request of this id, or whose id begins so. Raises ApprovalAnswerError."""
        long_enough = len(request_id) >= _PREFIX_CHARS_MIN
        found = [one for one in self.requests(waiting_only=False) if one.request_id.startswith(request_id)]
        exact = [one for one in found if one.request_id == request_id]
        if exact or (long_enough and len(found) == 1):
            return (exact or found)[0]
        if found and not long_enough:
            problem = f"{request_id!r} is too short for an id; give its first {_PREFIX_CHARS_MIN} characters or more"
            raise ApprovalAnswerError(problem)
        if found:
            raise ApprovalAnswerError(f"{request_id!r} begins {len(found)} requests; give more of the id")
        raise ApprovalAnswerError(f"there is no request {request_id[:80]!r}; `moonpool approvals list` shows those")

    def approve(
        self,
        request_id: str,
        answerer: Answerer,
        *,
        note: str = "",
        terms: GrantTerms | None = None,
        saw_whole: bool = False,
    ) -> tuple[QueuedRequest, ApprovalGrant | None]:
        """Say yes, once or for a while. `saw_whole`: the answerer was shown all of it, not only `arguments`.

        Raises InputError, ApprovalAnswerError, ApprovalQueueError; then nothing was answered.
        """
        request = self.approvable(request_id, answerer, terms=terms, saw_whole=saw_whole).request
        grant = None if terms is None else self._new_grant(request, answerer, terms)
        answered = self._store.answer(
            request.request_id,
            request.arguments_digest,
            approved=True,
            approver=answerer.name,
            note=note,
            grant=grant,
            delivery=None if grant is None else Delivery(_given(grant), self._record),
        )
        return answered, grant

    def approvable(
        self, request_id: str, answerer: Answerer, *, terms: GrantTerms | None = None, saw_whole: bool = False
    ) -> QueuedRequest:
        """The request, if `approve` would take this answer now. Raises InputError, ApprovalAnswerError."""
        queued = self.find(request_id)
        request = queued.request
        if queued.state is not QueueState.WAITING:
            raise ApprovalAnswerError(f"request {request.request_id} cannot be answered any more: it is {queued.state}")
        check_may_approve(request, answerer, "run `moonpool approvals approve` at a terminal, in its foreground")
        if terms is not None:
            check_seen(request, whole=saw_whole)
            _check_covers(request, terms.where)
        return queued

    def deny(self, request_id: str, answerer: Answerer, *, note: str = "") -> QueuedRequest:
        """Say no. Raises ApprovalAnswerError, ApprovalQueueError."""
        request = self.find(request_id).request
        return self._store.answer(
            request.request_id, request.arguments_digest, approved=False, approver=answerer.name, note=note
        )

    def was_taken(
        self,
        answered: QueuedRequest,
        answerer: Answerer,
        grant: ApprovalGrant | None = None,
        *,
        within_s: float = _TAKEN_WITHIN_S,
    ) -> bool:
        """Wait until who asked has the answer; False when it still may take it.

        Raises ApprovalAnswerError when the answer came too late: the request expired or its run ended before it was
        taken. Then nothing was answered, and nothing stands for a while.
        """
        deadline = time.monotonic() + within_s
        try:
            while not (taken := self._store.was_taken(answered)) and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
        except ApprovalAnswerError:
            if grant is not None:
                self.remove_grant(grant.answer_id, answerer)
            raise
        return taken

    def give(
        self, request: ApprovalRequest, answerer: Answerer, terms: GrantTerms, *, saw_whole: bool = False
    ) -> ApprovalGrant:
        """Say yes for a while to a request that waits elsewhere; `saw_whole` as in `approve`.

        Raises ApprovalAnswerError, ApprovalQueueError, JournalError.
        """
        check_may_approve(request, answerer, "show it to one")
        check_seen(request, whole=saw_whole)
        grant = self._new_grant(request, answerer, terms)
        self._store.keep_grant(grant, Delivery(_given(grant), self._record))
        return grant

    def grants(self) -> Sequence[ApprovalGrant]:
        """Approval grants in force, oldest first."""
        self.deliver_left()
        return self._store.grants()

    def remove_grant(self, answer_id: str, answerer: Answerer) -> str:
        """From now on somebody is asked again; the first 8 characters of an id are enough. Returns all of it.

        Raises ApprovalAnswerError.
        """
        self.deliver_left()
        if self._removed(answer_id, answerer):  # first, because others may be damaged and cannot be listed
            return answer_id
        long_enough = len(answer_id) >= _PREFIX_CHARS_MIN
        ids = [one.answer_id for one in self.grants() if long_enough and one.answer_id.startswith(answer_id)]
        if len(ids) > 1:
            raise ApprovalAnswerError(
                f"{answer_id!r} begins the ids of {len(ids)} approval grants; give more of the id"
            )
        if ids and self._removed(ids[0], answerer):
            return ids[0]
        problem = f"there is no approval grant {answer_id[:80]!r}"
        raise ApprovalAnswerError(f"{problem}; `moonpool approvals rules` shows those in force")

    def _removed(self, answer_id: str, answerer: Answerer) -> bool:
        removed = ApprovalGrantRecord(
            run_id=answer_id, at=_stamp(self._clock()), what="removed", approver=answerer.name
        )
        return self._store.remove_grant(answer_id, Delivery(removed, self._record))

    def _new_grant(self, request: ApprovalRequest, answerer: Answerer, terms: GrantTerms) -> ApprovalGrant:
        now = self._clock()
        return ApprovalGrant(
            answer_id=uuid.uuid4().hex[:16],
            principal=request.principal,
            server_id=request.server_id,
            tool_name=request.tool_name,
            tool_digest=request.tool_digest,
            server_digest=request.server_digest,
            server_address=request.server_address,
            where=terms.where,
            arguments_digest="" if terms.where or terms.any_arguments else request.arguments_digest,
            human_only=request.human_only,
            given_by=answerer.name,
            given_at=now,
            expires_at=now + terms.seconds,
            request_id=request.request_id,
        )


def _given(grant: ApprovalGrant) -> ApprovalGrantRecord:
    return ApprovalGrantRecord(
        run_id=grant.answer_id,
        at=_stamp(grant.given_at),
        what="given",
        approver=grant.given_by,
        request_id=grant.request_id,
        principal=grant.principal,
        server_id=grant.server_id,
        tool_name=grant.tool_name,
        tool_digest=grant.tool_digest,
        conditions_digest=grant.arguments_digest or digest_json([condition.to_json() for condition in grant.where]),
        human_only=grant.human_only,
        expires_at=_stamp(grant.expires_at),
    )


def check_may_approve(request: ApprovalRequest, answerer: Answerer, remedy: str) -> None:
    """SECURITY: not one's own code's calls, and only a person where policy wants one. Raises ApprovalAnswerError."""
    if problem := answerer.problem(principal=request.principal, human_only=request.human_only):
        raise ApprovalAnswerError(f"request {request.request_id} cannot be approved so: {problem}; {remedy}")


def check_seen(request: ApprovalRequest, *, whole: bool) -> None:
    """SECURITY: nothing is approved for a while by who has not seen what it is about. Raises ApprovalAnswerError."""
    if request.is_plan or request.is_registration:
        problem = f"request {request.request_id} is not about a call of a tool"
        raise ApprovalAnswerError(f"{problem}, so it cannot have an approval grant; approve it this once")
    if not request.cut or (whole and request.whole):
        return
    problem = f"not all of request {request.request_id} was shown, so it is not approved for a while"
    if request.whole:
        raise ApprovalAnswerError(f"{problem}; read all of it (`approvals approve --full`), or approve this one call")
    raise ApprovalAnswerError(f"{problem}; approve this one call, or write a rule into a policy")


def _check_covers(request: ApprovalRequest, where: tuple[Condition, ...]) -> None:
    """A rule that would not cover the call it is given for is a slip. Raises InputError.

    What is shown of the arguments may be cut or redacted; then nobody can tell, and the rule is taken as it is.
    """
    try:
        arguments = cast("JsonValue", json.loads(request.whole or request.arguments))
    except ValueError:
        return
    for condition in where:
        finding, unread = condition.evaluate(arguments)
        if finding is Finding.HOLDS or "[REDACTED" in request.arguments:
            continue
        there = ", ".join(f"/{name}" for name in arguments) if isinstance(arguments, dict) else ""
        raise InputError(
            f"the call of request {request.request_id} itself does not meet the condition on {condition.at}, so "
            f"further ones like it would not either; it has {there or 'no arguments'}"
            f"{', which cannot be read for sure, because ' if unread else ''}{unread}"
        )


def _stamp(seconds: float) -> str:
    return time_stamp(datetime.fromtimestamp(seconds, UTC))


def grant_terms(duration: str, where: Iterable[str] = (), *, any_arguments: bool = False) -> GrantTerms:
    """Terms from texts like `7d` and `/repo=acme/*`; without `where` the same arguments, or any. Raises InputError."""
    seconds = duration_s(duration)
    if seconds > GRANT_S_MAX:
        raise InputError(f"{duration} is too long; an approval grant lasts at most {GRANT_S_MAX / 86_400:.0f} days")
    conditions = tuple(_condition(text) for text in where)
    if len(conditions) > _CONDITIONS_MAX:
        raise InputError(f"{len(conditions)} conditions: give at most {_CONDITIONS_MAX}")
    if conditions and any_arguments:
        raise InputError("a condition on the arguments and any arguments exclude each other; give one")
    return GrantTerms(seconds, conditions, any_arguments)


def _condition(text: str) -> Condition:
    at, equals, glob = text.partition("=")
    if not equals or not at.startswith("/"):
        raise InputError(f"{text[:80]!r} is not a condition; give POINTER=GLOB, e.g. /repo=acme/*")
    try:
        return Condition(at, Glob((glob,)))
    except ValueError as exc:
        raise InputError(f"condition {text[:80]!r}: {exc}") from None
