"""The one place through which everything that the profile says passes, whatever tool and transport it belongs to.

SECURITY: a middleware of the SDK's server, and its outermost: no tool has to remember it, and no error gets past it.
Pictures and other binary content pass unchanged; the text of an embedded resource does not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec
from mcp.shared.exceptions import MCPError

from moonpool.pipeline.validation import LARGE_BYTES
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.redaction.redactor import Redactor


def scrubbed(redactor: Redactor) -> ServerMiddleware[Any]:
    """The middleware."""

    async def scrub(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            result = await call_next(ctx)
        except MCPError as error:
            words = redactor.text(error.error.message, Tally())
            raise MCPError(error.error.code, words, _json(redactor, error.error.data)) from None
        if ctx.method != "tools/call" or not isinstance(result, dict):
            return result
        content = cast("list[JsonObject]", result.get("content", []))
        return {**result, "content": [await _item(redactor, one) for one in content]}

    return scrub


async def _item(redactor: Redactor, item: JsonObject) -> JsonObject:
    match item:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", **item, "text": await _text(redactor, text)}  # in this order, as ever
        case {"type": "resource", "resource": {"text": str(text)} as resource}:
            return {**item, "resource": {**resource, "text": await _text(redactor, text)}}
        case _:
            return item


async def _text(redactor: Redactor, text: str) -> str:
    if len(text) < LARGE_BYTES:
        return redactor.text(text, Tally())
    return await asyncio.to_thread(redactor.text, text, Tally())


def _json(redactor: Redactor, data: object) -> JsonValue:
    return redactor.json(cast("JsonValue", msgspec.to_builtins(data)), Tally())
