"""What changed between two JSON Schemas of a tool's arguments, parameter by parameter. Pure.

`$ref` into the same document is followed, so that moving a schema into `$defs` is no change; nothing is ever fetched.
A reference inside itself stays as it is.

SECURITY: schemas are untrusted. Depth and the number of steps are bounded; what lies beyond is said to be incomparable,
which counts as dangerous unless the texts are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.json import JsonObject, JsonValue, canonical_json, digest_json

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH_MAX: Final = 24
STEP_COUNT_MAX: Final = 5_000
SCHEMA_BYTES_MAX: Final = 1024**2
_PLACE_LENGTH_MAX: Final = 200
_TEXTS: Final = frozenset({"description", "title", "examples", "$comment", "deprecated"})
_DOCUMENT: Final = frozenset({"$defs", "definitions", "$schema", "$id", "$anchor"})
_INNER: Final = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_HANDLED: Final = frozenset(
    {"properties", "required", "type", "enum", "const", "default", "$ref", *_INNER, *_LISTS, *_TEXTS, *_DOCUMENT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One difference; `kind` is a value of `moonpool.features.drift.model.changes.ChangeKind`."""

    kind: str
    place: str
    reason: str
    dangerous: bool = False


def compare_schemas(old: JsonValue, new: JsonValue) -> tuple[SchemaChange, ...]:
    """Every difference that matters; empty when the schemas ask for the same."""
    was, now = canonical_json(old), canonical_json(new)
    if was == now:
        return ()
    if max(len(was), len(now)) > SCHEMA_BYTES_MAX:
        return (_INCOMPARABLE,)
    return tuple(_Comparison(old, new).run())


_INCOMPARABLE: Final = SchemaChange(
    kind="incomparable", place="", reason="the schema is too large or too deep to compare", dangerous=True
)


class _TooLargeError(Exception):
    """The bounds are reached."""


class _Comparison:
    """Walks two schemas side by side."""

    def __init__(self, old: JsonValue, new: JsonValue) -> None:
        self._old, self._new = old, new
        self._steps = 0
        self._digests: dict[int, str] = {}  # by id: a large value that many references lead to is read once

    def run(self) -> Iterator[SchemaChange]:
        try:
            found = list(self._walk(self._old, self._new, "", ()))
        except (_TooLargeError, RecursionError):
            found = [_INCOMPARABLE]
        if not found:
            found = [_changed("constraint", "", "the schema is written otherwise, but asks for the same")]
        yield from found

    def _same(self, old: JsonObject, new: JsonObject, keyword: str) -> bool:
        if (keyword in old) != (keyword in new):
            return False
        return keyword not in old or self._digest(old[keyword]) == self._digest(new[keyword])

    def _digest(self, value: JsonValue) -> str:
        if not isinstance(value, dict | list):
            return digest_json(value)
        if id(value) not in self._digests:  # the schemas outlive this comparison, so ids stay theirs
            self._digests[id(value)] = digest_json(value)
        return self._digests[id(value)]

    def _walk(
        self, old: JsonValue, new: JsonValue, place: str, seen: tuple[tuple[str, str], ...]
    ) -> Iterator[SchemaChange]:
        self._steps += 1
        if self._steps > STEP_COUNT_MAX:
            raise _TooLargeError
        pair = (_reference(old), _reference(new))
        if any(pair):
            if pair in seen:  # both are inside what is being compared already
                return
            seen = (*seen, pair)
        if len(seen) > DEPTH_MAX or place.count("/") > DEPTH_MAX:
            raise _TooLargeError
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from self._objects(old, new, place, seen)
        elif old is not new:
            yield _changed("type_changed", place, f"what {_name(place)} may be changed", dangerous=True)

    def _objects(
        self, old: JsonObject, new: JsonObject, place: str, seen: tuple[tuple[str, str], ...]
    ) -> Iterator[SchemaChange]:
        yield from self._values(old, new, place)
        yield from self._parameters(old, new, place, seen)
        for keyword in _INNER:
            yield from self._inner(old.get(keyword), new.get(keyword), f"{place}/{keyword}", seen)
        for keyword in _LISTS:
            yield from self._choices(old.get(keyword), new.get(keyword), f"{place}/{keyword}", seen)
        if _reference(old) != _reference(new):  # what could not be resolved
            yield _changed("type_changed", place, f"the reference of {_name(place)} changed", dangerous=True)
        for keyword in sorted({*old, *new} - _HANDLED):
            if not self._same(old, new, keyword):
                yield _changed(
                    "constraint", place, f"{keyword[:60]} of {_name(place)} changed; calls are checked by it"
                )

    def _parameters(
        self, old: JsonObject, new: JsonObject, place: str, seen: tuple[tuple[str, str], ...]
    ) -> Iterator[SchemaChange]:
        was, now = _object(old.get("properties")), _object(new.get("properties"))
        needed_before, needed = _names(old.get("required")), _names(new.get("required"))
        for name in sorted({*was, *now, *needed_before, *needed}):
            here = f"{place}/{name}"
            if name not in was and (name in now or name not in needed_before):
                if name in needed and name not in needed_before:
                    yield _changed(
                        "parameter_added", here, f"{_name(here)} is a new required parameter", dangerous=True
                    )
                elif name in now:
                    yield _changed("parameter_added", here, f"{_name(here)} is a new optional parameter")
                continue
            if name not in now and name in was:
                yield _changed("parameter_removed", here, f"{_name(here)} is gone")
                if name in needed and name not in needed_before:
                    yield _changed("parameter_required", here, f"{_name(here)} is required now", dangerous=True)
                continue
            if name in needed and name not in needed_before:
                yield _changed("parameter_required", here, f"{_name(here)} is required now", dangerous=True)
            elif name in needed_before and name not in needed:
                yield _changed("parameter_optional", here, f"{_name(here)} may be left out now")
            if name in was and name in now:
                yield from self._walk(was[name], now[name], here, seen)

    def _inner(
        self, old: JsonValue, new: JsonValue, place: str, seen: tuple[tuple[str, str], ...]
    ) -> Iterator[SchemaChange]:
        if isinstance(old, dict) and isinstance(new, dict):
            yield from self._walk(old, new, place, seen)
        elif self._digest(old) != self._digest(new):
            if place.endswith("/additionalProperties"):
                reason = f"{_name(place)} changed: which other members are taken"
                yield _changed("constraint", place, reason, dangerous=isinstance(old, dict) or isinstance(new, dict))
            else:
                yield _changed("type_changed", place, f"what {_name(place)} may be changed", dangerous=True)

    def _choices(
        self, old: JsonValue, new: JsonValue, place: str, seen: tuple[tuple[str, str], ...]
    ) -> Iterator[SchemaChange]:
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            for index, (was, now) in enumerate(zip(old, new, strict=True)):
                yield from self._walk(was, now, f"{place}/{index}", seen)
        elif self._digest(old) != self._digest(new):
            yield _changed("type_changed", place, f"what {_name(place)} may be changed", dangerous=True)

    def _values(self, old: JsonObject, new: JsonObject, place: str) -> Iterator[SchemaChange]:
        if _types(old) != _types(new):
            reason = f"{_name(place)} was {_shown(old)} and is {_shown(new)} now"
            yield _changed("type_changed", place, reason, dangerous=True)
        yield from self._enums(old, new, place)
        if not self._same(old, new, "default"):
            reason = f"the default of {_name(place)} changed: a call without it may do something else"
            yield _changed("default_changed", place, reason, dangerous=True)
        if not all(self._same(old, new, text) for text in _TEXTS):
            yield _changed("parameter_description", place, f"the description of {_name(place)} changed")

    def _enums(self, old: JsonObject, new: JsonObject, place: str) -> Iterator[SchemaChange]:
        if self._same(old, new, "enum") and self._same(old, new, "const"):
            return
        was, now = _allowed(old), _allowed(new)
        if was != now and (was is None or (now is not None and was - now)):
            yield _changed("enum_narrowed", place, f"{_name(place)} takes fewer values; calls are checked by it")
        if was != now and (now is None or (was is not None and now - was)):
            yield _changed("enum_widened", place, f"{_name(place)} takes more values")


