"""Spans made with OpenTelemetry's interface for libraries, for whatever provider stands behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from moonpool.core.phrases import printable, storable
from moonpool.tracing.spans import TraceParent

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

    from moonpool.tracing.spans import Attribute, Kind

TEXT_CHARS_MAX: Final = 200
_KINDS: Final = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}


class TracerSpan:
    """A `Span`. INVARIANT: no exception is recorded and no status has a description: both would be others' text."""

    __slots__ = ("_span", "_tracer", "is_over", "place")

    def __init__(self, tracer: Tracer, name: str, kind: Kind, context: Context | None) -> None:
        self._tracer = tracer
        self._span = tracer.start_span(
            _bounded(name),
            context=context,
            kind=_KINDS[kind],
            record_exception=False,
            set_status_on_exception=False,
        )
        self.place, self.is_over = place_of(self._span), False

    def child(self, name: str, kind: Kind = "internal") -> TracerSpan:
        # Nothing else of a context: a library may read an application's baggage there.
        return TracerSpan(self._tracer, name, kind, set_span_in_context(self._span, Context()))

    def put(self, name: Attribute, value: str | int) -> None:
        self._span.set_attribute(name, _bounded(value) if isinstance(value, str) else value)

    def rename(self, name: str) -> None:
        self._span.update_name(_bounded(name))

    def end(self, error: str = "") -> None:
        if self.is_over:
            return
        self.is_over = True
        if error:
            self.put("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


def begun(tracer: Tracer, name: str, kind: Kind, parent: TraceParent | None) -> TracerSpan | None:
    """A span in `parent`, or in the application's current one; None: nobody wants any (OTEL_SDK_DISABLED)."""
    context = set_span_in_context(NonRecordingSpan(_context_of(parent)), Context()) if parent is not None else None
    span = TracerSpan(tracer, name, kind, context)
    return span if span.place.trace_id.strip("0") else None


def current_place() -> TraceParent | None:
    """Where the application's current span is; None: it has none."""
    span = get_current_span()
    return place_of(span) if span.get_span_context().is_valid else None


def place_of(span: OtelSpan) -> TraceParent:
    """What goes over the wire for a span."""
    context = span.get_span_context()
    return TraceParent(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled)


def _context_of(parent: TraceParent) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags)


def _bounded(text: str) -> str:
    return printable(storable(text[:TEXT_CHARS_MAX]))[:TEXT_CHARS_MAX]
