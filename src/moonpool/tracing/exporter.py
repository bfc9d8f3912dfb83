"""Spans sent to a collector by OTLP (HTTP, protobuf), as the standard's `OTEL_*` variables say.

Spans wait in a queue with a limit and are sent by a thread; what does not fit is dropped, so neither a collector that
is down nor a slow one holds anything up. INVARIANT: the provider is ours alone and never the process's: the MCP SDK's
own spans, which quote servers' errors, would go wherever the process's provider sends them.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from moonpool.core.version import VERSION
from moonpool.tracing.adapter import begun

if TYPE_CHECKING:
    from moonpool.tracing.spans import Kind, Span, TraceParent

LAST_S: Final = 3.0
"""How long the end of the process waits for the last spans to be taken."""
_SAID_S: Final = 60.0
_SAYING: Final = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")


class _Seldom(logging.Filter):
    """Lets one record a minute through: a collector that is down for a day must not fill a log."""

    def __init__(self) -> None:
        super().__init__()
        self._due = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        now = time.monotonic()
        is_due = now >= self._due
        self._due = now + _SAID_S if is_due else self._due
        return is_due


class ExporterTracing:
    """Makes spans and sends them (`Tracing`)."""

    def __init__(self, service_name: str) -> None:
        """Raises ValueError for values of `OTEL_*` that cannot be used."""
        resource = Resource.create({SERVICE_NAME: service_name, SERVICE_VERSION: VERSION})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("moonpool", VERSION)
        self._seldom = _Seldom()
        for name in _SAYING:
            logging.getLogger(name).addFilter(self._seldom)

    def begin(self, name: str, kind: Kind = "internal", parent: TraceParent | None = None) -> Span | None:
        return begun(self._tracer, name, kind, parent)

    def close(self) -> None:
        """Send what waits, for `LAST_S` at most. Blocks; the thread that is left behind keeps no process alive."""
        closing = threading.Thread(target=self._provider.shutdown, name="moonpool-tracing", daemon=True)
        closing.start()
        closing.join(LAST_S)
        for name in _SAYING:
            logging.getLogger(name).removeFilter(self._seldom)
