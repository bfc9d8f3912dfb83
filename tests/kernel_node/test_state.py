"""What an execution declared is there for the next ones, as the same variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernel_node.probe import NodeProbe

pytestmark = pytest.mark.anyio


async def test_every_kind_of_declaration_stays(each_kernel: NodeProbe) -> None:
    await each_kernel.run(
        "import { sep } from 'node:path';\nimport * as fs from 'fs';\n"
        "const a = 1; let b = await 2; var c = 3; function d() { return 4 } class E { static v = 5 }\n"
        "const { f, g: [h], ...i } = { f: 6, g: [7], j: 8 };\nif (true) { var k = 9 }\n"
        "export const l = 10; export default function m() { return 11 }\nasync function* n() { yield 12 }"
    )
    run = await each_kernel.run(
        "globalThis.result = [sep, typeof fs.statSync, a, b, c, d(), E.v, f, h, i.j, k, l, m(),"
        " (await n().next()).value]"
    )
    assert run.result == ["/", "function", *range(1, 13)]


async def test_a_variable_is_one_for_functions_and_for_later_code(kernel: NodeProbe) -> None:
    await kernel.run("let count = 0; const add = () => ++count;")
    await kernel.run("add(); count += 10;")
    run = await kernel.run("await null; globalThis.result = [add(), count]")
    assert run.result == [12, 12]


async def test_names_can_be_declared_again(kernel: NodeProbe) -> None:
    for number in (1, 2, 3):
        run = await kernel.run(f"const x = {number}; class K {{}} let y = await x; globalThis.result = y")
        assert run.result == number
    assert (await kernel.run("globalThis.result = x")).result == 3


async def test_a_constant_of_an_earlier_execution_cannot_be_assigned(kernel: NodeProbe) -> None:
    await kernel.run("const fixed = 1")
    run = await kernel.run("fixed = 2")
    assert run.error[0] == "TypeError"
    assert "fixed" in run.error[1]
    assert (await kernel.run("globalThis.result = fixed")).result == 1


async def test_what_was_declared_before_an_exception_stays(kernel: NodeProbe) -> None:
    run = await kernel.run("const before = 1; throw new RangeError('x'); const after = 2;")
    assert run.error == ("RangeError", "x")
    assert (await kernel.run("result = [before, typeof after]")).result == [1, "undefined"]


async def test_a_declared_name_may_cover_a_global_one(kernel: NodeProbe) -> None:
    await kernel.run("const crypto = require('crypto'); const URL = 'http://example.com';")
    run = await kernel.run("result = [typeof crypto.createHash, URL, new (require('url').URL)(URL).host]")
    assert run.result == ["function", "http://example.com", "example.com"]


async def test_files_and_variables_of_both_languages_live_side_by_side(kernel: NodeProbe) -> None:
    await kernel.python("import os\nmine = 5\nopen('/workspace/a.txt', 'w').write('from python')\nresult = 1")
    run = await kernel.run("globalThis.theirs = 6; result = require('fs').readFileSync('a.txt', 'utf8')")
    assert run.result == "from python"
    assert await kernel.python("result = mine") == 5
    assert (await kernel.run("result = theirs")).result == 6


async def test_a_rehearsal_leaves_no_trace(kernel: NodeProbe) -> None:
    kernel.start("", rehearse=True)
    rehearsed = await kernel.finish()
    run = await kernel.run("result = [typeof join, globalThis.result ?? null, __filename]")
    assert rehearsed.done is not None
    assert rehearsed.done.error is None
    assert run.result == ["undefined", None, "/workspace/code.js"]
    assert (run.stdout, run.stderr) == ("", "")
