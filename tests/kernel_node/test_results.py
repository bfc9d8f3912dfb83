"""How code hands over its result, and what JSON cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernel_node.probe import NodeProbe

pytestmark = pytest.mark.anyio


@pytest.mark.req("H-028")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("globalThis.result = 7", id="globalThis"),
        pytest.param("result = 7", id="plain assignment in a script"),
        pytest.param("await null; result = 7", id="plain assignment after an await in a module"),
        pytest.param("'use strict'; result = 7", id="plain assignment in a strict script"),
        pytest.param("const result = 7", id="const"),
        pytest.param("let result; result = await 7", id="let"),
        pytest.param("var result = 7", id="var"),
        pytest.param("export const result = 7", id="export"),
        pytest.param("async function main() { await null; result = 7 }\nmain()", id="main that nobody awaits"),
        pytest.param("setTimeout(() => { globalThis.result = 7 }, 5)", id="timer"),
        pytest.param("process.on('exit', () => { result = 7 })", id="exit listener"),
        pytest.param("Object.defineProperty(globalThis, 'result', { value: 7 })", id="defined property"),
    ],
)
async def test_a_result_is_handed_over(kernel: NodeProbe, code: str) -> None:
    assert (await kernel.run(code, final=True)).result == 7


async def test_a_result_of_an_earlier_execution_is_not_handed_over_again(kernel: NodeProbe) -> None:
    await kernel.run("result = { n: 1 }")
    run = await kernel.run("result.n")
    assert run.done is not None
    assert not run.done.has_result
    assert (await kernel.run("globalThis.result = result")).result == {"n": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("{ a: [1, 2.5, 'x', true, null] }", {"a": [1, 2.5, "x", True, None]}, id="JSON"),
        pytest.param("new Date(0)", "1970-01-01T00:00:00.000Z", id="date"),
        pytest.param("{ toJSON() { return { a: 1 } } }", {"a": 1}, id="toJSON"),
        pytest.param("[1, , undefined]", [1, None, None], id="holes"),
        pytest.param("{ a: undefined, b: 1 }", {"b": 1}, id="undefined member"),
        pytest.param("new (class A { x = 1 })()", {"x": 1}, id="instance"),
        pytest.param("new Proxy({ a: 1 }, {})", {"a": 1}, id="proxy"),
        pytest.param("new String('s')", "s", id="boxed"),
        pytest.param("Object.assign(Object.create(null), { ['__proto__']: 3 })", {"__proto__": 3}, id="odd key"),
        pytest.param("'ü€😀'", "ü€😀", id="text"),
        pytest.param("null", None, id="null"),
    ],
)
async def test_what_json_holds_goes_through(kernel: NodeProbe, value: str, expected: object) -> None:
    assert (await kernel.run(f"globalThis.result = {value}")).result == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{ rows: [1, NaN] }", "result.rows[1] is NaN, which JSON cannot hold; use null or a string"),
        ("-Infinity", "result is -Infinity, which JSON cannot hold; use null or a string"),
        ("{ n: 1n }", "result.n is a BigInt, which JSON cannot hold; use String(...) or Number(...)"),
        ("[() => 1]", "result[0] is a function, which JSON cannot hold; call it and hand over what it gives"),
        ("{ 'a b': Symbol() }", 'result["a b"] is a symbol, which JSON cannot hold; use its description'),
        ("new Map()", "result is a Map, which JSON cannot hold; use Object.fromEntries(...)"),
        ("new Set()", "result is a Set, which JSON cannot hold; use [...set] or Array.from(...)"),
        ("Promise.resolve(1)", "result is a Promise, which JSON cannot hold; write `await` before it"),
        ("new Date(NaN)", "result is an invalid Date; use null or a string"),
        ("new Float64Array(1)", "result is a Float64Array, which JSON cannot hold; use Array.from(...)"),
        ("new Error('x')", "result is an Error, which JSON cannot hold; use its message"),
        ("/x/", "result is a RegExp, which JSON cannot hold; use String(...)"),
        ("'\\ud800'", "result holds a lone surrogate, which is not text; use .toWellFormed()"),
        ("(() => { const a = {}; a.b = [a]; return a })()", "result.b[0] contains itself; JSON cannot hold a cycle"),
    ],
)
async def test_what_json_cannot_hold_is_refused_with_the_remedy(kernel: NodeProbe, value: str, message: str) -> None:
    run = await kernel.run(f"globalThis.result = {value}")
    assert run.error == ("ResultNotSerializable", message)


async def test_bytes_and_deep_values_are_refused(kernel: NodeProbe) -> None:
    data = await kernel.run("result = Buffer.from('x')")
    deep = await kernel.run("result = [...Array(70)].reduce((inner) => [inner], 0)")
    assert "/workspace" in data.error[1]
    assert "nested more than 60 levels deep" in deep.error[1]


async def test_an_error_while_the_result_is_read_is_the_code_s(kernel: NodeProbe) -> None:
    run = await kernel.run("result = { get a() { throw new TypeError('no') } }")
    assert run.error == ("TypeError", "no")


@pytest.mark.req("H-021")
async def test_a_result_that_is_too_large_is_an_error(kernel: NodeProbe) -> None:
    assert len(str((await kernel.run("result = 'ü'.repeat(99)", result_bytes_max=200)).result)) == 99
    run = await kernel.run("result = 'ü'.repeat(100)", result_bytes_max=200)
    assert run.error[0] == "OutputTooLarge"
    assert run.error[1].startswith("result is 202 bytes of JSON, but at most 200 may be handed over; ")


async def test_large_results_come_whole(kernel: NodeProbe) -> None:
    run = await kernel.run("result = 'x'.repeat(8e6)", result_bytes_max=10_000_000)
    assert len(str(run.result)) == 8_000_000


@pytest.mark.req("H-029")
async def test_the_last_expression_is_handed_over(kernel: NodeProbe) -> None:
    for code, expected in (
        ("6 * 7", b"42"),
        ("import 'fs';\nawait [1]", b"[1]"),
        ("'use strict';\nconst a = 1\n;(a, [a, 2]) // sure", b"[1,2]"),
        ("'text'", b'"text"'),
        ("#!/usr/bin/env node\nconst b = 1;\n// remark\nb + 1;", b"2"),
        ("#!/usr/bin/env node\n// remark\nawait 3", b"3"),
        ("function f() { return { a: null } }\nf();;\nfunction g() {}", b'{"a":null}'),
        ("const c = [3]\nc.map((n) => n + 1) /* all\nof them */", b"[4]"),
        ("if (true) { 1 }", b""),
        ("console.error('x')", b""),
        ("let total; total = 5", b""),
        ("async function main() { await null; return 7 }\nmain()", b"7"),
        ("async function main() { await null }\nmain()", b""),
        ("process.exit(0);\n7", b""),
        ("setTimeout(() => {}, 1)", b""),
        ("process.on('exit', () => {})", b""),
        ("Object.keys(globalThis).filter((one) => one.includes('moonpool')).length", b"0"),
    ):
        run = await kernel.run(code)
        assert run.done is not None
        assert (run.done.error, run.done.has_result, run.body, run.done.note) == (None, False, expected, ""), code
    run = await kernel.run("result = 1;\n2")
    assert (run.result, run.done and run.done.has_last) == (1, False)


@pytest.mark.req("H-029")
async def test_a_last_expression_that_is_no_json_is_a_note(kernel: NodeProbe) -> None:
    for code, note in (
        ("new Map()", "the last expression is a Map, which JSON cannot hold; use Object.fromEntries(...)"),
        ("[{ a: 1n }]", "the last expression[0].a is a BigInt, which JSON cannot hold; use String(...) or Number(...)"),
        ("new Promise(() => {})", "the last expression is a Promise, which JSON cannot hold; write `await` before it"),
        (
            "[...Array(1e6).keys()]",
            "the last expression is more than 200 bytes of JSON; return a summary, or write the",
        ),
        ("'ü'.repeat(100)", "the last expression is more than 200 bytes of JSON"),
        ("({ get a() { throw new TypeError('no') } })", "the last expression cannot be made JSON (no)"),
        ("({ toJSON() { throw { get message() { throw 1 } } } })", "the last expression cannot be made JSON"),
    ):
        run = await kernel.run(code, result_bytes_max=200)
        assert run.done is not None
        assert (run.done.error, run.done.has_last, run.body) == (None, False, b""), code
        assert run.done.note.startswith(f"nothing is returned: {note}"), run.done.note


async def test_an_error_in_the_last_expression_shows_the_code_as_it_is(kernel: NodeProbe) -> None:
    early = await kernel.run("let a;\nlet a;\na.b")
    late = await kernel.run("const a = null;\n\na.b")
    assert early.error == ("SyntaxError", "Identifier 'a' has already been declared (line 2)")
    assert late.stderr.endswith("code-2.js:3:3)\n")
    assert "moonpool" not in early.stderr + late.stderr
