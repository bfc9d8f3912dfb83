"""Results of servers as a client of one revision may get them: content blocks, contents of resources, messages. Pure.

They are the server's own, member by member. A block of a kind that the revision does not have becomes an older kind
that holds the same; one that has not the shape of its kind becomes text (A-041).

SECURITY: `raw` was redacted and bounded by the pipeline; its shape is the server's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import msgspec

from moonpool.core.phrases import clip
from moonpool.server.mcp.direct.shown import ANNOTATED_FROM, ANY_OUTPUT_FROM, STRUCTURED_FROM, is_annotations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject, JsonValue

RESERVED_META: Final = "io.modelcontextprotocol/"
"""Names of `_meta` that begin so are the protocol's: what a server says there is about its own connection."""
_OURS: Final = frozenset({"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState", "nextCursor", "_meta"})
"""Members of a result that belong to the exchange with the client."""
_BODIES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}
_ODD_CHARS_MAX: Final = 10_000


def tool_result(raw: JsonObject, version: str) -> JsonObject:
    """The members of a CallToolResult."""
    shown: JsonObject = {key: value for key, value in raw.items() if key not in _OURS}
    shown["content"] = blocks(raw.get("content"), version)
    shown["isError"] = raw.get("isError") not in (None, False)
    structured = shown.pop("structuredContent", None)
    fits = version >= ANY_OUTPUT_FROM or (version >= STRUCTURED_FROM and isinstance(structured, dict))
    if structured is not None and fits:
        shown["structuredContent"] = structured
    elif structured is not None and not shown["content"]:  # servers should send it as text too; not all do
        shown["content"] = [_text(structured)]
    return {**shown, **_meta(raw)}


def messages(raw: JsonObject, version: str) -> JsonObject:
    """The members of a GetPromptResult."""
    given = raw.get("messages")
    kept: list[JsonValue] = [
        {**one, "content": _block(one.get("content"), version)}
        for one in (given if isinstance(given, list) else [])
        if isinstance(one, dict) and one.get("role") in {"user", "assistant"}
    ]
    described: JsonObject = {"description": raw["description"]} if isinstance(raw.get("description"), str) else {}
    return {**described, "messages": kept}


def resource_contents(raw: JsonObject) -> list[JsonValue]:
    """The `contents` of a ReadResourceResult."""
    given = raw.get("contents")
    return [_tidied(one) for one in given if _is_contents(one)] if isinstance(given, list) else []


def blocks(given: JsonValue, version: str) -> list[JsonValue]:
    """A list of content blocks."""
    return [_block(one, version) for one in given] if isinstance(given, list) else []


def linked(raw: JsonObject) -> list[str]:
    """The addresses of resources that a result names."""
    content = raw.get("content")
    found: list[str] = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict):
            holder = block.get("resource") if block.get("type") == "resource" else block
            uri = holder.get("uri") if isinstance(holder, dict) else None
            found += [uri] if isinstance(uri, str) else []
    return found


def _block(given: JsonValue, version: str) -> JsonValue:
    kind = given.get("type") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(kind, str):
        return _text(given)
    if kind == "resource":
        held = given.get("resource")
        return _tidied({**given, "resource": _tidied(held)}) if _is_contents(held) else _text(given)
    if kind not in _BODIES or not all(isinstance(given.get(name), str) for name in _BODIES[kind]):
        return _text(given)
    if kind == "audio" and version < ANNOTATED_FROM:
        sound: JsonObject = {"uri": "audio:result", "mimeType": given["mimeType"], "blob": given["data"]}
        return {"type": "resource", "resource": sound}
    if kind == "resource_link" and version < STRUCTURED_FROM:
        return {"type": "text", "text": f"{given['name']}: {given['uri']}"}
    return _tidied(given)


def _tidied(given: JsonValue) -> JsonObject:
    """Without members that would make a client refuse it all."""
    known = cast("JsonObject", given)
    odd = {"annotations"} if not is_annotations(known.get("annotations")) else set[str]()
    odd |= {"_meta"} if not isinstance(known.get("_meta"), dict) else set[str]()
    odd |= {key for key in ("mimeType", "description", "title") if not isinstance(known.get(key), str)}
    return {key: value for key, value in known.items() if key not in odd}


def _is_contents(given: JsonValue) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("uri"), str):
        return False
    return isinstance(given.get("text"), str) is not isinstance(given.get("blob"), str)


def _text(given: JsonValue) -> JsonObject:
    return {"type": "text", "text": clip(msgspec.json.encode(given).decode(), _ODD_CHARS_MAX)}


def _meta(raw: JsonObject) -> JsonObject:
    given = raw.get("_meta")
    if not isinstance(given, dict):
        return {}
    kept: JsonObject = {key: value for key, value in given.items() if not key.startswith(RESERVED_META)}
    return {"_meta": kept} if kept else {}
