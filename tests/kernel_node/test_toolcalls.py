"""Tool calls of Node code pass through PID 1 to the broker; failures are replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moonpool_wire.limits import CALLS_IN_FLIGHT_MAX

if TYPE_CHECKING:
    from kernel_node.probe import NodeProbe

pytestmark = pytest.mark.anyio

CALL = "globalThis[Symbol.for('moonpool.callTool')]"


async def test_a_call_gives_the_reply_of_the_broker(each_kernel: NodeProbe) -> None:
    run = await each_kernel.run(f"result = await {CALL}('srv', 'a.b-c', {{ x: [1, 'ü'], y: undefined }})")
    assert run.result == {
        "ok": True,
        "data_from": "structured",
        "raw": {"structuredContent": {"server": "srv", "tool": "a.b-c", "arguments": {"x": [1, "ü"]}}},
    }


@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param("const one = 1\nfunction f() {\n  return CALL('s', 't', {})\n}\nawait f()", 3, id="module"),
        pytest.param("await new Promise(setImmediate)\nawait CALL('s', 't', {})", 2, id="behind a wait"),
        pytest.param("Error.prepareStackTrace = () => 5\nawait CALL('s', 't', {})", 0, id="changed stacks"),
        pytest.param("setImmediate(CALL, 's', 't', {})\nawait new Promise((r) => setTimeout(r, 50))", 0, id="no code"),
    ],
)
async def test_a_call_names_its_line_if_it_can(kernel: NodeProbe, code: str, line: int) -> None:
    run = await kernel.run(code.replace("CALL", CALL))
    assert [call.line for call in run.calls] == [line]


async def test_a_thousand_calls_at_once_are_all_answered_and_never_too_many_are_open(kernel: NodeProbe) -> None:
    run = await kernel.run(
        f"const all = await Promise.all(Array.from({{ length: 1000 }}, (_, i) => {CALL}('s', 't', {{ i }})));\n"
        "result = all.every((reply, i) => reply.raw.structuredContent.arguments.i === i)"
    )
    assert run.result is True
    assert len(run.calls) == 1000


async def test_no_more_calls_are_open_than_the_host_allows(kernel: NodeProbe) -> None:
    kernel.broker = None
    kernel.start(f"await Promise.all(Array.from({{ length: 1000 }}, (_, i) => {CALL}('s', 't', {{ i }})))")
    held = await kernel.until(lambda run: len(run.calls) >= 200)
    kernel.sandbox.interrupt()
    run = await kernel.finish()
    assert len(held.calls) + len(run.calls) <= CALLS_IN_FLIGHT_MAX
    assert run.error[0] == "KeyboardInterrupt"


async def test_large_arguments_and_replies_come_whole(kernel: NodeProbe) -> None:
    run = await kernel.run(
        f"const one = await {CALL}('s', 't', {{ a: 'x'.repeat(5e6) }});\n"
        "result = one.raw.structuredContent.arguments.a.length"
    )
    assert run.result == 5_000_000


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        ("('s', 't', { n: 1n })", "ValidationError", "arguments.n is a BigInt"),
        ("('s', 't', { a: [NaN] })", "ValidationError", "arguments.a[0] is NaN"),
        ("('s'.repeat(2000), 't', {})", "UnknownTool", "at most 1,024 characters"),
        ("('s', 5, {})", "UnknownTool", "a string"),
        ("('s', 't', { a: 'x'.repeat(17e6) })", "ValidationError", "larger than"),
    ],
)
async def test_a_call_that_cannot_be_made_is_a_reply(kernel: NodeProbe, call: str, kind: str, said: str) -> None:
    run = await kernel.run(f"result = await {CALL}{call}")
    reply = run.result
    assert isinstance(reply, dict)
    assert (reply["ok"], reply["error"]["type"]) == (False, kind)
    assert said in reply["error"]["message"]
    assert run.calls == []


async def test_a_call_after_the_end_of_the_execution_is_refused(kernel: NodeProbe) -> None:
    await kernel.run(
        "const fs = require('fs');\n"
        "const timer = setInterval(async () => { if (!fs.existsSync('go')) return; clearInterval(timer);\n"
        f"  const late = await {CALL}('s', 't', {{}}); fs.writeFileSync('late', late.error.type) }}, 5).unref()"
    )
    said = await kernel.python(
        "import os, time\nopen('go', 'w').close()\n"
        "while not os.path.exists('late') or not os.path.getsize('late'): time.sleep(0.01)\n"
        "result = open('late').read()"
    )
    assert said == "ExecutionEnded"


async def test_an_answer_keeps_the_execution_alive_while_it_is_awaited(kernel: NodeProbe) -> None:
    kernel.broker = None
    kernel.start(f"{CALL}('s', 't', {{}}).then((reply) => {{ result = reply.ok }})")
    waiting = await kernel.until(lambda run: run.calls)
    assert waiting.done is None
    kernel.answer(waiting.calls[0], {"ok": True})
    assert (await kernel.finish()).result is True
    assert (await kernel.run("result = 1")).result == 1


async def test_the_bridge_cannot_be_replaced(kernel: NodeProbe) -> None:
    run = await kernel.run(
        "const key = Symbol.for('moonpool.callTool');\nglobalThis[key] = 1;\n"
        "result = [typeof globalThis[key], Object.keys(globalThis).length, delete globalThis[key]]"
    )
    assert isinstance(run.result, list)
    assert (run.result[0], run.result[2]) == ("function", False)
