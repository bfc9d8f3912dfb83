"""Reads a raw CallToolResult: where its data lies, or which failure it reports. Pure.

`isError` makes a ToolError (H-041). Otherwise `structuredContent` wins when it is there, also as `{}`, `0` or `""`
(H-042; null counts as absent, because servers send it for "none"). Without it one text block that holds a JSON object
or array, or prints a Python list, tuple or dict, gives parsed data; other text blocks are joined, and anything but text
leaves the content list as it is.

SECURITY: `raw` is untrusted and of any shape. A value that is not a result becomes an error of type UpstreamError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.core.calls import CallError, CallErrorType, DataFrom
from moonpool.core.literal_text import literal_value
from moonpool.core.phrases import clip

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

_ERROR_TEXT_LENGTH_MAX: Final = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Exactly one of `error` and `data_from` is set."""

    error: CallError | None = None
    data_from: DataFrom | None = None


def read_result(server_id: str, tool_name: str, raw: JsonObject) -> Reading:
    """Say where the data of `raw` lies."""
    failed = raw.get("isError")
    if failed is not None and failed is not False:
        return Reading(error=_tool_error(server_id, tool_name, raw))
    if raw.get("structuredContent") is not None:
        return Reading(data_from="structured")
    content = raw.get("content")
    if not isinstance(content, list):
        problem = f"server {server_id!r} answered {tool_name!r} with a result that has no list of content blocks"
        return Reading(error=CallError(type=CallErrorType.UPSTREAM_ERROR, message=problem))
    texts = block_texts(content)
    if texts is None:
        return Reading(data_from="content")
    if len(texts) != 1:
        return Reading(data_from="text")
    if holds_json(texts[0]):
        return Reading(data_from="json_text")
    return Reading(data_from="text" if literal_value(texts[0]) is None else "literal_text")


def block_texts(content: list[JsonValue]) -> list[str] | None:
    """The strings of `content`, or None when it holds anything but text blocks."""
    texts: list[str] = []
    for block in content:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return texts


def result_data(raw: JsonObject, data_from: DataFrom | None) -> JsonValue:
    """The data that code gets of a result that was read so."""
    content = raw.get("content")
    texts = block_texts(content) if isinstance(content, list) else None
    if data_from == "structured":
        return raw.get("structuredContent")
    if texts is None:
        return content
    text = "\n".join(texts)
    if data_from == "literal_text":
        return literal_value(text)
    if data_from != "json_text":
        return text
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text


def holds_json(text: str) -> bool:
    """True when `text` is a JSON object or array; NaN and Infinity are not JSON."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _tool_error(server_id: str, tool_name: str, raw: JsonObject) -> CallError:
    content = raw.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [text for text in (block_texts([block]) for block in blocks) if text]
    message = "\n".join(text[0] for text in texts).strip()
    if not message and raw.get("structuredContent") is not None:
        message = msgspec.json.encode(raw["structuredContent"]).decode()
    if not message:
        message = f"tool {server_id}.{tool_name} reported an error without a message"
    return CallError(type=CallErrorType.TOOL_ERROR, message=clip(message, _ERROR_TEXT_LENGTH_MAX))
