"""Errors of `/v1` in the form that Baponi's clients read: `{"error": WORD, "message": SENTENCE}`, and nothing else.

What an error is, its status and its sentence are those of every other path (`errors`); only the form is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moonpool.server.http.sessions.messages import ErrorBody

_PATHS: Final = ("/v1/sandbox/", "/v1/executions", "/v1/files/", "/v1/blobs/", "/v1/webhooks/")
_WORDS: Final = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "payload_too_large",
    429: "rate_limited",
    503: "service_unavailable",
    504: "gateway_timeout",
}
_UNAUTHORIZED: Final = "Invalid or revoked API key."


def is_plain(path: str) -> bool:
    """Whether errors at this path have this form."""
    return path.startswith(_PATHS)


def plain_body(body: ErrorBody, status: int) -> dict[str, str]:
    """The answer with this status."""
    otherwise = "internal" if status >= 500 else "validation_error"
    message = _UNAUTHORIZED if status == 401 else body.message
    return {"error": _WORDS.get(status, otherwise), "message": message}
