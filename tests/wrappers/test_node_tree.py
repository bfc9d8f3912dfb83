"""Generated JavaScript and its types: every file parses, type-checks and calls what it should.

TypeScript and Node need half a second to start: a tree that they have to look at gets a place (`place`), one process
looks at all places, and a test reads what was said of its own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from moonpool.core.manifest import Manifest
from moonpool.wrappers import tree as tree_module
from moonpool.wrappers.names import name_manifest
from moonpool.wrappers.node_tree import render_missing
from moonpool.wrappers.reading import read_shape
from moonpool.wrappers.tool_index import DETAIL_CHARS_MAX, PARAMETERS_MAX, ToolIndex
from moonpool.wrappers.tree import WrapperTree, render_tree
from wrappers.nodes import NODES, call_tools, generated, look_for_harm, run_node, syntax_errors, type_errors
from wrappers.regenerate import CASES, load_case
from wrappers.roundtrip import load_real_manifest, make_cases, make_listing, write_tree
from wrappers.strategies import hostile_texts, object_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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


class Place(NamedTuple):
    tree: Callable[[], WrapperTree]
    beside: Callable[[], Mapping[str, str]]  # files at the root of the tree, by name


PLACES: dict[str, Place] = {}


def place(name: str, tree: Callable[[], WrapperTree], beside: Callable[[], Mapping[str, str]] = dict) -> None:
    assert name not in PLACES
    PLACES[name] = Place(tree, beside)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each place, all in one."""
    root = tmp_path_factory.mktemp("places")
    folders = {name: root / f"place{number}" for number, name in enumerate(PLACES)}
    for name, (tree, beside) in PLACES.items():
        write_tree(tree(), folders[name])
        for path, text in beside().items():
            (folders[name] / path).write_text(text, encoding="utf-8")
    return folders


@pytest.fixture(scope="module")
def wrong_types(written: dict[str, Path]) -> dict[str, str]:
    """What TypeScript says about each place."""
    said = type_errors(next(iter(written.values())).parent)
    return {name: said[folder.name] for name, folder in written.items()}


@pytest.fixture(scope="module")
def called(written: dict[str, Path]) -> dict[str, Any]:
    """What the bridge received of every tool of the sources and of `words`, and what the modules export."""
    manifests = {**{source: manifest_of(source) for source in SOURCES}, "words": words()}
    given = [(written[name], make_cases(PLACES[name].tree(), manifest)) for name, manifest in manifests.items()]
    return dict(zip(manifests, call_tools(given), strict=True))


@pytest.fixture(scope="module")
def looked() -> dict[str, dict[str, Any]]:
    """What is in the files of the sources and of the hostile texts, by the path below a folder for each."""
    trees = [(source, tree_of(source)) for source in SOURCES] + [(name, tree_with(HOSTILE[name])) for name in HOSTILE]
    return {each["path"]: each for each in look_for_harm(generated(trees, ".js") | generated(trees, ".d.ts"))}


@pytest.mark.req("H-008", "H-009", "H-089")
@pytest.mark.parametrize("node", NODES)
def test_every_file_is_an_es_module(node: str) -> None:
    files = generated([(source, tree_of(source)) for source in SOURCES], ".js")
    assert len(files) == sum(len(tree_of(source).names.servers) for source in SOURCES)
    assert syntax_errors(files, node) == []


@pytest.mark.req("H-006")
@pytest.mark.parametrize("source", SOURCES)
def test_every_file_is_harmless_and_calls_the_tools_that_it_names(
    source: str, looked: dict[str, dict[str, Any]]
) -> None:
    servers = tree_of(source).names.servers.values()
    files = {path: each for path, each in looked.items() if path.startswith(f"{source}/")}
    assert len(files) == 2 * len(servers)
    assert [each for each in files.values() if each["wrong"]] == []
    for server in servers:
        wanted = [[tool.node, server.server_id, tool.tool] for tool in server.tools.values()]
        assert files[f"{source}/servers/{server.module}/index.js"]["calls"] == wanted


for _source in SOURCES:
    place(_source, partial(tree_of, _source))


@pytest.mark.req("H-008")
@pytest.mark.parametrize("source", SOURCES)
def test_every_file_type_checks_by_itself(source: str, wrong_types: dict[str, str]) -> None:
    assert wrong_types[source] == ""


@pytest.mark.req("H-008", "H-012", "H-014", "H-016", "H-017", "H-089")
@pytest.mark.parametrize("source", SOURCES)
def test_every_tool_is_called_with_the_arguments_given(source: str, called: dict[str, Any]) -> None:
    tree, answer = tree_of(source), called[source]
    cases = make_cases(tree, manifest_of(source))
    assert answer["error"] is None
    assert answer["received"] == [[c["server_id"], c["tool"], c["arguments"]] for c in cases for _ in range(FORMS)]
    for server in tree.names.servers.values():
        assert sorted(answer["exported"][server.module]) == sorted(["tools", *(t.node for t in server.tools.values())])


