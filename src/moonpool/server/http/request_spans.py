"""The span of one HTTP request: which route, how it was answered. No path, query, address or header is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.server.http.revisions import member
from moonpool.tracing.spans import SPAN, TRACEPARENT, TraceParent

if TYPE_CHECKING:
    from starlette.types import Scope

    from moonpool.tracing.spans import Span, Tracing

_SPAN: Final = "moonpool.span"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADER: Final = TRACEPARENT.encode()


def begin_request(tracing: Tracing, scope: Scope) -> None:
    """Begin the span of an admitted request, in its caller's trace if it names one.

    SECURITY: nobody else can fill the queue of spans, or put any into a trace.
    """
    given = [value for name, value in scope["headers"] if name == _HEADER]
    parent = TraceParent.parse(given[0].decode("latin-1")) if len(given) == 1 else None
    method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
    span = tracing.begin(method, "server", parent)
    if span is not None:
        span.put("http.request.method", method)
        scope[_SPAN] = span
        SPAN.set(span)


def end_request(scope: Scope, status: int) -> None:
    """It was answered; 0: its connection broke first."""
    span: Span | None = scope.get(_SPAN)
    if span is None:
        return
    if (route := getattr(scope.get("route"), "path", None)) is not None:
        template = f"{scope.get('root_path', '')}{route}"
        span.put("http.route", template)
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        span.rename(f"{method} {template}")
    if status:
        span.put("http.response.status_code", status)
    span.end(str(status) if status >= 500 else "" if status else "cancelled")


def hand_on(scope: Scope, messages: Any) -> None:
    """Name the request's span in decoded messages of MCP that name none themselves.

    A server of a connection answers in a task of its own, which knows the message but not the HTTP request.
    """
    span: Span | None = scope.get(_SPAN)
    if span is None:
        return
    for message in cast("list[object]", messages) if isinstance(messages, list) else [messages]:
        params = member(message, "params")
        if isinstance(params, dict):
            meta = cast("dict[str, Any]", params).setdefault("_meta", {})
            if isinstance(meta, dict) and TraceParent.parse(cast("dict[str, Any]", meta).get(TRACEPARENT)) is None:
                meta[TRACEPARENT] = str(span.place)
