"""Choices, constraints and text of a single schema, all of bounded size."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from moonpool.wrappers.ir import Choice, ListOf, MapOf, Scalar, TupleOf, TypeExpr, Union

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from moonpool.core.json import JsonObject, JsonValue

CHOICES_MAX: Final = 64
CHOICES_CHARS_MAX: Final = 4_096
MEMBER_DESCRIPTION_CHARS_MAX: Final = 8_192
DEFAULT_CHARS_MAX: Final = 512
NOTE_CHARS_MAX: Final = 160

_JSON_INTEGER_LIMIT: Final = 2**53 - 1  # generators write it for "no bound"
_BOUNDS: Final = (
    ("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"),
    ("multipleOf", "multiple of"), ("minLength", "length >="), ("maxLength", "length <="), ("minItems", "items >="),
    ("maxItems", "items <="), ("minProperties", "members >="), ("maxProperties", "members <="),
)  # fmt: skip


def union_of(options: Iterable[TypeExpr]) -> TypeExpr:
    """The union without duplicates, nested unions or a single option; null comes last, choices are merged."""
    flat: dict[TypeExpr, None] = {}
    choices: dict[str, None] = {}
    for option in options:
        for part in option.options if isinstance(option, Union) else (option,):
            if isinstance(part, Choice):
                choices.update(dict.fromkeys(part.values))
            else:
                flat[part] = None
    if Scalar.ANY in flat:
        return Scalar.ANY
    if len(choices) > CHOICES_MAX or sum(map(len, choices)) > CHOICES_CHARS_MAX:
        flat = dict.fromkeys(type_of_value(json.loads(text)) for text in choices) | flat
        choices = {}
    parts = [Choice(tuple(choices))] if choices else []
    ordered: list[TypeExpr] = [*parts, *(part for part in flat if part is not Scalar.NULL)]
    if Scalar.NULL in flat:
        ordered.append(Scalar.NULL)
    if not ordered:
        return Scalar.ANY
    return ordered[0] if len(ordered) == 1 else Union(tuple(ordered))


def choice_of(values: list[JsonValue]) -> TypeExpr:
    """A choice of scalars; for other values, or too many, only their types."""
    if not values:
        return Scalar.ANY
    if len(values) > CHOICES_MAX or any(isinstance(value, float | list | dict) for value in values):
        return union_of(type_of_value(value) for value in values)
    nulls = [Scalar.NULL] if None in values else []
    texts = [json_text(value, DEFAULT_CHARS_MAX) for value in values if value is not None]
    if None in texts:
        return union_of(type_of_value(value) for value in values)
    choice = Choice(tuple(dict.fromkeys(text for text in texts if text is not None)))
    return union_of([choice, *nulls] if choice.values else nulls)


def type_of_value(value: JsonValue) -> TypeExpr:
    match value:
        case None:
            return Scalar.NULL
        case bool():
            return Scalar.BOOLEAN
        case int():
            return Scalar.INTEGER
        case float():
            return Scalar.NUMBER
        case str():
            return Scalar.STRING
        case list():
            return ListOf(Scalar.ANY)
        case dict():
            return MapOf(Scalar.ANY)


def has_more_parts(expression: TypeExpr, limit: int) -> bool:
    """Whether a type, written out, has more than `limit` parts; looks at no more of them than that."""
    waiting, seen = [expression], 0
    while waiting and seen <= limit:
        part = waiting.pop()
        seen += 1
        if isinstance(part, ListOf):
            waiting.append(part.item)
        elif isinstance(part, MapOf):
            waiting.append(part.value)
        elif isinstance(part, Union):
            waiting.extend(part.options)
        elif isinstance(part, TupleOf):
            waiting.extend([*part.items, *([part.rest] if part.rest else [])])
    return seen > limit


def guess_types(schema: JsonObject) -> Iterator[str]:
    """The types that a schema without `type` implies."""
    if schema.keys() & {"items", "prefixItems", "minItems", "maxItems"}:
        yield "array"
    if schema.keys() & {"additionalProperties", "patternProperties"}:
        yield "object"
    if schema.keys() & {"minLength", "maxLength", "pattern"}:
        yield "string"


def notes_of(schema: JsonObject) -> Iterator[str]:
    """A member's constraints as short text."""
    for option in (*_parts(schema, "anyOf"), *_parts(schema, "oneOf")):  # `int | None` has its bounds inside
        if "properties" not in option:
            yield from notes_of({word: value for word, value in option.items() if word not in {"anyOf", "oneOf"}})
    for word, sign in _BOUNDS:
        bound = schema.get(word)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and _meant(word, bound):
            yield f"{sign} {bound}"
    for word in ("pattern", "format"):
        if isinstance(text := schema.get(word), str) and 0 < len(text) <= NOTE_CHARS_MAX:
            yield f"{word} {text}"
    if isinstance(items := schema.get("items"), dict) and isinstance(text := items.get("format"), str):
        yield f"items of format {clip(text, NOTE_CHARS_MAX)}"


def _parts(schema: JsonObject, word: str) -> list[JsonObject]:
    options = schema.get(word)
    return [option for option in options[:4] if isinstance(option, dict)] if isinstance(options, list) else []


def _meant(word: str, bound: float) -> bool:
    return (
        math.isfinite(bound)
        and abs(bound) != _JSON_INTEGER_LIMIT
        and not (bound == 0 and word.startswith("min") and word != "minimum")
    )


def json_text(value: JsonValue, chars_max: int) -> str | None:
    """JSON in ASCII, or None if it is too long or not JSON (NaN)."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return text if len(text) <= chars_max else None


def strings(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def member_text(value: JsonValue) -> str:
    return clip(value, MEMBER_DESCRIPTION_CHARS_MAX) if isinstance(value, str) else ""


def title_of(schema: JsonValue, fallback: str) -> str:
    title = schema.get("title") if isinstance(schema, dict) else None
    return title if isinstance(title, str) and 0 < len(title) <= 60 else fallback


def singular(hint: str) -> str:
    """`entities` -> `entity`, `rows` -> `row`: a better name for an item's type."""
    if hint.endswith("ies") and len(hint) > 4:
        return hint[:-3] + "y"
    return hint[:-1] if hint.endswith("s") and not hint.endswith(("ss", "us", "is")) and len(hint) > 3 else hint


def clip(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
