"""An interrupt ends the code, wherever it is, and nothing else: the session goes on with its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.messages import ToolCall

if TYPE_CHECKING:
    from kernel_node.probe import NodeProbe

pytestmark = pytest.mark.anyio

CALL = "globalThis[Symbol.for('moonpool.callTool')]"
SPIN = "console.log('in'); while (true);"
STATES = {
    "busy loop": SPIN,
    "busy module": f"await null; {SPIN}",
    "catches everything": "console.log('in');\n"
    "while (true) { try { while (true); } catch {} finally { while (true); } }",
    "timer": f"setTimeout(() => {{ {SPIN} }}, 1)",
    "interval": f"setInterval(() => {{ {SPIN} }}, 1); setInterval(() => {{}}, 1)",
    "immediate": f"setImmediate(() => {{ {SPIN} }}); setImmediate(() => {{}})",
    "tick": f"process.nextTick(() => {{ {SPIN} }})",
    "callback": f"require('fs').readFile('/etc/passwd', () => {{ {SPIN} }})",
    "listener": f"const e = new (require('events'))(); e.on('x', () => {{ {SPIN} }}); setTimeout(() => e.emit('x'), 1)",
    "async context": "const { AsyncLocalStorage } = require('async_hooks');\n"
    f"new AsyncLocalStorage().run(1, () => setTimeout(() => {{ {SPIN} }}, 1))",
    "microtasks without end": "console.log('in'); while (true) await null",
    "promises without end": "console.log('in'); const f = () => Promise.resolve().then(f); await f()",
    "printing": "console.log('in'); while (true) console.log('x'.repeat(100))",
    "regular expression": "console.log('in'); /(a+)+$/.test('a'.repeat(60) + 'b')",
    "Atomics.wait": "console.log('in'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "end of the stack": "console.log('in'); const f = () => { try { f() } finally { f() } }; f()",
    "pending timer": "console.log('in'); await new Promise((r) => setTimeout(r, 1e6))",
    "pending call": f"console.log('in'); await {CALL}('s', 'hang', {{}})",
    "calling all the time": f"console.log('in'); while (true) await {CALL}('s', 't', {{}})",
    "many calls": f"console.log('in'); while (true) await Promise.all([1, 2, 3].map(() => {CALL}('s', 't', {{}})))",
    "result": f"globalThis.result = {{ toJSON() {{ {SPIN} }} }}",
    "text of an error": f"throw {{ get message() {{ {SPIN} }}, stack: 'x' }}",
    "eval": "eval(\"console.log('in'); while (true);\")",
    "thread": "const { Worker } = require('worker_threads');\n"
    "new Worker('while (true);', { eval: true }).on('online', () => console.log('in'))",
    "server": "require('net').createServer().listen('/tmp/socket', () => console.log('in'))",
}


def answer_all_but_hang(probe: NodeProbe) -> None:
    def on_message(message: object, body: bytes) -> None:
        if not isinstance(message, ToolCall):
            probe._hear((message, body))  # pyright: ignore[reportArgumentType]
        elif message.tool != "hang":
            probe.answer(message, {"ok": True})  # and not remembered: some states make thousands

    probe.on_message = on_message  # pyright: ignore[reportAttributeAccessIssue]


async def be_patient(probe: NodeProbe) -> None:
    """On a busy machine too, let the code end by the interrupt, not by the end of PID 1's patience."""
    await probe.python("from moonpool_guest import companion\ncompanion.INTERRUPT_GRACE_S = 15\nresult = 1")


_VARIANTS = {
    "interval",
    "immediate",
    "callback",
    "listener",
    "async context",
    "promises without end",
    "many calls",
    "eval",
}


@pytest.mark.parametrize(
    "state", [pytest.param(state, marks=pytest.mark.slow) if state in _VARIANTS else state for state in STATES]
)
async def test_an_interrupt_ends_the_code_and_keeps_the_session(each_kernel: NodeProbe, state: str) -> None:
    answer_all_but_hang(each_kernel)
    await be_patient(each_kernel)
    await each_kernel.run("let kept = 1; const raise = () => ++kept; globalThis.other = 5")
    each_kernel.start(STATES[state])
    await each_kernel.said("in")
    each_kernel.sandbox.interrupt()
    run = await each_kernel.finish()
    assert run.done is not None
    assert (run.done.status, run.error[0]) == ("interrupted", "KeyboardInterrupt")
    after = await each_kernel.run(
        "const stop = setInterval(() => {}, 1); await new Promise((r) => setTimeout(r, 3)); clearInterval(stop);\n"
        f"globalThis.result = [raise(), other, (await {CALL}('s', 't', {{}})).ok]"
    )
    assert after.result == [2, 5, True]


async def test_many_interrupts_in_a_row_are_obeyed(kernel: NodeProbe) -> None:
    await be_patient(kernel)
    await kernel.run("let rounds = 0")
    for number in range(1, 16):
        kernel.start(f"rounds += 1; console.log('in {number}.'); while (true) await null;")
        await kernel.said(f"in {number}.")
        kernel.sandbox.interrupt()
        run = await kernel.finish()
        assert run.done is not None
        assert run.done.status == "interrupted"
    assert (await kernel.run("result = rounds")).result == 15


async def test_a_file_whose_import_was_interrupted_is_an_error_and_no_wait(kernel: NodeProbe) -> None:
    await be_patient(kernel)
    code = "globalThis.n = (globalThis.n ?? 0) + 1;\nif (n === 1) { console.log('in'); while (true); }"
    await kernel.python(f"open('/workspace/spin.mjs', 'w').write({code!r})\nresult = 1")
    kernel.start("import './spin.mjs'")
    await kernel.said("in")
    kernel.sandbox.interrupt()
    assert (await kernel.finish()).error[0] == "KeyboardInterrupt"
    assert (await kernel.run("import './spin.mjs'")).error[0] == "UnsettledAwait"
    assert (await kernel.run("import './spin.mjs?2'; result = n")).result == 2


async def test_an_interrupt_that_comes_too_late_does_nothing(kernel: NodeProbe) -> None:
    for number in range(20):
        kernel.start(f"result = {number}")
        run = await kernel.finish()
        kernel.sandbox.interrupt()
        assert run.result == number
    assert (await kernel.run("result = 'still here'")).result == "still here"


async def test_what_cannot_be_interrupted_is_killed_and_the_rest_of_the_sandbox_lives(kernel: NodeProbe) -> None:
    await kernel.python("mine = 1\nresult = 1")
    await kernel.run("globalThis.theirs = 1")
    # The child says it: until Node waits for the child, an interrupt ends the code and leaves Node alive.
    kernel.start("require('child_process').execSync('echo in; exec sleep 1000', {stdio: 'inherit'})")
    await kernel.said("in")
    kernel.sandbox.interrupt()
    run = await kernel.finish()
    assert run.done is not None
    assert run.done.status == "interrupted"
    assert "variables of this session's Node are lost" in run.error[1]
    assert (await kernel.run("result = typeof theirs")).result == "undefined"
    assert await kernel.python("result = mine") == 1


async def test_an_interrupt_while_node_starts_ends_the_execution(kernel: NodeProbe) -> None:
    kernel.start("while (true);")
    run = None
    while run is None:  # the first ones may come before the code was taken in
        kernel.sandbox.interrupt()
        with anyio.move_on_after(0.02):
            run = await kernel.finish()
    assert run.error[0] == "KeyboardInterrupt"
    assert await kernel.python("result = 1") == 1
