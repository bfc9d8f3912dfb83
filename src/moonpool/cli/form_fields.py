"""Fields of a server's form on a terminal: how one is described, and what a typed line means for it. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from moonpool.broker.upstreams.forms import content_problem

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

_DIGITS_MAX: Final = 18  # of a number: what every JSON reader takes
_LISTED_MAX: Final = 60
_BOOLEANS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_KINDS: Final = {"string": "text", "number": "a number", "integer": "a whole number", "boolean": "y or n"}
_LIMITS: Final = {
    "minLength": "at least {} characters", "maxLength": "at most {} characters", "minimum": "at least {}",
    "maximum": "at most {}", "format": "{}", "pattern": "like {}", "minItems": "at least {}", "maxItems": "at most {}",
}  # fmt: skip


class UnfitError(Exception):
    """What was typed is no value of the field; the message says what is."""


def choices(field: JsonObject) -> list[tuple[JsonValue, str]]:
    """What may be chosen: values with what they are called."""
    items = field.get("items")
    source: JsonObject = items if isinstance(items, dict) else field
    listed, names = source.get("enum"), source.get("enumNames")
    if isinstance(listed, list):
        named = names if isinstance(names, list) and len(names) == len(listed) else listed
        return [(value, str(name)) for value, name in zip(listed, named, strict=True)]
    titled = source.get("oneOf", source.get("anyOf"))
    named_values = titled if isinstance(titled, list) else []
    return [
        (one["const"], str(one.get("title", one["const"])))
        for one in named_values
        if isinstance(one, dict) and "const" in one
    ]


def description(name: str, field: JsonObject, *, required: bool) -> list[str]:
    """What a field wants, in lines that are still to be made visible."""
    offered = choices(field)
    several = field.get("type") == "array"
    kind = ("some of these" if several else "one of these") if offered else _KINDS.get(str(field.get("type")), "text")
    limits = [said.format(field[key]) for key, said in _LIMITS.items() if key in field]
    parts = [kind, *limits, "required" if required else "may be left out"]
    if "default" in field:
        parts.append(f"default {field['default']!s}")
    titles = [str(field[key]) for key in ("title", "description") if isinstance(field.get(key), str)]
    listed = [f"{number}) {called}" for number, (_, called) in enumerate(offered[:_LISTED_MAX], 1)]
    if len(offered) > _LISTED_MAX:
        listed.append(f"(and {len(offered) - _LISTED_MAX} more)")
    return [f"{name}: {', '.join(parts)}", *titles, *listed]


def value_of(name: str, field: JsonObject, typed: str) -> JsonValue:
    """The value that was typed. Raises UnfitError."""
    value = _read(field, typed)
    alone: JsonObject = {"type": "object", "properties": {name: field}}
    if content_problem(alone, {name: value}):
        raise UnfitError("that does not fit what the field wants")
    return value


def _read(field: JsonObject, typed: str) -> JsonValue:
    offered, kind = choices(field), field.get("type")
    if offered and kind == "array":
        return [_chosen(offered, part.strip()) for part in typed.split(",") if part.strip()]
    if offered:
        return _chosen(offered, typed)
    if kind == "boolean":
        if typed.lower() not in _BOOLEANS:
            raise UnfitError("write y or n")
        return _BOOLEANS[typed.lower()]
    if kind not in {"integer", "number"}:
        return typed
    try:
        if len(typed) > _DIGITS_MAX:
            raise ValueError
        number = int(typed) if kind == "integer" else float(typed)
        if not math.isfinite(number):
            raise ValueError
    except ValueError:
        raise UnfitError(f"write {_KINDS[kind]}") from None
    return number


def _chosen(offered: list[tuple[JsonValue, str]], typed: str) -> JsonValue:
    if typed.isascii() and typed.isdecimal() and len(typed) <= 4 and 1 <= int(typed) <= len(offered):
        return offered[int(typed) - 1][0]
    raise UnfitError(f"write a number from 1 to {len(offered)}")
