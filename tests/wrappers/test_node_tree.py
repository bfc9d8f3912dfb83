"""Generated JavaScript and its types: every file parses, type-checks and calls what it should."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from moonpool.core.manifest import Manifest, ServerListing
from moonpool.wrappers import tree as tree_module
from moonpool.wrappers.names import name_manifest
from moonpool.wrappers.node_tree import render_missing
from moonpool.wrappers.reading import read_shape
from moonpool.wrappers.tool_index import DETAIL_CHARS_MAX, PARAMETERS_MAX, ToolIndex
from moonpool.wrappers.tree import WrapperTree, render_tree
from wrappers.nodes import NODES, SCRIPTS, generated, look_for_harm, run_node, syntax_errors, type_errors
from wrappers.regenerate import CASES, load_case
from wrappers.roundtrip import load_real_manifest, make_cases, make_listing, write_tree
from wrappers.strategies import hostile_texts, object_schemas

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = ("real servers", *CASES)
FORMS = 4  # of calls.mjs

WORDS = [
    "arguments", "await", "async", "break", "callTool", "case", "catch", "class", "const", "constructor", "continue",
    "debugger", "default", "delete", "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for",
    "function", "globalThis", "if", "implements", "import", "in", "instanceof", "interface", "let", "new", "null",
    "package", "private", "protected", "prototype", "public", "return", "static", "super", "switch", "then", "this",
    "throw", "tools", "true", "try", "typeof", "undefined", "var", "void", "while", "with", "yield", "NaN", "Infinity",
    "__proto__", "__esModule", "args", "get", "set", "of", "as", "from", "type", "namespace", "module", "declare",
    "abstract", "global", "require", "exports", "Object", "Promise", "Array", "Record", "String", "Symbol", "Error",
    "name", "length", "toString", "hasOwnProperty", "any", "unknown", "never", "string", "number", "boolean", "symbol",
    "bigint", "object", "keyof", "readonly", "unique", "infer", "is", "asserts", "satisfies", "using", "accessor",
    "out", "override", "ToolCallResult", "process", "console",
]  # fmt: skip


@cache
def manifest_of(source: str) -> Manifest:
    return load_real_manifest() if source == "real servers" else load_case(source)


@cache
def tree_of(source: str) -> WrapperTree:
    return render_tree(manifest_of(source))


def one_tool(**definition: Any) -> WrapperTree:
    listing = make_listing("s", [{"name": "t", "inputSchema": {"type": "object"}, **definition}])
    return render_tree(Manifest(servers=(listing,)))


def types_of(tree: WrapperTree, module: str = "s") -> str:
    return tree.files[f"servers/{module}/index.d.ts"].decode()


@pytest.mark.req("H-008", "H-009", "H-089")
@pytest.mark.parametrize("node", NODES)
def test_every_file_is_an_es_module(node: str) -> None:
    files = generated([(source, tree_of(source)) for source in SOURCES], ".js")
    assert len(files) == sum(len(tree_of(source).names.servers) for source in SOURCES)
    assert syntax_errors(files, node) == []


@pytest.mark.req("H-006")
def test_every_file_is_harmless_and_calls_the_tools_that_it_names() -> None:
    files = generated([(source, tree_of(source)) for source in SOURCES], ".js")
    files |= generated([(source, tree_of(source)) for source in SOURCES], ".d.ts")
    looked = look_for_harm(files)
    assert [each for each in looked if each["wrong"]] == []
    calls = {each["path"]: each["calls"] for each in looked}
    for source in SOURCES:
        for server in tree_of(source).names.servers.values():
            wanted = [[tool.node, server.server_id, tool.tool] for tool in server.tools.values()]
            assert calls[f"{source}/servers/{server.module}/index.js"] == wanted


@pytest.mark.req("H-008")
def test_every_file_type_checks_by_itself(tmp_path: Path) -> None:
    for source in SOURCES:
        write_tree(tree_of(source), tmp_path / source)
    assert type_errors(tmp_path) == ""


@pytest.mark.req("H-008", "H-012", "H-014", "H-016", "H-017", "H-089")
@pytest.mark.parametrize("source", SOURCES)
def test_every_tool_is_called_with_the_arguments_given(source: str, tmp_path: Path) -> None:
    tree, manifest = tree_of(source), manifest_of(source)
    cases = make_cases(tree, manifest)
    answer = json.loads(run_node(SCRIPTS / "calls.mjs", write_tree(tree, tmp_path), given=cases))
    assert answer["received"] == [[c["server_id"], c["tool"], c["arguments"]] for c in cases for _ in range(FORMS)]
    for server in tree.names.servers.values():
        assert sorted(answer["exported"][server.module]) == sorted(["tools", *(t.node for t in server.tools.values())])


@pytest.mark.req("H-015", "H-017")
def test_words_of_the_language_and_of_the_wrappers_are_fine_names(tmp_path: Path) -> None:
    tools = [
        {"name": word, "inputSchema": {"type": "object", "properties": {each: {"type": "string"} for each in WORDS}}}
        for word in WORDS
    ]
    manifest = Manifest(servers=(make_listing("words", tools),))
    tree = render_tree(manifest)
    folder = write_tree(tree, tmp_path)
    (folder / "sample.mts").write_text(
        'import * as words from "./servers/words/index.js";\n'
        f"for (const name of {json.dumps(WORDS)} as (keyof typeof words.tools)[]) {{\n"
        "  await words.tools[name]();\n}\n"
        "export const then: undefined = (words as { then?: undefined }).then;\n",
        encoding="utf-8",
    )
    assert type_errors(folder) == ""
    answer = json.loads(run_node(SCRIPTS / "calls.mjs", folder, given=make_cases(tree, manifest)))
    assert [call[1] for call in answer["received"][::FORMS]] == WORDS
    assert not {"then", "default", "await", "arguments"} & set(answer["exported"]["words"])


@pytest.mark.req("H-008", "H-089")
def test_types_accept_what_the_schemas_of_published_servers_accept(tmp_path: Path) -> None:
    tree, manifest = tree_of("real servers"), manifest_of("real servers")
    folder = write_tree(tree, tmp_path)
    lines: list[str] = []
    for case in make_cases(tree, manifest):
        tool = manifest.find(case["server_id"], case["tool"])
        arguments = {name: value for name, value in case["arguments"].items() if name != "not in the schema"}
        if tool is not None and jsonschema_rs.is_valid(tool.input_schema, arguments):
            module = f"(await import('./servers/{case['module']}/index.js'))"
            lines.append(f"await {module}.{case['node']}({json.dumps(arguments)});\n")
    assert len(lines) > 200
    (folder / "calls.mts").write_text("export {};\n" + "".join(lines), encoding="utf-8")
    assert type_errors(folder) == ""


SAMPLE = """\
import * as drive from "./servers/google_drive/index.js";
import * as sheets from "./servers/sheets/index.js";
import { PolicyDenied, ToolCallError, type ToolCallResult } from "./client/mcp_client.js";

