"""JSON Schema -> IR: what is understood, what is bounded, and that nothing raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moonpool.core.manifest import Manifest, ToolDefinition
from moonpool.wrappers import reading as reading_module
from moonpool.wrappers import schema as schema_module
from moonpool.wrappers import tree as tree_module
from moonpool.wrappers.ir import Choice, Hints, ListOf, MapOf, Ref, Scalar, ToolShape, TupleOf, Union
from moonpool.wrappers.leaf_schemas import union_of
from moonpool.wrappers.schema import read_tool
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.tree import render_tree
from tables import every_row
from wrappers.roundtrip import make_listing


def read(schema: Any, **others: Any) -> ToolShape:
    return read_tool(ToolDefinition(server_id="s", name="t", raw={"name": "t", "inputSchema": schema, **others}))


def type_of(schema: Any) -> Any:
    """The type of a member with this schema."""
    return read({"type": "object", "properties": {"x": schema}}).input.members[0].type


@pytest.mark.req("H-039")
@every_row(
    ("schema", "expected"),
    [
        pytest.param({"type": "string"}, Scalar.STRING, id="a scalar"),
        pytest.param({"type": ["string", "null"]}, Union((Scalar.STRING, Scalar.NULL)), id="a list of types"),
        pytest.param({"type": "string", "nullable": True}, Union((Scalar.STRING, Scalar.NULL)), id="nullable"),
        pytest.param({"enum": ["a", None]}, Union((Choice(('"a"',)), Scalar.NULL)), id="null among enum members"),
        pytest.param({"enum": [True, 1, "1"]}, Choice(("true", "1", '"1"')), id="true is not one"),
        pytest.param({"enum": [None]}, Scalar.NULL, id="an enum of null"),
        pytest.param({"enum": []}, Scalar.ANY, id="an empty enum"),
        pytest.param({"enum": [1.5, "a"]}, Union((Scalar.NUMBER, Scalar.STRING)), id="an enum with a float"),
        pytest.param({"enum": ["x" * 600]}, Scalar.STRING, id="an enum member too long to show"),
        pytest.param({"const": [1]}, ListOf(Scalar.ANY), id="a const array"),
        pytest.param({"const": {"a": 1}}, MapOf(Scalar.ANY), id="a const object"),
        pytest.param({"items": {"type": "integer"}}, ListOf(Scalar.INTEGER), id="items without a type"),
        pytest.param({"maxLength": 3}, Scalar.STRING, id="maxLength without a type"),
        pytest.param({"additionalProperties": {"type": "null"}}, MapOf(Scalar.NULL), id="a map without a type"),
        pytest.param({"type": "array", "items": False}, ListOf(Scalar.ANY), id="no items"),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
            TupleOf((Scalar.STRING,), None),
            id="a tuple of 2020-12",
        ),
        pytest.param(
            {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}},
            TupleOf((Scalar.STRING,), Scalar.NULL),
            id="a tuple of draft-07",
        ),
        pytest.param({"anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, Choice(('"a"', '"b"')), id="choices are merged"),
        pytest.param({"anyOf": [{"type": "string"}, {}]}, Scalar.ANY, id="any swallows the rest"),
        pytest.param({"allOf": [{}, {"type": "string"}]}, Scalar.STRING, id="allOf of a scalar"),
        pytest.param({"allOf": [{}, {"minimum": 1}]}, Scalar.ANY, id="allOf of nothing known"),
        pytest.param({"anyOf": [{"type": "string"}] * 65}, Scalar.ANY, id="too many alternatives"),
        pytest.param({"$ref": "#/properties/x"}, Scalar.ANY, id="a reference to itself"),
        pytest.param(True, Scalar.ANY, id="true"),
        pytest.param({"type": "object", "properties": {}}, MapOf(Scalar.ANY), id="an object without members"),
    ],
)
def test_types_are_read(schema: Any, expected: object) -> None:
    assert type_of(schema) == expected


def test_union_of_nothing_is_any() -> None:
    assert union_of([]) is Scalar.ANY


def test_objects_that_say_the_same_are_one() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}}
    shape = read({"type": "object", "properties": {"from": point, "to": point}})
    assert list(shape.objects) == ["input#/properties/from"]
    assert shape.input.members[1].type == Ref("input#/properties/from")


def test_a_slash_in_a_name_does_not_mix_up_objects() -> None:
    def having(name: str) -> Any:
        return {"type": "object", "properties": {name: {"type": "string"}}}

    nested = {"type": "object", "properties": {"b": having("inner")}}
    shape = read({"properties": {"a": nested, "a/properties/b": having("outer")}})
    assert isinstance(shape.input.members[1].type, Ref)
    assert shape.objects[shape.input.members[1].type.key].members[0].wire_name == "outer"
    assert len(shape.objects) == 3


def test_a_recursive_object_refers_to_itself() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    shape = read({"type": "object", "properties": {"first": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    assert shape.objects["input#/$defs/node"].members[0].type == Ref("input#/$defs/node")


def test_a_root_behind_a_reference_is_followed() -> None:
    shape = read({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"x": {"type": "string"}}}}})
    assert [member.wire_name for member in shape.input.members] == ["x"]


def test_a_root_that_refers_to_itself_for_ever_takes_anything() -> None:
    shape = read({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})
    assert shape.input.members == ()
    assert shape.input.extras is Scalar.ANY


def test_references_step_through_lists_and_escapes() -> None:
    schema = {"properties": {"a/b~": {"anyOf": [{"type": "integer"}]}, "x": {"$ref": "#/properties/a~1b~0/anyOf/0"}}}
    assert read(schema).input.members[1].type is Scalar.INTEGER


@pytest.mark.parametrize("reference", ["#/properties/x/anyOf/9", "#/properties/x/anyOf/z", "https://example.com/a", 7])
def test_references_that_lead_nowhere_are_any_with_a_warning(reference: object) -> None:
    shape = read({"properties": {"x": {"anyOf": [{"type": "integer"}]}, "y": {"$ref": reference}}})
    assert shape.input.members[1].type is Scalar.ANY
    assert "$ref" in shape.warnings[0]


@pytest.mark.req("H-038")
@pytest.mark.parametrize(
    ("dialect", "warnings"),
    [
        pytest.param("http://json-schema.org/draft-07/schema#", 0, id="draft-07"),
        pytest.param("https://json-schema.org/draft/2020-12/schema", 0, id="2020-12"),
        pytest.param("https://example.com/mine", 1, id="somebody's own"),
    ],
)
def test_an_unknown_dialect_gives_a_warning(dialect: str, warnings: int) -> None:
    assert len(read({"$schema": dialect, "type": "object"}).warnings) == warnings


def test_members_of_all_parts_are_merged() -> None:
    shape = read({
        "properties": {"a": {}},
        "required": ["a"],
        "allOf": [{"properties": {"b": {}}, "required": ["b"]}],
        "anyOf": [{"properties": {"c": {}}, "required": ["c"]}, True],
    })  # fmt: skip
    assert {member.wire_name: member.required for member in shape.input.members} == {"a": True, "b": True, "c": False}


def test_nested_all_of_makes_one_object() -> None:
    schema = {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]}
    shape = read({"properties": {"x": schema}})
    assert shape.objects["input#/properties/x"].members[0].required


def test_constraints_become_notes() -> None:
    words = {
        "minimum": 1,
        "maximum": 2**53 - 1,
        "minLength": 0,
        "pattern": "^a",
        "format": "uri",
        "items": {"format": "x"},
    }
    (member,) = read({"properties": {"x": words}}).input.members
    assert member.notes == (">= 1", "pattern ^a", "format uri", "items of format x")


def test_constraints_of_an_optional_type_are_found_inside_it() -> None:
    (member,) = read(
        {"properties": {"x": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}}}
    ).input.members
    assert member.notes == (">= 1",)


@pytest.mark.req("H-036")
def test_hints_are_read_where_they_are_booleans() -> None:
    shape = read({}, annotations={"readOnlyHint": True, "destructiveHint": "yes"})
    assert shape.hints == Hints(read_only=True)


def test_a_default_that_is_no_json_or_too_long_is_left_out() -> None:
    shape = read({"properties": {"nan": {"default": float("nan")}, "long": {"default": "x" * 600}}})
    assert [member.default for member in shape.input.members] == [None, None]


def nest(parts: int, levels: int) -> dict[str, Any]:
    return {"allOf": [nest(parts, levels - 1)] * parts} if levels else {}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {f"m{n}": {} for n in range(2000)}}, id="many members"),
        pytest.param(
            {"anyOf": [{"properties": {f"y{n}": {}}} for n in range(60)], "allOf": [{}] * 500}, id="many parts"
        ),
        pytest.param({"properties": {"x": {}}, **nest(60, 4)}, id="parts of parts of parts"),
    ],
)
def test_large_schemas_are_cut_with_a_warning(schema: Any) -> None:
    shape = read(schema)
    assert len(shape.input.members) <= schema_module.MEMBERS_MAX


def test_a_deep_schema_ends_in_any() -> None:
    deep: Any = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    shape = read({"properties": {"x": deep}})
    assert "too deep" in shape.warnings[0]


@pytest.mark.req("H-040")
def test_a_tool_whose_schema_breaks_the_reader_gets_an_untyped_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(tool: ToolDefinition) -> ToolShape:
        if tool.name == "bad":
            raise RecursionError
        return read_tool(tool)

    monkeypatch.setattr(reading_module, "read_tool", fail)
    tools = [{"name": "bad", "description": "Bad."}, {"name": "good", "description": "Good."}]
    tree = render_tree(Manifest(servers=(make_listing("s", tools),)))
    assert {"servers/s/bad.py", "servers/s/good.py"} <= tree.files.keys()
    assert [str(warning) for warning in tree.warnings] == [
        "s.bad: its schema could not be read (RecursionError); arguments are untyped"
    ]


@pytest.mark.req("H-040")
def test_a_tool_whose_types_cannot_be_written_gets_an_untyped_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    render = tree_module.mcptools_tree.render_tool

    def fail_for_types(shape: ToolShape) -> str:
        if shape.input.members:
            raise KeyError("x")
        return render(shape)

    monkeypatch.setattr(tree_module.mcptools_tree, "render_tool", fail_for_types)
    tool = {"name": "t", "inputSchema": {"properties": {"x": {}}}}
    tree = render_tree(Manifest(servers=(make_listing("s", [tool]),)))
    assert [warning.text for warning in tree.warnings] == [
        "its types could not be written (KeyError); arguments are untyped"
    ]


@pytest.mark.parametrize("word", ["prefixItems", "anyOf"])
def test_shared_references_do_not_multiply(word: str) -> None:
    shared: dict[str, Any] = {
        f"l{n}": {
            word: [
                {"type": "array", "items": {"$ref": f"#/$defs/l{n + 1}"}},
                {"additionalProperties": {"$ref": f"#/$defs/l{n + 1}"}},
            ]
            * 20
        }
        for n in range(20)
    }
    shape = read({"properties": {"x": {"$ref": "#/$defs/l0"}}, "$defs": shared})
    assert any("too large to write down" in warning for warning in shape.warnings)


def test_many_choices_are_told_by_type() -> None:
    parts = [{"enum": [f"{n}-{m}" for m in range(60)]} for n in range(3)]
    assert type_of({"anyOf": [*parts, {"type": "null"}]}) == Union((Scalar.STRING, Scalar.NULL))


@pytest.mark.req("H-040")
def test_a_schema_that_nests_very_deeply_loses_nothing() -> None:
    deep = json.loads('{"allOf":[' * 300 + "{}" + "]}" * 300)
    tree = render_tree(Manifest(servers=(make_listing("s", [{"name": "deep", "inputSchema": deep}]),)))
    compile(tree.files["servers/s/deep.py"], "deep", "exec")


_words = st.sampled_from([
    "type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref", "$defs", "enum",
    "const", "additionalProperties", "patternProperties", "default", "description", "nullable", "minimum", "format",
    "title", "x",
])  # fmt: skip
_scalars = st.one_of(
    st.sampled_from(["string", "object", "array", "#", "#/$defs/x", "#/properties/x", 1, True, None, 1.5, ""]),
    st.text(max_size=5),
)
_junk = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=4), max_leaves=25
)


@pytest.mark.req("H-040")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(definition=st.dictionaries(st.sampled_from(["inputSchema", "outputSchema", "title", "annotations"]), _junk))
def test_any_definition_gives_code_that_compiles(definition: dict[str, Any]) -> None:
    manifest = Manifest(servers=(make_listing("s", [{**definition, "name": "t"}]),))
    tree = render_tree(manifest)
    for path, content in tree.files.items():
        if path.endswith(".py"):
            compile(content, path, "exec")
    for tool in manifest.tools():
        assert render_stub(tool, names=tree.names).startswith("await servers.s.t(")
