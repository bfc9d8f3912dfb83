"""Every execution has one end and says what it was; what it started and did not finish does not disturb the next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernel_node.probe import NodeProbe

pytestmark = pytest.mark.anyio

THROWS = "const e = new RangeError('late');"


@pytest.mark.req("H-092")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(f"{THROWS} throw e", id="script"),
        pytest.param(f"{THROWS} await null; throw e", id="module"),
        pytest.param(f"{THROWS} Promise.reject(e)", id="rejection"),
        pytest.param(f"{THROWS} async function main() {{ throw e }} main()", id="main that nobody awaits"),
        pytest.param(f"{THROWS} setTimeout(() => {{ throw e }}, 1); setInterval(() => {{}}, 5)", id="timer"),
        pytest.param(f"{THROWS} setImmediate(() => {{ throw e }}); setInterval(() => {{}}, 5)", id="immediate"),
        pytest.param(f"{THROWS} process.nextTick(() => {{ throw e }})", id="tick"),
        pytest.param(f"{THROWS} require('fs').readFile('/etc/passwd', () => {{ throw e }})", id="callback"),
        pytest.param(f"{THROWS} process.on('exit', () => {{ throw e }})", id="exit listener"),
    ],
)
async def test_an_exception_that_nobody_catches_ends_the_execution(each_kernel: NodeProbe, code: str) -> None:
    run = await each_kernel.run(code, final=True)
    assert run.error == ("RangeError", "late")
    assert "RangeError: late\n    at" in run.stderr
    assert "moonpool" not in run.stderr
    assert "node:" not in run.stderr


async def test_fetch_says_why_it_failed_and_shows_no_frame_of_node(kernel: NodeProbe) -> None:
    run = await kernel.run("const get = () => fetch('http://192.0.2.1/')\nawait get()")
    assert run.error[0] == "TypeError"
    assert run.error[1].startswith("fetch failed: connect ")
    assert "at async file:///workspace/code.js:2:1" in run.stderr
    assert not re.search("at .*node:", run.stderr)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("throw 'text'", ("Error", "the code threw 'text'")),
        ("throw null", ("Error", "the code threw null")),
        ("class Mine extends Error {}; throw new Mine('m')", ("Mine", "m")),
        ("const e = new Error('m'); e.name = 'Named'; throw e", ("Named", "m")),
        ("throw { get message() { throw 1 }, stack: 'x' }", None),
        ("throw new Proxy({}, { get() { throw 1 } })", None),
    ],
)
async def test_whatever_is_thrown_gives_an_error(kernel: NodeProbe, code: str, error: tuple[str, str] | None) -> None:
    run = await kernel.run(code)
    assert run.error[0]
    assert error in (None, run.error)


@pytest.mark.req("H-092")
@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        pytest.param("process.exit(3)", 3, id="exit"),
        pytest.param("process.exitCode = 3", 3, id="exitCode"),
        pytest.param("process.exitCode = 3; process.exit()", 3, id="exitCode and exit"),
        pytest.param("process.exit(0)", 0, id="exit 0"),
        pytest.param("await null; try { process.exit(4) } finally { console.log('no') }", 4, id="in try"),
        pytest.param("setTimeout(() => { process.exit(5) }, 1); setInterval(() => {}, 1)", 5, id="in a timer"),
        pytest.param("setImmediate(() => process.exit(6)); setImmediate(() => console.log('no'))", 6, id="immediate"),
        pytest.param("[1].forEach(() => process.exit(7)); console.log('no')", 7, id="in a callback"),
    ],
)
async def test_an_exit_ends_the_execution_and_not_the_session(
    each_kernel: NodeProbe, code: str, exit_code: int
) -> None:
    await each_kernel.run("const kept = 1")
    run = await each_kernel.run(code)
    assert run.done is not None
    assert (run.done.status == "exit", run.done.exit_code) == (True, exit_code)
    assert (run.done.error is None) == (exit_code == 0)
    assert run.stdout == ""
    assert (await each_kernel.run("result = [kept, process.exitCode ?? null]")).result == [1, None]


async def test_exit_listeners_run_once(kernel: NodeProbe) -> None:
    code = "process.on('exit', (code) => console.log('bye', code));"
    assert (await kernel.run(f"{code} process.exit(2)")).stdout == "bye 2\n"
    assert (await kernel.run(f"{code}", final=True)).stdout == "bye 0\n"


async def test_an_await_that_never_ends_is_an_error_and_no_wait(kernel: NodeProbe) -> None:
    run = await kernel.run("await new Promise(() => {})")
    assert run.error[0] == "UnsettledAwait"


async def test_listeners_of_the_code_are_heard(kernel: NodeProbe) -> None:
    run = await kernel.run(
        "process.on('uncaughtException', (e) => console.log('caught', e.message));\n"
        "process.once('beforeExit', () => setTimeout(() => console.log('more'), 1));\n"
        "setTimeout(() => { throw new Error('x') }, 1); result = 1"
    )
    assert run.result == 1
    assert run.stdout == "caught x\nmore\n"
    assert (await kernel.run("process.removeAllListeners(); result = 2")).result == 2
    assert (await kernel.run("throw new Error('y')")).error == ("Error", "y")


@pytest.mark.parametrize(
    "start",
    [
        "setInterval(() => {}, 1)",
        "setImmediate(function again() { setImmediate(again) })",
        "require('net').createServer().listen('/tmp/socket')",
        "new (require('worker_threads').Worker)('while (true);', { eval: true })",
        "require('child_process').spawn('sleep', ['100'])",
        "require('fs').watchFile('/workspace', () => {})",
    ],
)
async def test_what_a_failed_execution_left_does_not_hold_up_the_next(each_kernel: NodeProbe, start: str) -> None:
    failed = await each_kernel.run(f"{start}; setTimeout(() => {{ throw new Error('x') }}, 20)")
    assert failed.error == ("Error", "x")
    assert (await each_kernel.run("await new Promise((r) => setTimeout(r, 5)); result = 1")).result == 1


async def test_code_that_breaks_builtins_ends_all_the_same(kernel: NodeProbe) -> None:
    await kernel.run(
        "JSON.parse = JSON.stringify = null; Array.prototype.push = null; Error.stackTraceLimit = 0;\n"
        "Error.prepareStackTrace = () => { throw 1 }; globalThis.setTimeout = globalThis.setImmediate = null;\n"
        "process.emit; Buffer.from = null; require('fs').writeSync = null; globalThis.process = null;"
    )
    assert (await kernel.run("result = 2")).result == 2
