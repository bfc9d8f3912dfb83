"""What code prints arrives whole, on the right stream, before the execution ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernel_node.probe import NodeProbe

pytestmark = pytest.mark.anyio


@pytest.mark.req("H-019", "H-024")
async def test_console_writes_to_the_streams_as_in_node(each_kernel: NodeProbe) -> None:
    run = await each_kernel.run(
        "console.log('log', { a: 1 }); console.info('info'); console.debug('debug');\n"
        "console.error('error'); console.warn('warn'); console.group('group'); console.log('in'); console.groupEnd();\n"
        "process.stdout.write('raw'); process.stdout.write(new Uint8Array([33, 10])); process.stderr.write('e\\n');"
    )
    assert run.stdout == "log { a: 1 }\ninfo\ndebug\ngroup\n  in\nraw!\n"
    assert run.stderr == "error\nwarn\ne\n"


async def test_a_trace_shows_the_code_s_frames(kernel: NodeProbe) -> None:
    run = await kernel.run("function f() { console.trace('here') }\nf()")
    assert run.stderr.startswith("Trace: here\n    at f (/workspace/code.js:1:24)\n")
    assert "moonpool" not in run.stderr


async def test_much_output_comes_whole(kernel: NodeProbe) -> None:
    run = await kernel.run("for (let i = 0; i < 20000; i += 1) console.log(i, 'x'.repeat(50))")
    lines = run.stdout.splitlines()
    assert len(lines) == 20_000
    assert lines[-1] == f"19999 {'x' * 50}"


async def test_streams_survive_being_closed_and_piped_to(kernel: NodeProbe) -> None:
    run = await kernel.run(
        "process.stdout.end('bye\\n'); process.stderr.destroy();\n"
        "require('stream').Readable.from(['a', 'b', '\\n']).pipe(process.stdout).on('finish', () => {});\n"
        "process.stdout.write('called\\n', () => console.log('back'))"
    )
    assert sorted(run.stdout.split()) == ["ab", "back", "bye", "called"]
    assert (await kernel.run("console.log('still')")).stdout == "still\n"


async def test_children_print_to_the_same_streams_and_leave_them_usable(kernel: NodeProbe) -> None:
    run = await kernel.run(
        "const { spawn, execFileSync } = require('child_process');\n"
        "spawn(process.execPath, ['-e', 'process.stdout.write(\"x\".repeat(300000))'], { stdio: 'inherit' })\n"
        "  .on('exit', () => console.log('after', execFileSync('echo', ['sync']).toString().trim()))"
    )
    assert len(run.stdout) == 300_000 + len("after sync\n")
    assert (await kernel.python("import os\nresult = [os.get_blocking(1), os.get_blocking(2)]")) == [True, True]
