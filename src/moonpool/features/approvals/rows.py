"""Requests and approval grants as rows of a table, and how many there may be; the same in a file and in a database."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.calls import ApprovalState
from moonpool.core.shares import Level, stored_reached
from moonpool.features.approvals.model import (
    QUEUE,
    WHOLE_CHARS_MAX,
    ApprovalAnswer,
    ApprovalAnswerError,
    ApprovalGrant,
    ApprovalQueueError,
    ApprovalRequest,
    QueuedRequest,
    QueueState,
)
from moonpool.policy import Condition, Glob

if TYPE_CHECKING:
    from collections.abc import Mapping

WAITING_MAX: Final = 256
"""Requests of one principal that may wait, three quarters of those of all."""
WAITING_CHARS_MAX: Final = 64 * 1024**2
"""What the arguments of those may take, three quarters of what those of all may."""
GRANTS_MAX: Final = 1000
"""Approval grants of one principal, three quarters of those of all."""
OVER_MAX: Final = 2000
"""Requests that are over; the oldest make room."""
KEPT_S: Final = 7 * 86_400.0  # requests that are over
TEXT_CHARS_MAX: Final = 8000
EXPIRY_SLACK_S: Final = 1.0  # who waits gives up at the expiry; clocks and threads differ a little
OPEN: Final = (QueueState.WAITING, QueueState.APPROVED, QueueState.DENIED)
"""States of a request whose asker may still be there."""

_OF_THE_ASKER: Final = {"remedy", "of_the_moment", "plan_effect", "expires_s"}
"""What of a request whoever answers it elsewhere does not need."""
_ASKED: Final = tuple(field.name for field in fields(ApprovalRequest) if field.name not in _OF_THE_ASKER)
_KEPT: Final = tuple(field.name for field in fields(QueuedRequest) if field.name != "request")
REQUEST_COLUMNS: Final = (*_ASKED, *_KEPT)
GRANT_COLUMNS: Final = tuple("conditions" if one.name == "where" else one.name for one in fields(ApprovalGrant))


def row_of_request(queued: QueuedRequest) -> dict[str, Any]:
    """Its row, in the order of the columns, with texts cut."""
    return {name: stored(getattr(queued.request if name in _ASKED else queued, name), name) for name in REQUEST_COLUMNS}


def request_of(row: Mapping[Any, Any]) -> QueuedRequest:
    """The request that a row holds."""
    asked = {name: row[name] for name in _ASKED}
    asked |= {"human_only": bool(asked["human_only"]), "cut": bool(asked["cut"])}
    kept = {name: row[name] for name in _KEPT}
    kept["state"] = QueueState(kept["state"])
    return QueuedRequest(request=ApprovalRequest(**asked), **kept)


def row_of_grant(grant: ApprovalGrant) -> dict[str, Any]:
    """Its row, in the order of the columns."""
    conditions = json.dumps([condition.to_json() for condition in grant.where])
    return {name: conditions if name == "conditions" else getattr(grant, name) for name in GRANT_COLUMNS}


def grant_of(row: Mapping[Any, Any], where: object) -> ApprovalGrant:
    """The grant that a row in `where` holds. Raises ApprovalQueueError."""
    members: dict[str, Any] = {name: row[name] for name in GRANT_COLUMNS}
    try:
        kept = json.loads(members.pop("conditions"))
        conditions = tuple(Condition(str(one["at"]), Glob(tuple(map(str, one["glob"])))) for one in kept)
    except (ValueError, TypeError, KeyError) as exc:
        raise ApprovalQueueError(
            f"approval grant {row['answer_id']} in {where} is damaged; end it with `moonpool approvals rules --remove`"
        ) from exc
    members |= {"where": conditions, "human_only": bool(members["human_only"])}
    return ApprovalGrant(**members)


def room_for_request(count: int, own_count: int, size: int, own_size: int) -> None:
    """Raises ApprovalQueueError when too many requests wait, of this principal or of all."""
    full = stored_reached(count, own_count, WAITING_MAX) or stored_reached(size, own_size, WAITING_CHARS_MAX)
    if full:
        whose = "of yours" if full is Level.PRINCIPAL else "of all callers"
        raise ApprovalQueueError(f"too many requests {whose} wait for approval already; answer some of them first")


def room_for_grant(count: int, own_count: int) -> None:
    """Raises ApprovalQueueError when there are too many, of this principal or of all."""
    if stored_reached(count, own_count, GRANTS_MAX):
        raise ApprovalQueueError(f"there are {count} approval grants; remove some, or answer once")


def as_answer(request_id: str, arguments_digest: str, taken: tuple[str, str, str] | None) -> ApprovalAnswer:
    """What whoever asked is told of a request that is over; None: it is gone. SECURITY: what is not a yes is a no."""
    gone = (QueueState.DENIED, "", "the request is no longer in the queue, or its answer was taken already")
    state, approver, note = taken or gone
    match state:
        case QueueState.APPROVED:
            told = ApprovalState.APPROVED, approver, note
        case QueueState.EXPIRED:
            told = ApprovalState.EXPIRED, "", "no answer came in time"
        case _:
            told = ApprovalState.REJECTED, approver or QUEUE, note or "a person refused"
    return ApprovalAnswer(
        request_id=request_id, arguments_digest=arguments_digest, state=told[0], approver=told[1], note=told[2]
    )


def not_answered(request_id: str, after: QueuedRequest | None) -> ApprovalAnswerError:
    """Why a request that is now `after` could not be answered."""
    if after is None:
        return ApprovalAnswerError(f"there is no request {request_id!r}; `moonpool approvals list` shows those")
    return ApprovalAnswerError(f"request {request_id} cannot be answered any more: it is {after.state}")


def check_heard(answered: QueuedRequest, state: str | None) -> None:
    """Raises ApprovalAnswerError when a request that was answered is in another state by now; None: gone."""
    if state != answered.state:
        after = "gone" if state is None else state
        raise ApprovalAnswerError(f"the answer to request {answered.request_id} came too late: it is {after}")


def stored(value: object, name: str) -> object:
    """A text as it is kept: cut, and without halves of characters."""
    most = WHOLE_CHARS_MAX if name == "whole" else TEXT_CHARS_MAX
    return value[:most].encode("utf-8", "replace").decode() if isinstance(value, str) else value
