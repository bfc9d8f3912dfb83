"""What can be wrong with a request about sessions, and the one form in which every error is told.

SECURITY: an error of the host may name settings and places of it; whoever calls from elsewhere reads that it failed,
the log has why.
"""

from __future__ import annotations

import logging
from typing import Final

from moonpool.core.errors import Fault, MoonpoolError, told
from moonpool.features.approvals.model import ApprovalAnswerError
from moonpool.features.caller_limits.model import LimitExceededError
from moonpool.server.http.sessions.messages import ErrorBody

_log = logging.getLogger(__name__)


class UnknownSessionError(MoonpoolError):
    """There is no such session, execution or question for this caller: closed, expired, or never there."""

    code = "session_unknown"
    fault = Fault.CALLER

    def __init__(self, what: str = "session") -> None:
        super().__init__(
            f"there is no such {what} here: it has ended, has expired, was never there, or another replica of the "
            "service has it, if requests of one session do not reach one replica; open another"
        )


class SelfApprovalError(ApprovalAnswerError):
    """Nobody approves the calls of their own code. The call still waits."""

    code = "self_approval"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__(
            "nobody approves the calls of their own code; another key or person of the organisation with the scope "
            "approve answers (moonpool.connect(..., approver=...))"
        )


class TooManySessionsError(MoonpoolError):
    """This caller, or its organisation, has as many sessions or executions as it may have. Nothing was opened."""

    code = "too_many_sessions"
    fault = Fault.CALLER
    retryable = True


class BodyTooLargeError(MoonpoolError):
    """The body of a request is larger than one may be. It was not read to its end."""

    code = "body_too_large"
    fault = Fault.CALLER


class ExecutionIdUsedError(MoonpoolError):
    """Another execution of this session has this id. Nothing was run."""

    code = "execution_id_used"
    fault = Fault.CALLER


class ServiceClosingError(MoonpoolError):
    """The service is shutting down. Nothing was begun."""

    code = "service_closing"
    fault = Fault.HOST
    _names_host = False
    retryable = True

    def __init__(self) -> None:
        super().__init__("the service is shutting down; try again when it is back")


class UnknownPathError(MoonpoolError):
    """There is nothing at this path, or not with this method."""

    code = "path_unknown"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__("there is nothing at this path with this method; see /v1/openapi.json")


class ProfileForbidsError(MoonpoolError):
    """The credential is good for one profile of MCP only. Nothing was done."""

    code = "profile_forbids"
    fault = Fault.CALLER

    def __init__(self, profile: str) -> None:
        super().__init__(f"this credential is for the profile {profile[:60]!r} only; use one without a profile")


class ExecutionUnwantedError(MoonpoolError):
    """An execution was ended before its turn came. Nothing of it was run."""

    code = "execution_unwanted"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__("the execution was ended before its turn came")


class ServiceFailedError(MoonpoolError):
    """A bug of Moonpool in a request. The service's log has it."""

    code = "service_failed"
    fault = Fault.HOST
    _names_host = False

    def __init__(self) -> None:
        super().__init__("the service failed at this; its log says why")


_STATUS: Final[dict[str, int]] = {
    "consent_forbidden": 403,
    "operator_only": 403,
    "profile_forbids": 403,
    "scope_missing": 403,
    "self_approval": 403,
    "storage_off": 403,
    "execution_off": 403,
    "url_refused": 403,
    "volume_read_only": 403,
    "configuration_unknown": 404,
    "key_unknown": 404,
    "organisation_unknown": 404,
    "path_unknown": 404,
    "tree_unknown": 404,
    "file_unknown": 404,
    "range_unsatisfiable": 416,
    "path_taken": 409,
    "thread_busy": 409,
    "volume_exists": 409,
    "session_unknown": 404,
    "file_missing": 404,
    "not_in_catalog": 404,
    "execution_unknown": 404,
    "approval_not_answerable": 409,
    "checkpoint_failed": 409,
    "configuration_conflict": 409,
    "configuration_lost": 409,
    "execution_id_used": 409,
    "execution_over": 409,
    "plan_unusable": 409,
    "target_exists": 409,
    "body_too_large": 413,
    "file_too_large": 413,
    "background_runs_busy": 429,
    "limit_exceeded": 429,
    "too_many_sessions": 429,
    "too_many_transfers": 429,
    "storage_full": 413,
}
_BY_FAULT: Final = {Fault.CALLER: 400, Fault.GUEST: 409, Fault.UPSTREAM: 502, Fault.HOST: 500}
RETRY_AFTER_S: Final = 1


def error_body(error: Exception, *, whole: bool = False) -> ErrorBody:
    """What a caller is told; `whole`: also of the host, whose own user it is."""
    if not isinstance(error, MoonpoolError):
        _log.error("a bug of Moonpool in a request about a session", exc_info=error)
        error = ServiceFailedError()
    message = told(error, hides_host=not whole)
    if message != str(error):
        _log.warning("a request about a session failed: %s", error)
    data = error.data if isinstance(error, LimitExceededError) else None
    return ErrorBody(code=error.code, message=message, fault=error.fault.value, retryable=error.retryable, data=data)


def status_of(body: ErrorBody) -> int:
    """The HTTP status of an answer with this body."""
    if body.code in _STATUS:
        return _STATUS[body.code]
    return 503 if body.fault == "host" and body.retryable else _BY_FAULT[Fault(body.fault)]
