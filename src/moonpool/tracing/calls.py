"""The span of one tool call, and those of the requests to its server, in which the server finds it as their parent."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.tracing.spans import Span, TraceParent

_UNKNOWN = "execute_tool"


class CallSpan:
    """One tool call. `server` and `tool` are known once it is resolved.

    SECURITY: until then both are text that code wrote.
    """

    def __init__(self, parent: Span) -> None:
        self._span = parent.child(_UNKNOWN)
        self._span.put("gen_ai.operation.name", "execute_tool")
        self._server = self._tool = ""

    def resolved(self, server: str, tool: str) -> None:
        """Both are redacted, and names of a tool that its server lists."""
        self._server, self._tool = server, tool
        self._name(self._span)
        self._span.rename(f"{_UNKNOWN} {tool}")

    def end(self, error: str, *, decision: str, approval: str) -> None:
        """`error`: of `CallErrorType`, or empty. `decision`: what policy said, or empty."""
        if decision:
            self._span.put("moonpool.decision", decision)
        self._span.put("moonpool.approval", approval)
        self._span.end(error)

    @contextmanager
    def request(self, method: str, version: str, transport: str) -> Generator[TraceParent | None]:
        """A request to its server during a `with` block, which gets what it is sent; None: the call is over.

        Background tasks of a connection may have the context of the call in which they began.
        """
        if self._span.is_over:
            yield None
            return
        is_call = method == "tools/call"
        span = self._span.child(f"{method} {self._tool}" if is_call else method, "client")
        span.put("mcp.method.name", method)
        if version:
            span.put("mcp.protocol.version", version)
        span.put("network.transport", "pipe" if transport == "stdio" else "tcp")
        self._name(span)
        error = "cancelled"
        try:
            yield span.place
            error = ""
        except Exception as failure:
            error = type(failure).__name__
            raise
        finally:
            span.end(error)

    def _name(self, span: Span) -> None:
        if self._tool:
            span.put("moonpool.server", self._server)
            span.put("gen_ai.tool.name", self._tool)