def words() -> Manifest:
    schema = {"type": "object", "properties": {word: {"type": "string"} for word in WORDS}}
    return Manifest(servers=(make_listing("words", [{"name": word, "inputSchema": schema} for word in WORDS]),))


@cache
def tree_of_words() -> WrapperTree:
    return render_tree(words())


WORDS_SAMPLE = f"""\
import * as words from "./servers/words/index.js";
for (const name of {json.dumps(WORDS)} as (keyof typeof words.tools)[]) {{
  await words.tools[name]();
}}
export const then: undefined = (words as {{ then?: undefined }}).then;
"""
place("words", tree_of_words, lambda: {"sample.mts": WORDS_SAMPLE})


@pytest.mark.req("H-015", "H-017")
def test_words_of_the_language_and_of_the_wrappers_are_fine_names(
    wrong_types: dict[str, str], called: dict[str, Any]
) -> None:
    answer = called["words"]
    assert wrong_types["words"] == ""
    assert answer["error"] is None
    assert [call[1] for call in answer["received"][::FORMS]] == WORDS
    assert not {"then", "default", "await", "arguments"} & set(answer["exported"]["words"])


@cache
def calls_of_published_servers() -> list[str]:
    """A line of TypeScript for every tool whose schema accepts the arguments that were made of it."""
    tree, manifest = tree_of("real servers"), manifest_of("real servers")
    lines: list[str] = []
    for case in make_cases(tree, manifest):
        tool = manifest.find(case["server_id"], case["tool"])
        arguments = {name: value for name, value in case["arguments"].items() if name != "not in the schema"}
        if tool is not None and jsonschema_rs.is_valid(tool.input_schema, arguments):
            module = f"(await import('./servers/{case['module']}/index.js'))"
            lines.append(f"await {module}.{case['node']}({json.dumps(arguments)});\n")
    return lines


place(
    "calls of published servers",
    partial(tree_of, "real servers"),
    lambda: {"calls.mts": "export {};\n" + "".join(calls_of_published_servers())},
)


@pytest.mark.req("H-008", "H-089")
def test_types_accept_what_the_schemas_of_published_servers_accept(wrong_types: dict[str, str]) -> None:
    assert len(calls_of_published_servers()) > 200
    assert wrong_types["calls of published servers"] == ""


