"""Stubs for Node: true to the generated module, complete, small, and not to be broken out of."""

from __future__ import annotations

import json
import re

import pytest

from moonpool.catalog.tokens import count_tokens
from moonpool.core.manifest import Manifest
from moonpool.features.learned_types.model import LearnedType
from moonpool.wrappers.names import name_manifest
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.tree import render_tree
from moonpool.wrappers.typescript_stubs import render_typescript_stub
from wrappers.regenerate import load_case
from wrappers.roundtrip import load_real_manifest, make_listing


def stub_of(raw: dict[str, object], learned_type: LearnedType | None = None) -> str:
    manifest = Manifest(servers=(make_listing("s", [raw]),))
    (tool,) = manifest.tools()
    return render_typescript_stub(tool, names=name_manifest(manifest), learned_type=learned_type)


def test_types_are_written_once_and_nested_ones_where_they_are_used() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer", "description": "Across."}}, "required": ["x"]}
    schema = {
        "properties": {
            "b": {"type": "string", "default": "z"}, "a": {"$ref": "#/$defs/p"}, "c": {"$ref": "#/$defs/p"},
            "o": {"type": "object", "properties": {"from-to": {"enum": ["up", "down"]}}},
        },
        "required": ["a"],
        "$defs": {"p": point},
    }  # fmt: skip
    out = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "string"}}},
        "required": ["rows"],
    }
    assert stub_of({"name": "do_it", "description": "Do.", "inputSchema": schema, "outputSchema": out}) == (
        '/** Do.\nb: (default "z") */\n'
        'export function doIt(args: {b?: string, a: P, c?: P, o?: {"from-to"?: "up" | "down"}}):'
        " Promise<ToolCallResult<{rows: string[]}>>;\n"
        "type P = {x: number};\n// P.x: Across.\n// import from ./servers/s/index.js"
    )


@pytest.mark.parametrize("case", ["guide", "names", "schemas", "hostile"])
def test_stubs_name_what_the_module_exports(case: str) -> None:
    manifest = load_case(case)
    tree = render_tree(manifest)
    for tool in manifest.tools():
        stub = render_typescript_stub(tool, names=tree.names)
        function = re.search(r"^export function ([\w$]+)\(", stub, re.MULTILINE)
        module = re.search(r"^// import from \./(servers/\w+/index\.js)$", stub, re.MULTILINE)
        assert function is not None
        assert module is not None
        assert f"export async function {function[1]}(" in tree.files[module[1]].decode()


def test_recursion_ends_in_a_name() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {"properties": {"head": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}

    assert "type Node = {next?: Node};" in stub_of({"name": "t", "inputSchema": schema})


def test_a_description_cannot_end_the_comment() -> None:
    stub = stub_of({"name": "t", "description": "x */ process.exit() /* y"})

    assert stub.count("*/") == 1


@pytest.mark.parametrize("render", [render_stub, render_typescript_stub])
def test_stubs_of_published_servers_cost_less_than_their_json(render: object) -> None:
    manifest = load_real_manifest()
    names = name_manifest(manifest)
    assert callable(render)
    stubs = sum(count_tokens(str(render(tool, names=names))) for tool in manifest.tools())
    shown = ("name", "title", "description", "inputSchema", "outputSchema")
    whole = (
        json.dumps(
            {word: tool.raw[word] for word in shown if word in tool.raw}, ensure_ascii=False, separators=(",", ":")
        )
        for tool in manifest.tools()
    )
    assert stubs / sum(map(count_tokens, whole)) <= 0.70


@pytest.mark.parametrize("render", [render_stub, render_typescript_stub])
def test_what_was_learned_is_said_to_be_learned(render: object) -> None:
    assert callable(render)
    learned_type = LearnedType().with_result({"a": [1, None]}).with_example({"q": 'x"""\n*/ y', "unknown": 1})
    manifest = Manifest(servers=(make_listing("s", [{"name": "t", "inputSchema": {"properties": {"q": {}}}}]),))
    (tool,) = manifest.tools()
    stub = str(render(tool, names=name_manifest(manifest), learned_type=learned_type))

    assert "seen in 1 result, not declared" in stub
    assert "a: " in stub
    assert len([line for line in stub.splitlines() if "Example: t(" in line and "unknown" not in line]) == 1


def test_a_declared_result_is_not_replaced() -> None:
    raw: dict[str, object] = {"name": "t", "outputSchema": {"type": "object", "properties": {"b": {"type": "string"}}}}

    assert stub_of(raw, LearnedType().with_result({"a": 1})) == stub_of(raw)


def test_a_large_learned_type_is_cut_not_dropped() -> None:
    deep = {letter: {other: {"leaf": 1, other: [1]} for other in "klmnopqr"} | {letter: 1} for letter in "abcdefghij"}
    stub = stub_of({"name": "t"}, LearnedType().with_result(deep))

    assert "not declared" in stub
    assert len(stub) < 1_000
