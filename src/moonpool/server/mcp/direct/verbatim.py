"""Members of a result that reach the client as they are.

The SDK brings what a handler returns into its models' form: unknown members and their order get lost. A handler returns
the smallest valid result and leaves here what stands in place of it; all that surrounds it (`resultType`, hints for
caches, the server's name) is the SDK's.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from moonpool.core.json import JsonObject

    Context = ServerRequestContext[Any, Any]

_MEMBERS: Final[ContextVar[JsonObject | None]] = ContextVar("moonpool_verbatim", default=None)


def send_verbatim(members: JsonObject) -> None:
    """The result of the request being handled has these members, whatever the handler returns."""
    held = _MEMBERS.get()
    assert held is not None, "outside of a request"
    held.update(members)


async def keep_verbatim(ctx: Context, call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK."""
    held: JsonObject = {}
    token = _MEMBERS.set(held)
    try:
        result = await call_next(ctx)
    finally:
        _MEMBERS.reset(token)
    if not held or not isinstance(result, dict):
        return result
    meta: dict[str, Any] = {**_object(held.get("_meta")), **_object(result.get("_meta"))}
    return {**result, **held, **({"_meta": meta} if meta else {})}


def _object(given: object) -> dict[str, Any]:
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}
