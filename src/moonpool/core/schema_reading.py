"""Reading JSON Schemas in order to make a value that fits: merged parts, bounds, the type that is meant. Pure.

SECURITY: schemas are a server's. Patterns run on RE2, numbers are finite, counts bounded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import re2

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

COUNT_MAX: Final = 100_000
PATTERN_CHARS_MAX: Final = 1000


class ImpossibleError(Exception):
    """No value fits, or none that these rules find."""


def value_at(value: JsonValue, pointer: str) -> JsonValue:
    """What the JSON pointer leads to; None when nothing is there."""
    for part in pointer.split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def merged(schema: JsonObject, more: JsonValue) -> JsonObject:
    """Both schemas at once, as far as these rules read them."""
    if more is False:
        raise ImpossibleError
    if not isinstance(more, dict):
        return schema
    merged = {**schema, **more}
    for name in ("properties", "required"):
        mine, other = schema.get(name), more.get(name)
        if isinstance(mine, dict) and isinstance(other, dict):
            merged[name] = {**mine, **other}
        elif isinstance(mine, list) and isinstance(other, list):
            merged[name] = [*mine, *other]
    return merged


def type_of(schema: JsonObject) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [one for one in kind if isinstance(one, str)]
        return next((one for one in kinds if one != "null"), kinds[0] if kinds else "string")
    if isinstance(kind, str):
        return kind
    for kind, names in _TELLING.items():
        if names & schema.keys():
            return kind
    return "string"


_TELLING: Final = {
    "object": {"properties", "required", "additionalProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems"},
    "number": {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"},
}


def says_null(option: JsonValue) -> bool:
    return isinstance(option, dict) and (option.get("type") == "null" or option.get("const", 0) is None)


def bound(schema: JsonObject, name: str, exclusive: str, inwards: int) -> float | None:
    plain, strict = finite(schema.get(name)), finite(schema.get(exclusive))
    if schema.get(exclusive) is True and plain is not None:  # draft 4
        plain, strict = None, plain
    if strict is not None:
        whole = strict == int(strict)
        strict = strict + inwards if whole else (math.ceil(strict) if inwards > 0 else math.floor(strict))
    found = [one for one in (plain, strict) if one is not None]
    return (max(found) if inwards > 0 else min(found)) if found else None


def finite(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return None
    return value if math.isfinite(value) else None


def count(value: JsonValue) -> int:
    """A number of members or characters as a schema gives it; 0 for what is none."""
    found = finite(value)
    return max(0, min(int(found), COUNT_MAX)) if found is not None else 0


def regex_of(pattern: JsonValue) -> Any:
    """The pattern as RE2 reads it. SECURITY: it is a server's."""
    if not isinstance(pattern, str):
        return None
    try:
        if len(pattern) > PATTERN_CHARS_MAX:
            raise ImpossibleError
        options: Any = re2.Options()  # pyright: ignore[reportUnknownMemberType]
        options.log_errors = False
        options.max_mem = 1 << 20
        return re2.compile(pattern, options)  # pyright: ignore[reportUnknownMemberType]
    except re2.error:  # pyright: ignore[reportUnknownMemberType]
        raise ImpossibleError from None
