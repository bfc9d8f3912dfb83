"""Stubs: short, true to the generated tree, and complete."""

from __future__ import annotations

import json
import re

import pytest
from rs_bpe.bpe import openai

from moonpool.core.manifest import Manifest
from moonpool.wrappers.names import name_manifest
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.tree import render_tree
from moonpool.wrappers.typescript_stubs import render_typescript_stub
from wrappers.regenerate import load_case
from wrappers.roundtrip import load_real_manifest, make_listing


def test_stubs_cost_less_than_the_definitions() -> None:
    manifest = load_real_manifest()
    names, count = name_manifest(manifest), openai.o200k_base()
    stubs = definitions = 0
    for tool in manifest.tools():
        kept = {word: tool.raw[word] for word in ("name", "title", "description", "inputSchema") if word in tool.raw}
        definitions += len(count.encode(json.dumps(kept, ensure_ascii=False, separators=(",", ":"))))
        without_result = {word: value for word, value in tool.raw.items() if word != "outputSchema"}
        listing = make_listing(tool.server_id, [without_result])
        stubs += len(count.encode(render_stub(listing.tools[0], names=names)))
    assert stubs / definitions < 0.8


@pytest.mark.parametrize("case", ["guide", "names", "schemas"])
def test_stubs_call_what_the_tree_defines(case: str) -> None:
    manifest = load_case(case)
    tree = render_tree(manifest)
    for tool in manifest.tools():
        stub = render_stub(tool, names=tree.names)
        found = re.match(r"await servers\.(\w+)\.(\w+)\(", stub)
        assert found is not None
        server, names = tree.names.find(tool.server_id, tool.name)
        assert found.groups() == (server.module, names.function)
        assert f"async def {found[2]}(" in tree.files[f"servers/{found[1]}/{names.file}.py"].decode()


def test_every_described_parameter_is_in_its_stub() -> None:
    manifest = load_real_manifest()
    names = name_manifest(manifest)
    for tool in manifest.tools():
        stub = render_stub(tool, names=names)
        schema = tool.raw["inputSchema"]
        for parameter in schema.get("properties", {}):  # type: ignore[union-attr]
            assert re.search(rf"\b{re.escape(parameter)}\b", stub), (tool.name, parameter)


def test_a_tool_outside_the_manifest_is_refused() -> None:
    manifest = load_case("guide")
    other = make_listing("sheets", [{"name": "other"}]).tools[0]
    with pytest.raises(KeyError):
        render_stub(other, names=name_manifest(manifest))


def test_required_parameters_come_first_and_types_are_written_once() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer", "description": "Across."}}, "required": ["x"]}
    schema = {
        "properties": {"b": {"type": "string", "default": "z"}, "a": {"$ref": "#/$defs/p"}, "c": {"$ref": "#/$defs/p"}},
        "required": ["a"],
        "$defs": {"p": point},
    }
    manifest = Manifest(servers=(make_listing("s", [{"name": "t", "description": "Do.", "inputSchema": schema}]),))
    (tool,) = manifest.tools()
    assert render_stub(tool, names=name_manifest(manifest)) == (
        'await servers.s.t(a: P, b: str = "z", c: P = ...):\n"""Do."""\nP = {x: int}\nP.x: Across.'
    )


def test_a_name_that_no_identifier_shows_is_told_where_nothing_else_is() -> None:
    tools = [{"name": "获取天气"}, {"name": "查询", "description": "Ask."}, {"name": "a.b-c"}]
    manifest = Manifest(servers=(make_listing("s", tools),))
    names = name_manifest(manifest)
    python = [render_stub(tool, names=names).splitlines()[1:] for tool in manifest.tools()]
    typescript = [render_typescript_stub(tool, names=names).splitlines()[0] for tool in manifest.tools()]

    assert python == [['"""获取天气"""'], ['"""Ask."""'], []]
    assert typescript[:2] == ["/** 获取天气 */", "/** Ask. */"]
    assert typescript[2].startswith("export function aBC(")


def test_defaults_of_another_type_and_nameless_members_pass_a_type_checker() -> None:
    members = {
        "count": ({"type": "integer"}, 5.5),
        "flag": ({"type": "boolean"}, "true"),
        "words": ({"type": "array", "items": {"type": "string"}}, "a,b"),
        "inner": ({"type": "object", "properties": {"q": {"type": "integer"}}}, {"q": 1}),
        "sort": ({"enum": ["x", "y"]}, "x"),
        "rows": ({"type": "array", "items": {"type": "integer"}}, [1]),
        "": ({"type": "string"}, "z"),
    }
    schema = {"properties": {name: {**kind, "default": value} for name, (kind, value) in members.items()}}
    files = render_tree(Manifest(servers=(make_listing("s", [{"name": "t", "inputSchema": schema}]),))).files
    params = files["mcptools/s/t.py"].decode()

    assert 'count: int = alias("count", default=5.5)' in params
    assert 'flag: bool = alias("flag", default="true")' in params
    assert 'words: list[str] = alias("words", default="a,b")' in params
    assert 'inner: Inner = alias("inner", default={"q": 1})' in params
    assert 'sort: Sort | str = "x"' in params
    assert "rows: list[int] = [1]" in params
    assert '    "":' not in files["servers/s/t.py"].decode()
