"""Forms that a server asks a person to fill in: flat objects of plain fields. Pure.

The protocol allows strings, numbers, booleans, one of a list and several of a list; anything nested is refused, because
nobody could be shown it (D-045). Declared defaults fill in what was left open (SEP-1034); an answer that does not fit
never leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import jsonschema_rs
import msgspec

from moonpool.core.hidden_characters import all_seen, without_looks
from moonpool.core.phrases import on_one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject, JsonValue

FIELD_COUNT_MAX: Final = 64
FORM_BYTES_MAX: Final = 64 * 1024
CONTENT_BYTES_MAX: Final = 64 * 1024
URL_CHARS_MAX: Final = 2000
URL_ELICITATION_REQUIRED: Final = -32042
"""A server's error of 2025-11-25: the client has its user open addresses before it makes the call again."""
_ADDRESSES_MAX: Final = 16
_FOR_READING: Final = frozenset({"title", "description", "enumNames"})
_JOINERS: Final = dict.fromkeys(map(ord, "\u200c\u200d"))  # scripts and emoji need them
_PLAIN: Final = frozenset({"string", "number", "integer", "boolean"})
_KEYWORDS: Final = frozenset({
    "type", "minLength", "maxLength", "pattern", "minimum", "maximum", "minItems", "maxItems",
})  # fmt: skip
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
"""Those that the protocol knows. Others say something to people, and nothing is refused for them."""


def form_problem(form: JsonObject) -> str:
    """Why this cannot be a form; nothing when it can."""
    try:
        size = len(msgspec.json.encode(form))
    except (ValueError, TypeError, RecursionError):
        return "it is not JSON"
    fields = form.get("properties")
    if size > FORM_BYTES_MAX or form.get("type") != "object" or not isinstance(fields, dict):
        return "it must be an object with properties, of at most 64 KiB"
    if len(fields) > FIELD_COUNT_MAX:
        return f"it has more than {FIELD_COUNT_MAX} fields"
    if any(not _can_be_shown(word) for name, field in fields.items() for word in [name, *_words(field)]):
        return "a name or a choice in it holds invisible characters"
    broken = next((name for name, field in fields.items() if not _is_plain(field)), None)
    if broken is not None:
        return f"field {broken[:80]!r} is neither text, number, yes or no, nor a choice"
    return "" if _validator(form) is not None else "it is no valid JSON Schema"


def shown_form(form: JsonValue) -> JsonValue:
    """The form with titles and descriptions on one line each, in which nothing acts on a terminal or is hidden."""
    return _shown(form)


def with_defaults(form: JsonObject, content: JsonObject) -> JsonObject:
    """What was written, and the declared default of every field that was left open."""
    fields = cast("Mapping[str, JsonObject]", form["properties"])
    return {**{name: field["default"] for name, field in fields.items() if "default" in field}, **content}


def content_problem(form: JsonObject, content: JsonObject) -> str:
    """How an answer deviates from its form, without a value of it; nothing when it fits."""
    try:
        if len(msgspec.json.encode(content)) > CONTENT_BYTES_MAX:
            return "it is too long"
    except (ValueError, TypeError, RecursionError):
        return "it is not JSON"
    fields = cast("Mapping[str, JsonObject]", form["properties"])
    if unknown := next((name for name in content if name not in fields), None):
        return f"there is no field {unknown[:80]!r}"
    validator = _validator(form)
    assert validator is not None, "an unchecked form"
    error = next(iter(validator.iter_errors(content)), None)
    if error is None:
        return ""
    return f"field {str(error.instance_path[0])[:80]!r}" if error.instance_path else "a required field is missing"


def url_problem(url: JsonValue) -> str:
    """Why an address may not be shown to a person to open; nothing when it may."""
    if not isinstance(url, str) or len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        return f"must be an address of at most {URL_CHARS_MAX} plain characters"
    try:
        parts = urlsplit(url)
        local = parts.hostname in {"localhost", "127.0.0.1", "::1"}
    except ValueError:
        return "is no address"
    if parts.hostname is None or parts.username is not None or parts.password is not None:
        return "must name a host and no user"
    return "" if parts.scheme == "https" or (parts.scheme == "http" and local) else "must begin with https://"


def addresses_problem(data: JsonValue) -> str:
    """Why what came with `URL_ELICITATION_REQUIRED` may not be shown to a person; nothing when it may."""
    asked = data.get("elicitations") if isinstance(data, dict) else None
    if not isinstance(asked, list) or not 0 < len(asked) <= _ADDRESSES_MAX:
        return f"must hold 1 to {_ADDRESSES_MAX} elicitations"
    problems = (url_problem(one.get("url") if isinstance(one, dict) else None) for one in asked)
    return next(filter(None, problems), "")


def _shown(value: JsonValue, key: str = "") -> JsonValue:
    if isinstance(value, str):
        return on_one_line(value) if key in _FOR_READING else value
    if isinstance(value, list):
        return [_shown(one, key) for one in value]
    if isinstance(value, dict):
        return {name: _shown(one, name) for name, one in value.items()}
    return value


def _words(field: Any) -> list[JsonValue]:
    """What can be chosen in a field: it goes back as it came, so it cannot be made readable."""
    if not isinstance(field, dict):
        return []
    known = cast("JsonObject", field)
    items = known.get("items")
    return [*_choices(known), *(_choices(items) if isinstance(items, dict) else [])]


def _can_be_shown(word: JsonValue) -> bool:
    return not isinstance(word, str) or all_seen(without_looks(word).translate(_JOINERS))


def _is_plain(field: Any) -> bool:
    if not isinstance(field, dict):
        return False
    kind = cast("JsonObject", field).get("type")
    if kind == "array":
        items = cast("JsonObject", field).get("items")
        return isinstance(items, dict) and ("enum" in items or "anyOf" in items) and "properties" not in items
    return (
        isinstance(kind, str)
        and kind in _PLAIN
        and not {"properties", "items", "$ref", "additionalProperties"} & field.keys()
    )


def _validator(form: JsonObject) -> jsonschema_rs.Validator | None:
    """SECURITY: patterns run in linear time, and only known keywords get in: no `$ref` that could be fetched."""
    fields = cast("Mapping[str, JsonObject]", form["properties"])
    checked = {"type": "object", "properties": {name: _checkable(field) for name, field in fields.items()}}
    try:
        return jsonschema_rs.Draft202012Validator(
            {**checked, "required": form.get("required", [])},
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=True,
            offline=True,
        )
    except (jsonschema_rs.ReferencingError, ValueError, RecursionError):
        return None


def _checkable(field: JsonObject) -> JsonObject:
    """The keywords of a field that say what may be written into it."""
    kept = {key: value for key, value in field.items() if key in _KEYWORDS}
    if (named := field.get("format")) in _FORMATS:
        kept["format"] = named
    if choices := _choices(field):
        kept["enum"] = choices
    items = field.get("items")
    if isinstance(items, dict):
        kept["items"] = {"enum": _choices(items)}
    return kept


def _choices(field: JsonObject) -> list[JsonValue]:
    """What may be chosen: a list of values, or of values with titles."""
    listed = field.get("enum")
    if isinstance(listed, list):
        return listed
    titled = field.get("oneOf", field.get("anyOf"))
    return (
        [one["const"] for one in titled if isinstance(one, dict) and "const" in one] if isinstance(titled, list) else []
    )
