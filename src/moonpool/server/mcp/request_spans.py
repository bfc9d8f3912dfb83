"""The span of one request of MCP: a middleware of the SDK, in the trace that the request's `_meta` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from moonpool.tracing.spans import SPAN, TRACEPARENT, TraceParent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

    from moonpool.tracing.spans import Tracing

_TRACED: Final = frozenset(
    {
        "completion/complete", "initialize", "prompts/get", "prompts/list", "resources/list", "resources/read",
        "resources/subscribe", "resources/templates/list", "resources/unsubscribe", "server/discover", "tools/call",
        "tools/list",
    }
)  # fmt: skip
"""SECURITY: the name of another method is any text of a client."""
_VERSIONS: Final = frozenset({*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS})


def traced(tracing: Tracing | None, names: Collection[str] = ()) -> ServerMiddleware[Any]:
    """The middleware; of tools it names those in `names`, which are ours."""

    async def trace(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        method = ctx.method
        if tracing is None or method not in _TRACED or ctx.request_id is None:
            return await call_next(ctx)
        span = tracing.begin(method, "server", _parent(ctx.params))
        if span is None:
            return await call_next(ctx)
        span.put("mcp.method.name", method)
        if ctx.protocol_version in _VERSIONS:
            span.put("mcp.protocol.version", ctx.protocol_version)
        if method == "tools/call":
            span.put("gen_ai.operation.name", "execute_tool")
            name = (ctx.params or {}).get("name")
            if isinstance(name, str) and name in names:
                span.put("gen_ai.tool.name", name)
                span.rename(f"{method} {name}")
        token, error = SPAN.set(span), "cancelled"
        try:
            result = await call_next(ctx)
            error = "tool_error" if _is_failure(result) else ""
            return result
        except MCPError as failure:
            error = str(failure.error.code)
            raise
        except Exception as failure:
            error = type(failure).__name__
            raise
        finally:
            SPAN.reset(token)
            span.end(error)

    return trace


def _parent(params: Mapping[str, Any] | None) -> TraceParent | None:
    meta = (params or {}).get("_meta")
    return TraceParent.parse(cast("dict[str, Any]", meta).get(TRACEPARENT)) if isinstance(meta, dict) else None


def _is_failure(result: object) -> bool:
    match result:
        case CallToolResult(is_error=True) | {"isError": True}:
            return True
        case _:
            return False
