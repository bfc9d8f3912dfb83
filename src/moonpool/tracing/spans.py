"""Spans of a trace, as everything that does work sees them. What makes them is `moonpool.tracing.adapter`.

SECURITY: spans leave this host for whoever runs the operator's tracing, who may see less than the operator.
INVARIANT: a span holds a name and `Attribute`s whose values are numbers, ids of ours, members of closed sets, and names
from the operator's configuration or of tools that a server lists, redacted. No argument, result, code, error message,
address, principal or other text that a caller, code or a server wrote is among them.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

Attribute: TypeAlias = Literal[
    "error.type",
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "http.request.method",
    "http.response.status_code",
    "http.route",
    "mcp.method.name",
    "mcp.protocol.version",
    "moonpool.approval",
    "moonpool.decision",
    "moonpool.language",
    "moonpool.run_id",
    "moonpool.server",
    "network.transport",
]
Kind: TypeAlias = Literal["server", "client", "internal"]
TRACEPARENT: Final = "traceparent"
"""The name in HTTP headers and in `_meta` of MCP."""
TRACE_KEYS: Final = (TRACEPARENT, "tracestate", "baggage")
_CHARS_MAX: Final = 512
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class TraceParent:
    """Where a span is in its trace: what goes over the wire as `traceparent` (W3C Trace Context)."""

    trace_id: str  # 32 hex digits
    span_id: str  # 16
    is_sampled: bool

    @classmethod
    def parse(cls, value: object) -> TraceParent | None:
        """Of a header or a member of `_meta`; None for everything else, as the specification wants.

        SECURITY: nothing is taken from a caller but two random numbers and a bit: no `tracestate`, no `baggage`.
        """
        found = _FORM.fullmatch(value) if isinstance(value, str) and len(value) <= _CHARS_MAX else None
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        if version == "ff" or (version == "00" and more) or not trace_id.strip("0") or not span_id.strip("0"):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & 1))

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-0{int(self.is_sampled)}"


class Span(Protocol):
    """Something that began and will end."""

    @property
    def place(self) -> TraceParent: ...
    @property
    def is_over(self) -> bool: ...
    def child(self, name: str, kind: Kind = "internal") -> Span:
        """Begin a span in this one."""
        ...

    def put(self, name: Attribute, value: str | int) -> None: ...
    def rename(self, name: str) -> None: ...
    def end(self, error: str = "") -> None:
        """It is over; `error` is of a closed set, or empty. Later ends change nothing."""
        ...


class Tracing(Protocol):
    """Makes spans. Where none is made there is no `Tracing`, or its `begin` says None."""

    def begin(self, name: str, kind: Kind = "internal", parent: TraceParent | None = None) -> Span | None:
        """A span without one of ours around it. Without `parent` it is in the application's current span."""
        ...


SPAN: Final[ContextVar[Span | None]] = ContextVar("moonpool_span", default=None)
"""The span of the request that a face answers."""


def current_span() -> Span | None:
    """That span. SECURITY: tasks that outlive a request keep its context, but not its trace: other callers use them."""
    span = SPAN.get()
    return None if span is None or span.is_over else span
