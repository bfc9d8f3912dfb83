"""A schema that would look at a value without end is found out before anything is checked by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moonpool.core.manifest import ToolDefinition
from moonpool.pipeline.schema_cost import LOOKS_MAX, Uncountable, looks_by_level, too_costly
from moonpool.pipeline.validation import SchemaCheck, SchemaChecks, Unread

TOOL_LISTS = Path(__file__).parents[1] / "data" / "toollists"
X = {"$ref": "#/$defs/x"}


def doubling(levels: int, word: str = "allOf") -> dict[str, Any]:
    steps = {f"a{one}": {word: [{"$ref": f"#/$defs/a{one + 1}"}] * 2} for one in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{levels}": {"type": "object"}}}


def deepening(**both: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": X}, "$defs": {"x": {"anyOf": [dict(both), dict(both)]}}}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"x": value}
    return value


def check(schema: dict[str, Any], member: str = "inputSchema") -> tuple[ToolDefinition, SchemaCheck]:
    tool = ToolDefinition(server_id="s", name="t", raw={"name": "t", member: schema})
    checks = SchemaChecks()
    return tool, checks.arguments(tool) if member == "inputSchema" else checks.result(tool)


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [40, 2000])
def test_a_schema_that_doubles_at_one_place_is_not_used(word: str, levels: int) -> None:
    tool, found = check(doubling(levels, word))
    assert found.warning == "inputSchema is not checked: it looks at everything too often"
    assert found.argument_problem(tool, {"a": 1}) == ""


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(deepening(properties={"x": X}), id="one member"),
        pytest.param(deepening(additionalProperties=X), id="all members"),
        pytest.param(deepening(properties={"x": X}, patternProperties={"^x": X}), id="by name and by pattern"),
    ],
)
def test_a_schema_that_doubles_from_level_to_level_refuses_deep_arguments(schema: dict[str, Any]) -> None:
    tool, found = check(schema)
    assert "which would look at them too often" in found.argument_problem(tool, nested(60))
    assert found.known_problem(tool, nested(60), Unread()) == ""
    assert found.argument_problem(tool, nested(4)) == ""
    _, of_result = check(schema, "outputSchema")
    assert of_result.result_problem(nested(60)).startswith("structuredContent is not checked")


def test_many_values_at_one_level_count() -> None:
    looks = looks_by_level(
        {
            **deepening(items=X),
            "properties": {"x": doubling(11)["$defs"]["a0"]},
            "$defs": {**doubling(11)["$defs"], "x": {"type": "string"}},
        }
    )
    assert not too_costly({"x": 1}, looks)
    assert too_costly({"x": 1, **{f"k{one}": one for one in range(LOOKS_MAX // 2000)}}, looks)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        pytest.param({"$ref": "#"}, "refers to itself at the same place", id="itself"),
        pytest.param({"anyOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"not": {"$ref": "#"}}}}, "itself", id="circle"),
        pytest.param({"$dynamicRef": "#n", "$dynamicAnchor": "n"}, "$dynamicRef", id="dynamic"),
        pytest.param({"$id": "http://h/a", "$ref": "a#/$defs/x", "$defs": {"x": {}}}, "another way", id="relative"),
        pytest.param(
            {"properties": {"p": X}, "$defs": {"x": {"$id": "http://h/b", "$ref": "#/$defs/y"}}},
            "$id",
            id="own address",
        ),
        pytest.param(
            {"$ref": "#/$defs/x/$defs/y", "$defs": {"x": {"$id": "http://h/b", "$defs": {"y": {}}}}},
            "$id",
            id="inside one",
        ),
        pytest.param({"$ref": "#a", "$defs": {"x": {"$anchor": "a"}, "y": {"$anchor": "a"}}}, "2 places", id="anchors"),
    ],
)
def test_what_cannot_be_counted_is_not_used(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(Uncountable, match=why.replace("$", r"\$")):
        looks_by_level(schema)
    assert check(schema)[1].warning.startswith("inputSchema is not checked: ")


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"child": {"$ref": "#"}}, "additionalProperties": False}, id="a tree of objects"),
        pytest.param({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"required": ["x"]}}}, id="an odd name"),
        pytest.param({"$ref": "#anchor", "$defs": {"x": {"$anchor": "anchor", "required": ["x"]}}}, id="an anchor"),
        pytest.param(
            {"$ref": "#/$defs/x", "$defs": {"x": {"required": ["x"], "examples": [{"id": "1", "$id": "2"}]}}},
            id="examples",
        ),
    ],
)
def test_ordinary_references_are_used_as_ever(schema: dict[str, Any]) -> None:
    tool, found = check(schema)
    assert (found.warning, found.looks) == ("", ())
    assert found.argument_problem(tool, {"y": 1})


def test_every_schema_of_published_servers_is_used() -> None:
    schemas = [
        raw[member]
        for path in TOOL_LISTS.glob("*.json")
        for raw in json.loads(path.read_text(encoding="utf-8"))["result"]["tools"]
        for member in ("inputSchema", "outputSchema")
        if member in raw
    ]
    assert len(schemas) > 100
    assert {looks_by_level(one) for one in schemas} == {()}