SAMPLE = """\
import * as drive from "./servers/google_drive/index.js";
import * as sheets from "./servers/sheets/index.js";
import { PolicyDenied, ToolCallError, type ToolCallResult } from "./client/mcp_client.js";

const doc = await drive.getDocument({ documentId: "abc" });
const content: string = doc.structuredContent?.content ?? JSON.stringify(doc.content);
const title: string = doc.title + doc.data.title + doc.unwrap().title;
const authors: (string | null | undefined)[] = (doc.revisions ?? []).map((revision) => revision.author);
const blocks: string | undefined = doc.raw?.content?.[0]?.text;
if (!doc.ok) throw new Error(doc.error?.message);
try {
  await sheets.updateRows({ sheetId: "q", rows: [{ index: 1, cells: { A: "x", B: null } }], mode: "merge" });
} catch (error) {
  if (error instanceof PolicyDenied || (error instanceof ToolCallError && error.retryable)) throw error;
}
const theirs: string | undefined = doc.content;
const rows = await sheets.tools["get_all_rows"]({ sheetId: "q", limit: 3 });
const unknown: unknown = rows.data;
const all: ToolCallResult<unknown> = await sheets.adminToolsList();
export { all, authors, blocks, content, theirs, title, unknown };
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


def samples() -> dict[str, str]:
    head = "".join(SAMPLE.splitlines(keepends=True)[:2])
    wrong = {
        f"mistake{number}.mts": f"{head}// @ts-expect-error\n{mistake}\nexport const used = [drive, sheets];\n"
        for number, mistake in enumerate(MISTAKES.values())
    }
    return {"sample.mts": SAMPLE, **wrong}


place("samples", partial(tree_of, "guide"), samples)


@pytest.mark.req("H-008", "H-012")
def test_types_accept_what_is_right_and_name_what_is_wrong(wrong_types: dict[str, str]) -> None:
    assert wrong_types["samples"] == ""


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


UNNAMED: dict[str, tuple[Any, Any, str]] = {
    "with members": ({"a": {"type": "string"}}, {"type": "integer"}, "number | string | undefined"),
    "anything": ({"a": {"type": "string"}}, True, "unknown"),
    "many types": ({str(n): {"const": n} for n in range(9)}, {"type": "string"}, "unknown"),
}


def tree_with_unnamed(properties: Any, extra: Any) -> WrapperTree:
    return one_tool(inputSchema={"type": "object", "properties": properties, "additionalProperties": extra})


for _name, (_properties, _extra, _) in UNNAMED.items():
    place(_name, partial(tree_with_unnamed, _properties, _extra))


@pytest.mark.parametrize("name", UNNAMED)
def test_members_that_a_schema_asks_for_without_naming_them(name: str, wrong_types: dict[str, str]) -> None:
    properties, extra, expected = UNNAMED[name]
    assert f"  [key: string]: {expected};\n" in types_of(tree_with_unnamed(properties, extra))
    assert wrong_types[name] == ""


def test_a_long_signature_is_broken() -> None:
    name = "x" * 120
    tree = one_tool(name=name, inputSchema={"type": "object", "properties": {"a": {}}})
    assert f"export function {name}(\n  args?: X" in types_of(tree)


def tree_of_alike(*, turned: bool = False) -> WrapperTree:
    inner = {
        "type": "object",
        "properties": {"user": {"type": "object", "properties": {"id": {}}}, "user_": {"$ref": "#"}},
    }
    tools = [{"name": name, "inputSchema": inner} for name in ("get", "Get", "get_user", "getUser", "get-user_input")]
    return render_tree(Manifest(servers=(make_listing("s", reversed(tools) if turned else tools),)))


place("alike", tree_of_alike)


def test_interfaces_of_tools_that_differ_in_case_or_share_parts_stay_apart(wrong_types: dict[str, str]) -> None:
    assert wrong_types["alike"] == ""
    tree, turned = tree_of_alike(), tree_of_alike(turned=True)
    assert sorted(types_of(turned).splitlines()) == sorted(types_of(tree).splitlines())


HOSTILE = {
    "the end of a comment": "*/ import 'node:fs'; /*",
    "a command to the compiler": "@ts-expect-error",
    "tags": "@deprecated {@link x} a\n@internal",
    "a tag without a name": "@",
    "line separators": "a\u2028b\u2029c\rd",
    "a directive": "/// <reference path='x' />",
    "a template": "`${process.exit()}`",
}


def tree_with(text: str) -> WrapperTree:
    """One tool with the text wherever a text can stand."""
    member = {"type": "string", "description": text, "default": text, "pattern": text}
    schema = {"type": "object", "description": text, "properties": {"a": member, text: {"enum": [text]}}}
    nested = {"type": "object", "properties": {"inner": {**schema, "title": text}, **schema["properties"]}}
    return one_tool(description=text, title=text, inputSchema=nested, outputSchema=schema)


for _name, _text in HOSTILE.items():
    place(_name, partial(tree_with, _text))


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_stay_texts(name: str, wrong_types: dict[str, str], looked: dict[str, dict[str, Any]]) -> None:
    assert [looked[f"{name}/servers/s/index.{ending}"]["wrong"] for ending in ("js", "d.ts")] == [[], []]
    assert wrong_types[name] == ""


@pytest.mark.req("H-006", "H-009", "H-017", "H-089", "F-018")
def test_no_name_text_or_schema_becomes_code(tmp_path: Path) -> None:
    trees: list[tuple[str, WrapperTree]] = []

    @settings(suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
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
    assert [each for each in type_errors(tmp_path).values() if each] == []


@cache
def tree_that_was_beaten() -> WrapperTree:
    render = tree_module.node_tree.render_tool

    def beaten(tool: Any, names: Any, claimed: Any) -> Any:
        if tool.name == "bad" and tool.input.members:
            raise RecursionError
        return render(tool, names, claimed)

    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [{"name": name, "inputSchema": schema} for name in ("good", "bad", "better")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_module.node_tree, "render_tool", beaten)
        return render_tree(Manifest(servers=(make_listing("s", tools),)))


place("beaten", tree_that_was_beaten)


@pytest.mark.req("H-040")
def test_one_tool_that_cannot_be_written_loses_no_other(wrong_types: dict[str, str]) -> None:
    tree = tree_that_was_beaten()
    assert "export function good(args?: GoodInput)" in types_of(tree)
    assert "export function bad(args?: Record<string, unknown>)" in types_of(tree)
    assert [str(warning) for warning in tree.warnings] == [
        "s.bad: its types could not be written (RecursionError); arguments are untyped"
    ]
    assert wrong_types["beaten"] == ""


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
