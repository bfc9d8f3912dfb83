"""Which results of `tools/call` are usable. Pure.

Only the frame of a result is looked at: its members stay as the server sent them, unknown content blocks included. What
the content means is decided behind this room, in `normalise`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from moonpool.core.phrases import said
from moonpool.upstreams.base import UpstreamNeedsInputError, UpstreamResultError

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue


def check_result(server_id: str, tool: str, result: JsonObject) -> JsonObject:
    """Return `result`, or raise the typed error that says why it is no CallToolResult."""
    check_complete(server_id, tool, result)
    content = result.get("content")
    if content is None and "structuredContent" in result:
        return result
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        problem = f'answered {tool!r} without a list of "content" blocks'
        raise UpstreamResultError(server_id, problem, for_guest=problem)
    return result


def check_complete(server_id: str, tool: str, result: JsonObject) -> None:
    """Raise if this is not the end of a request: more input is wanted, or it is of a kind that nobody knows."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        problem = (
            f"needs more input to run {tool!r} ({_asked(result.get('inputRequests'))}), "
            "which nobody here can give; call it with all it needs, or use another tool"
        )
        raise UpstreamNeedsInputError(server_id, problem, for_guest=problem)
    if kind != "complete":
        problem = f"answered {tool!r} with a result of unknown type {said(str(kind), 80)!r}"
        raise UpstreamResultError(server_id, problem, for_guest=problem)


def check_encodable(server_id: str, tool: str, result: JsonObject) -> None:
    """Refuse NaN, infinities and lone surrogates, which no JSON text can carry."""
    try:
        json.dumps(result, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as exc:
        problem = f"answered {tool!r} with a value that is not JSON: {said(str(exc), 200)}"
        raise UpstreamResultError(server_id, problem, for_guest=problem) from None


def _asked(requests: JsonValue) -> str:
    if not isinstance(requests, dict):
        return "it did not say which"
    methods = {str(request.get("method")) for request in requests.values() if isinstance(request, dict)}
    return said(", ".join(sorted(methods)), 200) or "it did not say which"
