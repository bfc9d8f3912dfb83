"""A sampling request and its answer, as far as they are passed on. Pure.

Messages hold text, images and sounds (D-038). Priorities, from 0 to 1, and hints go through as they are: the client
chooses the model (D-036). What concerns other servers or tools of a model does not (D-037).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from moonpool.upstreams.server_requests import INTERNAL, INVALID_PARAMS, ServerRequestRefusedError

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

SAMPLE: Final = "sampling/createMessage"
TOKENS_MAX: Final = 16_384
MESSAGES_MAX: Final = 64
REQUEST_BYTES_MAX: Final = 512 * 1024
ANSWER_BYTES_MAX: Final = 1024 * 1024
_NAME_CHARS_MAX: Final = 200
_PASSED_ON: Final = ("modelPreferences", "systemPrompt", "temperature", "stopSequences", "metadata")
_BODY: Final = {"text": "text", "image": "data", "audio": "data"}


def asked_of(params: JsonObject) -> JsonObject:
    """The request to the client. Raises ServerRequestRefusedError."""
    if params.get("tools") is not None or params.get("toolChoice") is not None:
        raise ServerRequestRefusedError("tools in sampling are not passed on", code=INVALID_PARAMS)
    messages, limit = params.get("messages"), params.get("maxTokens")
    if not isinstance(messages, list) or not 0 < len(messages) <= MESSAGES_MAX:
        raise ServerRequestRefusedError(f'"messages" must be a list of 1 to {MESSAGES_MAX}', code=INVALID_PARAMS)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ServerRequestRefusedError('"maxTokens" must be a number above 0', code=INVALID_PARAMS)
    if any(_message(one) is None for one in messages):
        raise ServerRequestRefusedError("a message is neither text nor image nor audio", code=INVALID_PARAMS)
    if not _has_priorities(params.get("modelPreferences")):
        raise ServerRequestRefusedError('"modelPreferences" must hold priorities from 0 to 1', code=INVALID_PARAMS)
    asked: JsonObject = {
        "messages": [_message(one) for one in messages],
        "maxTokens": min(limit, TOKENS_MAX),
        "includeContext": "none",
    }
    asked.update({name: params[name] for name in _PASSED_ON if params.get(name) is not None})
    if _size(asked) > REQUEST_BYTES_MAX:
        raise ServerRequestRefusedError(f"the request is larger than {REQUEST_BYTES_MAX} bytes", code=INVALID_PARAMS)
    return asked


def sampled(given: JsonObject) -> JsonObject:
    """The part of the client's answer that the server gets. Raises ServerRequestRefusedError."""
    answer, model, reason = _message(given), given.get("model"), given.get("stopReason")
    if answer is None or not isinstance(model, str) or _size(answer) > ANSWER_BYTES_MAX:
        raise ServerRequestRefusedError("the client failed to answer", code=INTERNAL)
    answer["model"] = model[:_NAME_CHARS_MAX]
    if isinstance(reason, str):
        answer["stopReason"] = reason[:_NAME_CHARS_MAX]
    return answer


def _has_priorities(given: JsonValue) -> bool:
    """Whether each priority among the preferences for a model is one; there need be none."""
    if not isinstance(given, dict):
        return given is None
    named = [value for name, value in given.items() if name.endswith("Priority")]
    return all(isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one <= 1 for one in named)


def _message(given: JsonValue) -> JsonObject | None:
    """Role and content alone; None when it is no message."""
    if not isinstance(given, dict) or given.get("role") not in {"user", "assistant"}:
        return None
    content = given.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
    kept = [_block(block) for block in blocks]
    if not kept or None in kept:
        return None
    return {"role": given["role"], "content": cast("JsonValue", kept if isinstance(content, list) else kept[0])}


def _block(given: Any) -> JsonObject | None:
    if not isinstance(given, dict):
        return None
    block = cast("JsonObject", given)
    kind = block.get("type")
    body = _BODY.get(kind) if isinstance(kind, str) else None
    if body is None or not isinstance(block.get(body), str):
        return None
    if body == "data" and not isinstance(block.get("mimeType"), str):
        return None
    return {name: block[name] for name in ("type", body, "mimeType") if name in block}


def _size(value: JsonObject) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (ValueError, TypeError, RecursionError):
        return REQUEST_BYTES_MAX + ANSWER_BYTES_MAX