const doc = await drive.getDocument({ documentId: "abc" });
const content: string = doc.structuredContent?.content ?? JSON.stringify(doc.content);
const title: string = doc.title + doc.data.title + doc.unwrap().title;
const authors: (string | null | undefined)[] = (doc.revisions ?? []).map((revision) => revision.author);
const blocks: string | undefined = doc.content[0]?.text;
if (!doc.ok) throw new Error(doc.error?.message);
try {
  await sheets.updateRows({ sheetId: "q", rows: [{ index: 1, cells: { A: "x", B: null } }], mode: "merge" });
} catch (error) {
  if (error instanceof PolicyDenied || (error instanceof ToolCallError && error.retryable)) throw error;
}
const rows = await sheets.tools["get_all_rows"]({ sheetId: "q", limit: 3 });
const unknown: unknown = rows.data;
const all: ToolCallResult<unknown> = await sheets.adminToolsList();
export { all, authors, blocks, content, title, unknown };
"""
MISTAKES = {
    "a missing argument": "await sheets.getAllRows({});",
    "an argument of another type": 'await sheets.getAllRows({ sheetId: 7 });',
    "an unknown argument": 'await sheets.getAllRows({ sheetId: "q", limits: 3 });',
    "another choice": 'await sheets.updateRows({ sheetId: "q", rows: [], mode: "other" });',
    "an argument for a tool without": "await sheets.adminToolsList({ a: 1 });",
    "an unknown member of a result": 'const x = (await drive.getDocument({ documentId: "a" })).data.nothing;',
    "an unknown tool": "await sheets.nothing();",
}  # fmt: skip


@pytest.mark.req("H-008", "H-012")
def test_types_accept_what_is_right_and_name_what_is_wrong(tmp_path: Path) -> None:
    folder = write_tree(tree_of("guide"), tmp_path)
    (folder / "sample.mts").write_text(SAMPLE, encoding="utf-8")
    head = "".join(SAMPLE.splitlines(keepends=True)[:2])
    for number, mistake in enumerate(MISTAKES.values()):
        text = f"{head}// @ts-expect-error\n{mistake}\nexport const used = [drive, sheets];\n"
        (folder / f"mistake{number}.mts").write_text(text, encoding="utf-8")
    assert type_errors(folder) == ""


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": ["string", "null"]}, "string | null", id="nullable"),
        pytest.param({"enum": ["a", 1, True, None]}, '"a" | 1 | true | null', id="choice of several types"),
        pytest.param({"enum": [2**60, 1]}, "number | 1", id="an integer that a number cannot hold"),
        pytest.param({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]', id="list of choices"),
        pytest.param({"type": "array", "items": {"const": "a"}}, '("a")[]', id="list of one choice"),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": ["integer", "null"]}], "items": False},
            "[string, number | null]",
            id="tuple",
        ),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": ["string", "null"]}},
            "[string, ...(string | null)[]]",
            id="tuple with a rest",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}},
            "Record<string, number[]>",
            id="dictionary",
        ),
        pytest.param({"$ref": "#"}, "TInput", id="recursion to the root"),
        pytest.param({"$ref": "https://example.org/elsewhere"}, "unknown", id="a schema elsewhere"),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "number"}]}, "string | number",
                     id="union without repetition"),
    ],
)  # fmt: skip
def test_schemas_become_types(schema: Any, expected: str) -> None:
    tree = one_tool(inputSchema={"type": "object", "properties": {"a": schema}})
    assert f"  a?: {expected};\n" in types_of(tree)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": "object", "properties": {}}, "args?: Record<string, never>", id="none"),
        pytest.param({"type": "object"}, "args?: Record<string, unknown>", id="any"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}}, "args?: Record<string, number>", id="a map"
        ),
        pytest.param({"type": "object", "properties": {"a": {}}}, "args?: TInput", id="all optional"),
        pytest.param({"type": "object", "properties": {"a": {}}, "required": ["a"]}, "args: TInput", id="one required"),
    ],
)
def test_arguments_may_be_left_out_when_none_is_required(schema: Any, expected: str) -> None:
    assert f"export function t({expected}): Promise<ToolCallResult<unknown>>;" in types_of(one_tool(inputSchema=schema))


@pytest.mark.parametrize(
    ("properties", "extra", "expected"),
    [
        pytest.param({"a": {"type": "string"}}, {"type": "integer"}, "number | string | undefined", id="with members"),
        pytest.param({"a": {"type": "string"}}, True, "unknown", id="anything"),
        pytest.param({str(n): {"const": n} for n in range(9)}, {"type": "string"}, "unknown", id="many types"),
    ],
)
def test_members_that_a_schema_asks_for_without_naming_them(
    properties: Any, extra: Any, expected: str, tmp_path: Path
) -> None:
    tree = one_tool(inputSchema={"type": "object", "properties": properties, "additionalProperties": extra})
    assert f"  [key: string]: {expected};\n" in types_of(tree)
    assert type_errors(write_tree(tree, tmp_path)) == ""


def test_a_long_signature_is_broken() -> None:
    name = "x" * 120
    tree = one_tool(name=name, inputSchema={"type": "object", "properties": {"a": {}}})
    assert f"export function {name}(\n  args?: X" in types_of(tree)


def test_interfaces_of_tools_that_differ_in_case_or_share_parts_stay_apart(tmp_path: Path) -> None:
    inner = {
        "type": "object",
        "properties": {"user": {"type": "object", "properties": {"id": {}}}, "user_": {"$ref": "#"}},
    }
    tools = [{"name": name, "inputSchema": inner} for name in ("get", "Get", "get_user", "getUser", "get-user_input")]
    listing = make_listing("s", tools)
    tree = render_tree(Manifest(servers=(listing,)))
    assert type_errors(write_tree(tree, tmp_path)) == ""
    turned = ServerListing(server_id="s", tools=tuple(reversed(listing.tools)))
    other = types_of(render_tree(Manifest(servers=(turned,))))
    assert sorted(other.splitlines()) == sorted(types_of(tree).splitlines())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("*/ import 'node:fs'; /*", id="the end of a comment"),
        pytest.param("@ts-expect-error", id="a command to the compiler"),
        pytest.param("@deprecated {@link x} a\n@internal", id="tags"),
        pytest.param("@", id="a tag without a name"),
        pytest.param("a\u2028b\u2029c\rd", id="line separators"),
        pytest.param("/// <reference path='x' />", id="a directive"),
        pytest.param("`${process.exit()}`", id="a template"),
    ],
)
def test_texts_stay_texts(text: str, tmp_path: Path) -> None:
    member = {"type": "string", "description": text, "default": text, "pattern": text}
    schema = {"type": "object", "description": text, "properties": {"a": member, text: {"enum": [text]}}}
    nested = {"type": "object", "properties": {"inner": {**schema, "title": text}, **schema["properties"]}}
    tree = one_tool(description=text, title=text, inputSchema=nested, outputSchema=schema)
    files = generated([("t", tree)], ".js") | generated([("t", tree)], ".d.ts")
    assert [each["wrong"] for each in look_for_harm(files)] == [[], []]
    assert type_errors(write_tree(tree, tmp_path)) == ""


@pytest.mark.req("H-006", "H-009", "H-017", "H-089", "F-018")
def test_no_name_text_or_schema_becomes_code(tmp_path: Path) -> None:
    trees: list[tuple[str, WrapperTree]] = []

    @settings(
        max_examples=150,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(
        names=st.lists(st.one_of(hostile_texts, st.sampled_from(WORDS), st.text(max_size=6)), max_size=4, unique=True),
        server=hostile_texts,
        text=hostile_texts,
        schema=object_schemas,
    )
    def collect(names: list[str], server: str, text: str, schema: Any) -> None:
        member = {"type": "string", "description": text, "default": text, "enum": [text, server], "pattern": text}
        described = {**schema, "title": text, "properties": {**schema["properties"], text: member}}
        about = {"title": text, "description": text, "inputSchema": described, "outputSchema": schema}
        listing = make_listing(server, [{"name": name, **about} for name in names], title=text)
        tree = render_tree(Manifest(servers=(listing,)))
        trees.append((str(len(trees)), tree))

    collect()
    files, types = generated(trees, ".js"), generated(trees, ".d.ts")
    for node in NODES:
        assert syntax_errors(files, node) == []
    looked = {each["path"]: each for each in look_for_harm(files | types)}
    assert [each for each in looked.values() if each["wrong"]] == []
    for name, tree in trees:
        write_tree(tree, tmp_path / name)
        (server,) = tree.names.servers.values()
        wanted = [[tool.node, server.server_id, tool.tool] for tool in server.tools.values()]
        assert looked[f"{name}/servers/{server.module}/index.js"]["calls"] == wanted
    assert type_errors(tmp_path) == ""


@pytest.mark.req("H-040")
def test_one_tool_that_cannot_be_written_loses_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    render = tree_module.node_tree.render_tool

    def beaten(tool: Any, names: Any, claimed: Any) -> Any:
        if tool.name == "bad" and tool.input.members:
            raise RecursionError
        return render(tool, names, claimed)

    monkeypatch.setattr(tree_module.node_tree, "render_tool", beaten)
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [{"name": name, "inputSchema": schema} for name in ("good", "bad", "better")]
    tree = render_tree(Manifest(servers=(make_listing("s", tools),)))
    assert "export function good(args?: GoodInput)" in types_of(tree)
    assert "export function bad(args?: Record<string, unknown>)" in types_of(tree)
    assert [str(warning) for warning in tree.warnings] == [
        "s.bad: its types could not be written (RecursionError); arguments are untyped"
    ]
    assert type_errors(write_tree(tree, tmp_path)) == ""


@pytest.mark.req("H-040")
def test_a_server_without_a_list_says_so_when_it_is_imported(tmp_path: Path) -> None:
    reason = "server 'x\u2028\"); process.exit(0); (\"' is configured, but its tools could not be listed"
    (tmp_path / "index.mjs").write_text(render_missing(reason), encoding="utf-8")
    catching = f"await import({json.dumps((tmp_path / 'index.mjs').as_uri())}).catch((e) => console.log(e.message))"
    assert run_node("--input-type=module", "--eval", catching) == f"{reason}\n"


@pytest.mark.req("H-013")
@pytest.mark.parametrize("source", SOURCES)
def test_the_same_list_gives_the_same_bytes(source: str) -> None:
    assert render_tree(manifest_of(source)).files == tree_of(source).files


# -- index.json


def index_of(tree: WrapperTree) -> Any:
    return json.loads(tree.files["index.json"])


def test_the_index_lists_tools_for_programs() -> None:
    server = index_of(tree_of("guide"))["servers"][1]
    assert {key: server[key] for key in ("id", "module", "title")} == {"id": "sheets", "module": "sheets", "title": ""}
    assert server["tools"][2] == {
        "name": "update-rows",
        "python": "update_rows",
        "node": "updateRows",
        "summary": "Change rows.",
        "readOnly": False,
        "parameters": [
            {"name": "sheetId", "type": "string", "required": True, "description": ""},
            {"name": "rows", "type": "object[]", "required": True, "description": ""},
            {"name": "mode", "type": '"merge" | "replace"', "required": False, "description": ""},
        ],
        "parameterCount": 3,
    }


@pytest.mark.parametrize("source", SOURCES)
def test_the_index_has_every_tool_by_the_names_of_the_trees(source: str) -> None:
    tree = tree_of(source)
    listed = [
        (server["id"], tool["name"], tool["python"], tool["node"])
        for server in index_of(tree)["servers"]
        for tool in server["tools"]
    ]
    assert listed == [
        (server.server_id, tool.tool, tool.function, tool.node)
        for server in tree.names.servers.values()
        for tool in server.tools.values()
    ]


def test_the_index_is_bounded() -> None:
    member = {"type": "string", "description": "d" * 5000, "enum": ["x" * 500, "y" * 500]}
    schema = {"type": "object", "properties": {f"p{n}": member for n in range(100)}}
    manifest = Manifest(servers=(make_listing("s", [{"name": f"t{n}", "inputSchema": schema} for n in range(300)]),))
    shape = read_shape(next(manifest.tools()))
    index = ToolIndex()
    index.add(name_manifest(manifest).servers["s"], {f"t{n}": replace(shape, name=f"t{n}") for n in range(300)})
    listed = json.loads(index.text())["servers"][0]["tools"]
    assert len(listed[0]["parameters"]) == PARAMETERS_MAX
    assert (listed[0]["parameterCount"], listed[-1]["parameters"]) == (100, None)
    assert len(index.text()) < 2 * DETAIL_CHARS_MAX
