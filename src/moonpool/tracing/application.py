"""Tracing of the application that Moonpool is a part of, where that has set it up; else nothing is imported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from moonpool.core.version import VERSION

if TYPE_CHECKING:
    from moonpool.tracing.spans import Kind, Span, TraceParent

_INTERFACE = "opentelemetry.trace"


class ApplicationTracing:
    """Spans by the application's provider, if it has one when the span begins (`Tracing`)."""

    def __init__(self) -> None:
        self._provider: object = None
        self._tracer: Any = None

    def begin(self, name: str, kind: Kind = "internal", parent: TraceParent | None = None) -> Span | None:
        interface = sys.modules.get(_INTERFACE)
        if interface is None:
            return None
        provider = interface.get_tracer_provider()
        if type(provider) in {interface.ProxyTracerProvider, interface.NoOpTracerProvider}:
            return None  # nobody has set one up
        from moonpool.tracing.adapter import begun  # noqa: PLC0415  most processes make no spans

        if provider is not self._provider:
            self._provider, self._tracer = provider, provider.get_tracer("moonpool", VERSION)
        return begun(self._tracer, name, kind, parent)


def application_place() -> TraceParent | None:
    """Where the application's current span is, for a request to a service; None: it has none."""
    if _INTERFACE not in sys.modules:
        return None
    from moonpool.tracing.adapter import current_place  # noqa: PLC0415  most processes make no spans

    return current_place()
