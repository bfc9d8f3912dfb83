"""Placeholders fit the schema they are made from, end whatever the schema says, and are found again in later calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.json import digest_json
from moonpool.core.placeholders import Mark, schema_placeholder, value_at
from moonpool.features.plans.model import Effect, EffectKind, as_planned, find_openings
from tables import every_row

_LISTS = Path(__file__).parent.parent / "data" / "toollists"


def published_schemas() -> list[Any]:
    return [
        pytest.param(tool[member], id=f"{path.stem}.{tool['name']}.{member}")
        for path in sorted(_LISTS.glob("*.json"))
        for tool in json.loads(path.read_text(encoding="utf-8"))["result"]["tools"]
        for member in ("outputSchema", "inputSchema")
        if member in tool
    ]


def fits(schema: Any, value: Any) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(value)


@every_row("schema", published_schemas)
def test_published_schemas_get_a_placeholder_that_fits(schema: Any) -> None:
    made = [schema_placeholder(schema, 3, whole=whole) for whole in (True, False)]
    assert any(one is not None and fits(schema, one.value) for one in made)


@every_row(
    "schema",
    [
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5, "multipleOf": 2}}},
        {"type": "object", "properties": {"n": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}}},
        {"type": "object", "properties": {"s": {"type": "string", "pattern": "^[a-z]{3}$"}}, "required": ["s"]},
        {"type": "object", "properties": {"s": {"type": "string", "minLength": 60, "maxLength": 61}}},
        {"type": "object", "properties": {"s": {"type": "string", "maxLength": 2}}},
        {"type": "object", "properties": {"l": {"type": "array", "minItems": 3, "items": {"$ref": "#/$defs/a"}}},
         "required": ["l"], "$defs": {"a": {"enum": ["x", "y"]}}},
        {"type": "object", "properties": {"child": {"$ref": "#"}, "id": {"type": "string"}}, "required": ["id"]},
        {"type": "object", "properties": {"l": {"type": "array", "items": {"$ref": "#"}}}, "required": ["l"]},
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "boolean"}},
        {"type": "object", "allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}], "required": ["b"]},
        {"type": "object", "properties": {"v": {"anyOf": [{"type": "null"}, {"type": "string", "format": "uuid"}]}}},
        {"type": "object", "properties": {"t": {"type": "array", "prefixItems": [{"type": "null"}, {"const": 4}]}}},
    ],
)  # fmt: skip
def test_schemas_with_bounds_get_a_placeholder_that_fits(schema: Any) -> None:
    made = [schema_placeholder(schema, 1, whole=whole) for whole in (True, False)]
    assert any(one is not None and fits(schema, one.value) for one in made)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "https://example.com/a"},
        {"allOf": [{"$ref": "#"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"anyOf": [{"$ref": "#"}, False]},
        {
            "allOf": [{"$ref": "#/$defs/a"}] * 900,
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 900}, "b": {"allOf": [{"$ref": "#/$defs/a"}] * 900}},
        },
        {"type": "number", "minimum": 1e299, "multipleOf": 1e-300},
    ],
)
def test_schemas_without_an_end_get_none(schema: Any) -> None:
    assert schema_placeholder(schema, 1) is None


_leaf = st.sampled_from(
    [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"enum": [1, "a"]}, {"type": "number"},
     {"type": "string", "format": "uri"}, {"type": "integer", "maximum": 7}, {"type": ["null", "string"]}]
)  # fmt: skip
_schemas = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.dictionaries(st.text(max_size=4), inner, max_size=4).map(
            lambda found: {"type": "object", "properties": found, "required": sorted(found)}
        ),
        st.tuples(inner, st.integers(0, 3)).map(lambda two: {"type": "array", "items": two[0], "minItems": two[1]}),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
    ),
    max_leaves=12,
)


@given(_schemas)
def test_any_placeholder_fits_is_made_alike_and_has_its_marks_in_place(schema: Any) -> None:
    made = schema_placeholder(schema, 2)
    assert made is not None
    assert fits(schema, made.value)
    assert schema_placeholder(schema, 2) == made
    assert all(value_at(made.value, mark.path) == mark.value for mark in made.marks.values())


# --- places that are open

MARKS = {
    "placeholder-1-1": (1, Mark(value="https://placeholder.invalid/placeholder-1-1", path="/url")),
    "1997001002": (1, Mark(value=1_997_001_002, path="/id")),
}
REAL = {1: {"url": "https://github.example/7", "id": 7}}


def effect(arguments: Any) -> Effect:
    openings, derived = find_openings(arguments, MARKS)
    return Effect(
        number=2, kind=EffectKind.CALL, server_id="s", tool_name="t", tool_digest="", arguments="",
        arguments_digest=digest_json(arguments), verdict="ask", rule_id="", reason="", of_the_moment=False,
        destructive=False, placeholder="schema", openings=openings, derived=derived,
    )  # fmt: skip


@every_row(
    ("planned", "real", "expected"),
    [
        pytest.param({"n": 1_997_001_002}, {"n": 7}, True, id="the value itself"),
        pytest.param({"n": 1_997_001_002}, {"n": "7"}, False, id="another type"),
        pytest.param({"n": 1_997_001_002}, {"n": 8}, False, id="another value"),
        pytest.param({"n": 1_997_001_002, "m": 1}, {"n": 7, "m": 2}, False, id="another value elsewhere"),
        pytest.param({"n": 1_997_001_002}, {"n": 7, "extra": 1}, False, id="one member more"),
        pytest.param({"n": 1_997_001_002}, {"n": 1_997_001_002}, False, id="the placeholder itself"),
        pytest.param({"t": "see #1997001002."}, {"t": "see #7."}, True, id="in a text"),
        pytest.param({"t": "see #1997001002."}, {"t": "see #7!"}, False, id="in another text"),
        pytest.param(
            {"t": ["#1997001002 https://placeholder.invalid/placeholder-1-1 #1997001002"]},
            {"t": ["#7 https://github.example/7 #7"]},
            True,
            id="several in a text",
        ),
        pytest.param(
            {"t": "#1997001002 #1997001002"}, {"t": "#7 #8"}, False, id="several in a text, the second another"
        ),
        pytest.param({"a/b": {"~": 1_997_001_002}}, {"a/b": {"~": 7}}, True, id="names that pointers escape"),
    ],
)
def test_an_open_place_takes_the_real_value_and_nothing_else(planned: Any, real: Any, expected: bool) -> None:
    assert as_planned(real, effect(planned), REAL) is expected


def test_a_place_is_closed_until_the_call_it_depends_on_has_returned() -> None:
    assert not as_planned({"n": 7}, effect({"n": 1_997_001_002}), {})


@pytest.mark.parametrize("arguments", [{"t": "placeholder-1-1"}, {"placeholder-1-1": 1}, {"u": "x/placeholder-1-1"}])
def test_a_part_of_a_placeholder_is_told_and_not_followed(arguments: Any) -> None:
    assert effect(arguments).derived
    assert effect(arguments).openings == ()


def test_what_only_looks_like_a_placeholder_is_an_ordinary_value() -> None:
    assert (effect({"t": "placeholder-9-9"}).openings, effect({"t": "placeholder-9-9"}).derived) == ((), ())


@pytest.mark.parametrize("long", ["at", "path"])
def test_a_place_that_nobody_could_read_is_not_followed(long: str) -> None:
    name = "n" * 2_000
    marks = {"1997001002": (1, Mark(value=1_997_001_002, path=f"/{name}" if long == "path" else "/id"))}
    openings, derived = find_openings({name if long == "at" else "n": 1_997_001_002}, marks)
    assert openings == ()
    assert [len(one) <= 500 for one in derived] == [True]
