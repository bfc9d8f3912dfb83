"""Code runs as it is: modules, scripts and TypeScript, with their own line numbers, located in /workspace."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from kernel_node.probe import image_with, node_of
from moonpool.environments.node_tools import are_needed

if TYPE_CHECKING:
    from kernel_node.conftest import Opener
    from kernel_node.probe import NodeProbe
    from moonpool.sandboxes.base import ImageSpec

pytestmark = pytest.mark.anyio

GUIDE_SAMPLE = """import * as gdrive from "./servers/google_drive/index.js";

async function main() {
  console.error("Fetching document…");
  const doc = await gdrive.getDocument({ documentId: "abc123" });

  const text = doc.structuredContent?.content ?? JSON.stringify(doc.content);
  const summary = summarize(text);

  globalThis.result = { summary };
}

main().catch((e) => {
  console.error(e?.stack ?? String(e));
  process.exitCode = 1;
});
"""

HELPER = "export const twice = (n) => 2 * n; export default 'helper';"


@pytest.mark.req("H-010", "H-011", "H-093")
async def test_a_module_lies_in_workspace_on_node_20_or_newer(each_kernel: NodeProbe) -> None:
    run = await each_kernel.run(
        "import { join } from 'node:path';\n"
        "globalThis.result = [join('a', 'b'), import.meta.url, import.meta.dirname, process.cwd(),\n"
        "  Number(process.versions.node.split('.')[0]) >= 20, import.meta.resolve('./x.js')];"
    )
    assert run.result == [
        "a/b",
        "file:///workspace/code.js",
        "/workspace",
        "/workspace",
        True,
        "file:///workspace/x.js",
    ]


COLLECTING = """import v8 from 'node:v8'; import vm from 'node:vm';
v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc');
let rounds = 0;
(function again() { if (rounds++ < 200) { collect(); queueMicrotask(again); } })();
"""


async def test_a_collection_between_linking_and_evaluating_loses_no_import(each_kernel: NodeProbe) -> None:
    await each_kernel.run(f"require('fs').writeFileSync('collecting.mjs', {json.dumps(COLLECTING)})")
    run = await each_kernel.run("import { sep } from 'node:path'; import './collecting.mjs'; globalThis.result = sep;")
    assert run.result == "/"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("globalThis.result = await Promise.resolve(1)", 1, id="top-level await"),
        pytest.param("for await (const n of [1, 2]) globalThis.result = n", 2, id="for await"),
        pytest.param("import fs from 'fs'; globalThis.result = typeof fs.statSync", "function", id="builtin"),
        pytest.param("const { sep } = await import('node:path'); globalThis.result = sep", "/", id="import()"),
        pytest.param("const { sep } = require('path'); globalThis.result = sep", "/", id="require"),
        pytest.param("import 'fs'; globalThis.result = require('path').sep", "/", id="require in a module"),
        pytest.param("import('path').then((p) => { result = p.sep })", "/", id="import() in a script"),
        pytest.param("module.exports = { a: 1 }; result = typeof exports", "object", id="module.exports"),
        pytest.param("if (require.main === module) result = __filename", "/workspace/code.js", id="require.main"),
        pytest.param("result = process.argv[1]", "/workspace/code.js", id="argv"),
        pytest.param("total = 3; result = total", 3, id="undeclared name in a script"),
        pytest.param("result = 1; return; result = 2", 1, id="return in a script"),
        pytest.param("'use strict'; result = this === module.exports", True, id="strict script"),
        pytest.param("#!/usr/bin/env node\nresult = 1", 1, id="hashbang"),
        pytest.param("\ufeffresult = 1", 1, id="byte order mark"),
        pytest.param("import 'path'; result = 1 // no line end", 1, id="comment at the end"),
        pytest.param("export const a = 1; export default 2; result = a", 1, id="exports"),
        pytest.param("", None, id="nothing"),
        pytest.param("import d from './data.json' with { type: 'json' }; result = d", {"a": [1]}, id="import of JSON"),
        pytest.param("import h, { twice } from './helper.mjs'; result = [h, twice(2)]", ["helper", 4], id="own file"),
        pytest.param("result = (await import('./helper.mjs')).twice(4)", 8, id="import() of an own file"),
        pytest.param("import * as h from './helper.mjs'; result = Object.keys(h)", ["default", "twice"], id="star"),
        pytest.param("result = require('./old.cjs').n", 5, id="require of an own file"),
        pytest.param("import old from './old.cjs'; result = old.n", 5, id="import of CommonJS"),
    ],
)
async def test_modules_and_scripts_run(kernel: NodeProbe, code: str, expected: object) -> None:
    await kernel.python(
        f"open('/workspace/helper.mjs', 'w').write({HELPER!r})\n"
        "open('/workspace/old.cjs', 'w').write('module.exports = { n: 5 }')\n"
        "open('/workspace/data.json', 'w').write('{\"a\": [1]}')\nresult = 1"
    )
    run = await kernel.run(code)
    assert run.done is not None
    assert run.done.error is None, run
    assert (run.result if run.done.has_result else None) == expected


@pytest.mark.req("H-008", "H-012", "H-089", "H-092", "H-093", "X-26")
async def test_the_sample_of_the_guide_runs_unchanged(kernel_with_tools: NodeProbe) -> None:
    await kernel_with_tools.run("globalThis.summarize = (text) => text.toUpperCase()")
    run = await kernel_with_tools.run(GUIDE_SAMPLE, final=True)
    assert run.result == {"summary": "TEXT OF ABC123"}
    assert (run.stdout, run.stderr) == ("", "Fetching document…\n")


@pytest.mark.req("H-092")
async def test_the_sample_of_the_guide_fails_by_its_exit_code(kernel_with_tools: NodeProbe) -> None:
    run = await kernel_with_tools.run(GUIDE_SAMPLE, final=True)  # nobody has defined `summarize`
    assert run.error == ("SystemExit", "the code exited with status 1")
    assert run.done is not None
    assert run.done.exit_code == 1
    assert "ReferenceError: summarize is not defined\n    at main (file:///workspace/code.js:8:19)" in run.stderr


@pytest.mark.req("H-008", "H-012", "H-089")
async def test_wrappers_are_imported_in_every_way(kernel_with_tools: NodeProbe) -> None:
    run = await kernel_with_tools.run(
        "import { getDocument } from './servers/google_drive/index.js';\n"
        "import * as all from '/workspace/servers/google_drive/index.js';\n"
        "const later = await import('./servers/google_drive/index.js');\n"
        "const one = await getDocument({ documentId: 'd' });\n"
        "globalThis.result = [one.ok, one.structuredContent.content, all.getDocument === later.getDocument];"
    )
    assert run.result == [True, "text of d", True]


async def test_line_numbers_and_columns_are_the_code_s_own(each_kernel: NodeProbe) -> None:
    module = await each_kernel.run("import 'fs';\nfunction f() {\n  null.x;\n}\nf();")
    script = await each_kernel.run("null.x")
    one_line = await each_kernel.run("const a = 1; const g = () => { null.x; }; g();")
    for run, frames in (
        (
            one_line,
            "    at g (/workspace/code-3.js:1:37)\n    at Object.<anonymous> (/workspace/code-3.js:1:43)\n",
        ),
        (module, "    at f (file:///workspace/code.js:3:8)\n    at file:///workspace/code.js:5:1\n"),
        (script, "    at Object.<anonymous> (/workspace/code-2.js:1:6)\n"),
    ):
        assert run.error == ("TypeError", "Cannot read properties of null (reading 'x')")
        assert run.stderr == f"TypeError: Cannot read properties of null (reading 'x')\n{frames}"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("let a = 1;\nlet b = ;", "Unexpected token ';' (line 2)", id="script"),
        pytest.param("import 'fs';\n\nlet b = ;", "Unexpected token ';' (line 3)", id="module"),
        pytest.param("let a;\nlet a;", "Identifier 'a' has already been declared (line 2)", id="early error"),
    ],
)
async def test_a_syntax_error_names_its_line(kernel: NodeProbe, code: str, message: str) -> None:
    run = await kernel.run(code)
    assert run.error == ("SyntaxError", message)
    assert "^" in run.stderr
    assert "moonpool" not in run.stderr


async def test_a_missing_module_is_named(kernel: NodeProbe) -> None:
    run = await kernel.run("import x from './nothere.js'")
    assert run.error[1] == "Cannot find module '/workspace/nothere.js' imported from /workspace/code.js"


TYPED = """interface Row { n: number; tag?: string }
type Rows = Row[];
const size = { Large: 2 } as const;
const rows: Rows = [{ n: 1 }, { n: 2, tag: "x" }];
function total<T extends Row>(all: T[]): number {
  return all.reduce((sum: number, one) => sum + one.n, 0);
}
const where = new Error("here").stack as string;
globalThis.result = [total(rows), size.Large, rows[1]!.tag satisfies string | undefined, where.split("\\n")[1]];
"""


async def test_types_are_stripped_and_lines_stay(each_kernel: NodeProbe) -> None:
    each_kernel.start(TYPED, name="code.ts")
    run = await each_kernel.finish()
    assert run.result == [3, 2, "x", run.result[3]]  # pyright: ignore[reportIndexIssue]
    assert "/workspace/code.ts:8:" in str(run.result)


async def test_enums_are_written_out(each_kernel: NodeProbe) -> None:
    code = 'enum Size { Small = 1, Large }\nglobalThis.result = [Size.Large, new Error("here").stack.split("\\n")[1]];'
    each_kernel.start(code, name="code.ts")
    result: Any = (await each_kernel.finish()).result
    assert result[0] == 2
    if are_needed(node_of("system").version):  # a new Node does it by itself, and may move lines
        assert "/workspace/code.ts:2:" in result[1]


def without_tools(image: ImageSpec) -> ImageSpec:
    variables = {**image.variables, "MOONPOOL_NODE_TOOLS": "/nonexistent"}
    return dataclasses.replace(image, digest=f"{image.digest}-no-tools", variables=variables)


async def test_a_new_node_strips_types_by_itself(open_kernel: Opener) -> None:
    kernel = await open_kernel(other_image=without_tools(await image_with(node_of("wheel"))))
    assert (await kernel.run("const a: number = 1;\nglobalThis.result = a as number")).result == 1
    assert (await kernel.run("enum E { A = 2 }\nglobalThis.result = E.A")).result == 2


async def test_typescript_without_its_tools_is_one_clear_error(open_kernel: Opener, image: ImageSpec) -> None:
    if not are_needed(node_of("system").version):
        pytest.skip("the only Node.js here strips types by itself")
    kernel = await open_kernel(other_image=without_tools(image))
    run = await kernel.run("const a: number = 1;\nglobalThis.result = a;")
    plain = await kernel.run("globalThis.result = 2")
    assert run.error[0] == "LanguageUnavailable"
    assert "language `typescript`" in run.error[1]
    assert plain.result == 2
