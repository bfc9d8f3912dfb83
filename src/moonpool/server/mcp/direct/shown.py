"""Definitions of tools, resources, templates and prompts as a client of one revision may see them. Pure.

They are the server's own, member by member, also members that nobody knows. Left out is what the revision does not have
or what has a shape that the protocol does not allow: one bad definition would make a client refuse the whole list.

SECURITY: `raw` is untrusted and of any shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from moonpool.core.json import JsonObject, JsonValue

ANNOTATED_FROM: Final = "2025-03-26"
STRUCTURED_FROM: Final = "2025-06-18"
ICONS_FROM: Final = "2025-11-25"
ANY_OUTPUT_FROM: Final = "2026-07-28"
URI_CHARS_MAX: Final = 4096
ICONS_MAX: Final = 16
_HINTS: Final = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
_DROPPED: Final = frozenset({"execution"})
"""How a server runs a tool, as a task or not, is between it and Moonpool, which offers no tasks."""


def shown_tool(raw: JsonObject, name: str, version: str) -> JsonObject:
    """The definition of a tool under the name that clients use."""
    shown = _described(raw, version)
    shown["name"], shown["inputSchema"] = name, _arguments_schema(raw.get("inputSchema"))
    _keep(shown, "annotations", _annotations(raw.get("annotations")), version >= ANNOTATED_FROM)
    output = raw.get("outputSchema")
    fits = isinstance(output, dict) and (version >= ANY_OUTPUT_FROM or output.get("type") == "object")
    _keep(shown, "outputSchema", output, fits and version >= STRUCTURED_FROM)
    return shown


def shown_resource(raw: JsonObject, version: str) -> JsonObject | None:
    """One of `resources`, or None when it is none."""
    uri = raw.get("uri")
    if not isinstance(uri, str) or not 0 < len(uri) <= URI_CHARS_MAX:
        return None
    shown = _described(raw, version)
    size = raw.get("size")
    _keep(shown, "size", size, isinstance(size, int) and not isinstance(size, bool))
    return _addressed(shown, raw, uri)


def shown_template(raw: JsonObject, version: str) -> JsonObject | None:
    """One of `resourceTemplates`, or None when it is none."""
    pattern = raw.get("uriTemplate")
    if not isinstance(pattern, str) or not 0 < len(pattern) <= URI_CHARS_MAX:
        return None
    return _addressed(_described(raw, version), raw, pattern)


def shown_prompt(raw: JsonObject, name: str, version: str) -> JsonObject:
    """One of `prompts` under the name that clients use."""
    shown = _described(raw, version)
    shown["name"] = name
    listed = raw.get("arguments")
    arguments = [_argument(one, version) for one in listed if _is_named(one)] if isinstance(listed, list) else []
    _keep(shown, "arguments", cast("JsonValue", arguments), isinstance(listed, list))
    return shown


def _described(raw: JsonObject, version: str) -> JsonObject:
    """A copy in which the members that all definitions share are as the revision wants them."""
    shown: JsonObject = {key: value for key, value in raw.items() if key not in _DROPPED}
    for key, since in (("description", ""), ("title", STRUCTURED_FROM)):
        _keep(shown, key, raw.get(key), isinstance(raw.get(key), str) and version >= since)
    _keep(shown, "_meta", raw.get("_meta"), isinstance(raw.get("_meta"), dict) and version >= STRUCTURED_FROM)
    icons = raw.get("icons")
    kept = [one for one in icons[:ICONS_MAX] if _is_icon(one)] if isinstance(icons, list) else []
    _keep(shown, "icons", kept, bool(kept) and version >= ICONS_FROM)
    return shown


def _addressed(shown: JsonObject, raw: JsonObject, address: str) -> JsonObject:
    shown["name"] = raw["name"] if isinstance(raw.get("name"), str) else address
    _keep(shown, "mimeType", raw.get("mimeType"), isinstance(raw.get("mimeType"), str))
    _keep(shown, "annotations", raw.get("annotations"), is_annotations(raw.get("annotations")))
    return shown


def _argument(raw: JsonValue, version: str) -> JsonObject:
    given = cast("JsonObject", raw)
    shown = dict(given)
    for key, since in (("description", ""), ("title", STRUCTURED_FROM)):
        _keep(shown, key, given.get(key), isinstance(given.get(key), str) and version >= since)
    _keep(shown, "required", given.get("required"), isinstance(given.get("required"), bool))
    return shown


def _arguments_schema(given: JsonValue) -> JsonObject:
    """SPEC: an object with `"type": "object"`. What is not one takes any arguments, as the pipeline does."""
    if not isinstance(given, dict) or given.get("type", "object") != "object":
        return {"type": "object"}
    shapes: Mapping[str, Callable[[Any], bool]] = {
        "properties": lambda value: isinstance(value, dict) and _all(cast("dict[str, Any]", value).values(), dict),
        "required": lambda value: isinstance(value, list) and _all(cast("list[Any]", value), str),
        "$schema": lambda value: isinstance(value, str),
    }
    kept = {key: value for key, value in given.items() if key not in shapes or shapes[key](value)}
    return kept if kept.get("type") == "object" else {"type": "object", **kept}


def _all(values: Iterable[Any], kind: type) -> bool:
    return all(isinstance(one, kind) for one in values)


def _annotations(given: JsonValue) -> JsonObject | None:
    if not isinstance(given, dict):
        return None
    return {
        key: value
        for key, value in given.items()
        if not (key in _HINTS and not isinstance(value, bool)) and not (key == "title" and not isinstance(value, str))
    }


def is_annotations(given: JsonValue) -> bool:
    """Whether these may be annotations of a resource or of content."""
    if not isinstance(given, dict):
        return False
    audience, priority = given.get("audience", []), given.get("priority", 0)
    heard = isinstance(audience, list) and all(one in ("user", "assistant") for one in audience)
    return heard and isinstance(priority, int | float) and not isinstance(priority, bool) and 0 <= priority <= 1


def _is_icon(given: JsonValue) -> bool:
    """SECURITY: an icon is loaded by the client, so its address is none of a script or of a file."""
    source = given.get("src") if isinstance(given, dict) else None
    return isinstance(source, str) and source.startswith(("https://", "data:image/"))


def _is_named(given: JsonValue) -> bool:
    return isinstance(given, dict) and isinstance(given.get("name"), str)


def _keep(shown: JsonObject, key: str, value: JsonValue, wanted: bool) -> None:
    """Set a member that has the right shape; else there is none."""
    shown.pop(key, None)
    if wanted and value is not None:
        shown[key] = value
