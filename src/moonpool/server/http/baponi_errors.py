"""Errors as Baponi's clients expect them: `{"error": WORD, "message": TEXT}`, the word by the status.

For the paths that Baponi has; sessions tell theirs as `sessions.errors` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.features.caller_limits.model import LimitExceededError
from moonpool.features.storage.model import UnknownTreeError
from moonpool.server.http.callers import AuthenticationError
from moonpool.server.http.sessions.bodies import json_answer
from moonpool.server.http.sessions.errors import RETRY_AFTER_S, error_body, status_of
from moonpool.server.http.sessions.operations import ErrorForm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

_PATHS: Final = ("/v1/sandbox/", "/v1/executions", "/v1/files/", "/v1/blobs/", "/v1/threads", "/v1/volumes",
    "/v1/webhooks/")  # fmt: skip
_WORDS: Final = {
    400: "validation_error", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed",
    408: "request_timeout", 409: "conflict", 411: "length_required", 413: "payload_too_large",
    415: "unsupported_media_type", 416: "range_not_satisfiable", 421: "misdirected_request", 429: "rate_limited",
    500: "internal_error", 502: "bad_gateway", 503: "service_unavailable", 504: "gateway_timeout",
}  # fmt: skip
_STATUS: Final = {"transfer_failed": 400, "transfer_timeout": 408}
"""Where it is another than sessions have."""
_UNAUTHORIZED: Final = "Invalid or revoked API key."
_UNKNOWN_TREE: Final = "there is no such thread or volume here; a thread is made by its first use"
"""SECURITY: one that is somebody else's and one that is not there read the same."""


class BaponiError(msgspec.Struct, frozen=True, kw_only=True):
    """What an error is in one word, and in one sentence."""

    error: str
    message: str


def is_baponi_path(path: str) -> bool:
    """Whether errors at this path are told in this form."""
    return path.startswith(_PATHS)


def baponi_answer(
    error: Exception, status: int | None = None, headers: Mapping[str, str] | None = None, *, whole: bool = False
) -> Response:
    """See `sessions.bodies.error_answer`."""
    body = error_body(error, whole=whole)
    status = status or _STATUS.get(body.code) or status_of(body)
    message = body.message
    if isinstance(error, AuthenticationError):
        message = _UNAUTHORIZED
    elif isinstance(error, UnknownTreeError):
        message = _UNKNOWN_TREE
    retry_s = error.retry_s if isinstance(error, LimitExceededError) else RETRY_AFTER_S
    retry = {"retry-after": str(retry_s)} if status in {429, 503} else {}
    answer = BaponiError(error=_WORDS.get(status, "internal_error"), message=message)
    return json_answer(answer, status, {**retry, **(headers or {})})


BAPONI_FORM: Final = ErrorForm(BaponiError, baponi_answer)
