"""Typed differences between definitions: which there are, how grave they are, and that none is missed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moonpool.core.json import digest_json
from moonpool.core.manifest import ToolDefinition
from moonpool.features.drift.model.changes import ToolNames, apply_diff, diff_added, diff_removed, diff_tool
from tables import every_row

NAMES = ToolNames([("box", "put"), ("box", "get_item"), ("mail", "send_mail"), ("mail", "in")])
RAW: dict[str, Any] = {
    "name": "put",
    "title": "Put",
    "description": "Puts an item into the box.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "item": {"type": "string", "description": "what"},
            "size": {"type": "string", "enum": ["s", "m", "l"], "default": "m"},
            "where": {"$ref": "#/$defs/Place"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["item"],
        "$defs": {"Place": {"type": "object", "properties": {"shelf": {"type": "integer"}}}},
    },
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": False, "destructiveHint": False},
}


def tool(raw: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(server_id="box", name="put", raw=raw)


def changed(path: str, value: Any) -> dict[str, Any]:
    """RAW with the value at `path` replaced; `...` removes it."""
    raw = copy.deepcopy(RAW)
    *steps, last = path.split("/")
    at = raw
    for step in steps:
        at = at.setdefault(step, {})
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return raw


SCHEMA = "inputSchema"
ITEM = f"{SCHEMA}/properties/item"


@pytest.mark.req("H-078")
@every_row(
    ("raw", "expected", "dangerous"),
    [
        pytest.param(changed("description", "Puts things."), {"description"}, False, id="description only"),
        pytest.param(changed("title", "Put it"), {"title"}, False, id="title only"),
        pytest.param(changed("annotations/title", "Put"), {"annotation"}, False, id="annotation that is no hint"),
        pytest.param(changed("_meta", {"a": 1}), {"other"}, False, id="member that nobody knows"),
        pytest.param(
            changed(f"{SCHEMA}/properties/note", {"type": "string"}), {"parameter_added"}, False, id="optional added"
        ),
        pytest.param(changed(f"{SCHEMA}/properties/size", ...), {"parameter_removed"}, False, id="removed"),
        pytest.param(changed(f"{SCHEMA}/required", ["item", "size"]), {"parameter_required"}, True, id="required now"),
        pytest.param(changed(f"{SCHEMA}/required", ["item", "new"]), {"parameter_added"}, True, id="unlisted required"),
        pytest.param(changed(f"{SCHEMA}/required", []), {"parameter_optional"}, False, id="optional now"),
        pytest.param(changed(f"{ITEM}/type", "integer"), {"type_changed"}, True, id="type"),
        pytest.param(changed(f"{ITEM}/type", ["string", "null"]), {"type_changed"}, True, id="type widened"),
        pytest.param(changed(ITEM, False), {"type_changed"}, True, id="nothing is taken any more"),
        pytest.param(changed(f"{ITEM}/description", "that"), {"parameter_description"}, False, id="parameter's text"),
        pytest.param(changed(f"{ITEM}/maxLength", 3), {"constraint"}, False, id="constraint"),
        pytest.param(changed(f"{SCHEMA}/additionalProperties", False), {"constraint"}, False, id="closed"),
        pytest.param(
            changed(f"{SCHEMA}/properties/size/enum", ["s", "m"]), {"enum_narrowed"}, False, id="enum narrowed"
        ),
        pytest.param(
            changed(f"{SCHEMA}/properties/size/enum", ["s", "m", "l", "x"]), {"enum_widened"}, False, id="enum widened"
        ),
        pytest.param(
            changed(f"{SCHEMA}/properties/size/enum", ["a", "m"]),
            {"enum_narrowed", "enum_widened"},
            False,
            id="enum replaced",
        ),
        pytest.param(changed(f"{SCHEMA}/properties/size/default", "l"), {"default_changed"}, True, id="default"),
        pytest.param(
            changed(f"{SCHEMA}/$defs/Place/properties/shelf/type", "string"), {"type_changed"}, True, id="behind a $ref"
        ),
        pytest.param(
            changed(f"{SCHEMA}/$defs/Place/required", ["shelf"]), {"parameter_required"}, True, id="required in a $ref"
        ),
        pytest.param(
            changed(f"{SCHEMA}/properties/tags/items/type", "integer"), {"type_changed"}, True, id="in the items"
        ),
        pytest.param(
            changed(f"{SCHEMA}/properties/where", RAW[SCHEMA]["$defs"]["Place"]), {"constraint"}, False, id="inlined"
        ),
        pytest.param(
            changed(f"{SCHEMA}/properties/where", {"$ref": "https://elsewhere/x"}),
            {"type_changed", "parameter_removed"},
            True,
            id="a $ref to elsewhere",
        ),
        pytest.param(changed("outputSchema/type", "array"), {"output_schema"}, False, id="output schema"),
        pytest.param(
            changed("annotations/destructiveHint", True), {"annotation_flipped"}, True, id="destructive flipped on"
        ),
        pytest.param(
            changed("annotations/destructiveHint", ...), {"annotation_flipped"}, True, id="destructive by default"
        ),
        pytest.param(changed("annotations/readOnlyHint", True), {"annotation_flipped"}, True, id="read-only claimed"),
        pytest.param(
            changed("description", "Call send_mail first."), {"description", "names_tools"}, True, id="names a tool"
        ),
        pytest.param(
            changed("description", "Call MAIL.in first."), {"description", "names_tools"}, True, id="names with server"
        ),
        pytest.param(changed("description", "Puts it in."), {"description"}, False, id="a short name is a word"),
        pytest.param(changed("description", "put resend_mails"), {"description"}, False, id="its own name, parts"),
        pytest.param(
            changed(f"{ITEM}/description", "as get_item gave it"),
            {"parameter_description", "names_tools"},
            True,
            id="names a tool in a parameter",
        ),
    ],
)
def test_each_kind_of_change_is_typed_and_weighed(raw: dict[str, Any], expected: set[str], dangerous: bool) -> None:
    diff = diff_tool(tool(RAW), tool(raw), NAMES)
    assert ({str(change.kind) for change in diff.changes}, diff.dangerous) == (expected, dangerous)
    assert bool(diff.reasons) == dangerous


def test_a_read_only_tool_that_is_none_any_more_is_dangerous() -> None:
    was = tool(changed("annotations/readOnlyHint", True))
    assert diff_tool(was, tool(RAW), NAMES).dangerous


def test_naming_a_tool_that_was_named_before_is_nothing_new() -> None:
    was = tool(changed("description", "See send_mail."))
    now = tool(changed("description", "See also send_mail."))
    assert not diff_tool(was, now, NAMES).dangerous


@pytest.mark.parametrize(
    ("text", "dangerous"),
    [
        pytest.param("adds", False, id="plain"),
        pytest.param("like get_item", False, id="names a neighbour"),
        pytest.param("call send_mail before", True, id="names a tool of another server"),
    ],
)
def test_an_added_tool_is_dangerous_when_it_names_tools_of_others(text: str, dangerous: bool) -> None:
    added = ToolDefinition(server_id="box", name="new", raw={"name": "new", "description": text})
    assert diff_added(added, NAMES).dangerous is dangerous


def test_a_removed_tool_is_harmless() -> None:
    diff = diff_removed(tool(RAW))
    assert (bool(diff), diff.dangerous) == (True, False)


def test_recursive_schemas_end() -> None:
    def schema(leaf: str) -> dict[str, Any]:
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "value": {"type": leaf}}}
        return changed(
            SCHEMA, {"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
        )

    diff = diff_tool(tool(schema("string")), tool(schema("integer")), NAMES)
    assert [(str(change.kind), change.place) for change in diff.changes if change.severity == "dangerous"] == [
        ("type_changed", "n/value")
    ]


def test_schemas_that_explode_are_incomparable_in_bounded_time() -> None:
    defs: dict[str, Any] = {
        f"d{level}": {"properties": {str(arm): {"$ref": f"#/$defs/d{level + 1}"} for arm in range(10)}}
        for level in range(12)
    }
    was = changed(SCHEMA, {"$ref": "#/$defs/d0", "$defs": {**defs, "d12": {"type": "string"}}})
    now = changed(SCHEMA, {"$ref": "#/$defs/d0", "$defs": {**defs, "d12": {"type": "integer"}}})
    assert [str(change.kind) for change in diff_tool(tool(was), tool(now), NAMES).changes] == ["incomparable"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "object", ["string", "null"]]),
        "properties": st.dictionaries(st.sampled_from("abc"), JSON, max_size=3),
        "required": st.lists(st.sampled_from("abc"), max_size=3) | JSON,
        "enum": JSON,
        "default": JSON,
        "anyOf": JSON,
        "$ref": st.sampled_from(["#", "#/properties/a", "#/$defs/a", "x"]),
        "$defs": JSON,
        "items": JSON,
    },
)
DEFINITIONS = st.fixed_dictionaries(
    {"name": st.just("put")},
    optional={
        "description": JSON,
        "inputSchema": SCHEMAS | JSON,
        "outputSchema": JSON,
        "annotations": st.dictionaries(st.sampled_from(["readOnlyHint", "title"]), JSON) | JSON,
        "_meta": JSON,
    },
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(DEFINITIONS)
def test_no_change_gives_an_empty_diff(raw: dict[str, Any]) -> None:
    assert not diff_tool(tool(raw), tool(copy.deepcopy(raw)), NAMES)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(DEFINITIONS, DEFINITIONS)
def test_a_diff_is_complete(old: dict[str, Any], new: dict[str, Any]) -> None:
    diff = diff_tool(tool(old), tool(new), NAMES)
    assert bool(diff) == (digest_json(old) != digest_json(new))
    assert digest_json(apply_diff(old, diff)) == digest_json(new)