def _allowed(schema: JsonObject) -> frozenset[str] | None:
    """Digests of the values that are allowed; None when all are."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return frozenset(digest_json(value) for value in values) if isinstance(values, list) else None


def _types(schema: JsonObject) -> frozenset[str]:
    kind = schema.get("type")
    return frozenset(str(one) for one in kind) if isinstance(kind, list) else frozenset({str(kind)})


def _shown(schema: JsonObject) -> str:
    return "of any type" if schema.get("type") is None else "/".join(sorted(_types(schema)))[:80]


def _reference(schema: JsonValue) -> str:
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    return reference if isinstance(reference, str) else ""


def _resolved(schema: JsonValue, root: JsonValue) -> JsonValue:
    """`schema`, with what its `$ref` points to below the members it has itself; unresolvable ones stay."""
    for _ in range(DEPTH_MAX):
        reference = _reference(schema)
        if not reference.startswith("#"):
            return schema
        target = _pointed(root, reference[1:])
        if not isinstance(target, dict) or not isinstance(schema, dict):
            return target if isinstance(target, bool) else schema
        own = {member: value for member, value in schema.items() if member != "$ref"}
        schema = {**target, **own}
    raise _TooLargeError


def _pointed(root: JsonValue, pointer: str) -> JsonValue:
    if pointer and not pointer.startswith("/"):
        return None  # an anchor
    at = root
    for step in pointer.split("/")[1:]:
        member = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, dict) or member not in at:
            return None
        at = at[member]
    return at


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _names(value: JsonValue) -> frozenset[str]:
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()


def _name(place: str) -> str:
    return repr(place.strip("/")[:_PLACE_LENGTH_MAX]) if place.strip("/") else "the arguments as a whole"


def _changed(kind: str, place: str, reason: str, *, dangerous: bool = False) -> SchemaChange:
    return SchemaChange(kind=kind, place=place.strip("/")[:_PLACE_LENGTH_MAX], reason=reason, dangerous=dangerous)
