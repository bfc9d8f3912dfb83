"""Node's own hazards stay in the sandbox's limits: the execution ends with a cause, Python and the files stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kernel_node.probe import NodeProbe, image_with, node_of
from moonpool.sandboxes.base import SandboxLimits, SandboxSpec
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.groups import best_groups
from sandboxes.images import readable_folder

if TYPE_CHECKING:
    from kernel_node.conftest import Opener

pytestmark = pytest.mark.anyio

LOST = "the variables of this session's Node are lost"
SMALL = SandboxLimits(memory_bytes_max=192 * 1024**2, disk_bytes_max=8 * 1024**2)
MEMORY = SandboxLimits(memory_bytes_max=1536 * 1024**2)


async def test_a_full_heap_is_out_of_memory(open_kernel: Opener) -> None:
    kernel = await open_kernel(limits=MEMORY)
    await kernel.python("mine = 1\nresult = 1")
    run = await kernel.run("const all = []; while (true) all.push(new Array(1000).fill(0).map((_, n) => ({ n })))")
    assert run.error[0] == "OutOfMemory"
    assert LOST in run.error[1]
    assert (await kernel.run("result = typeof all")).result == "undefined"
    assert await kernel.python("import os\nresult = [mine, os.path.exists('/tmp/.node-fatal-self.json')]") == [1, False]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "const all = []; while (true) all.push(Buffer.alloc(64e6, 1))", id="buffers", marks=pytest.mark.slow
        ),
        pytest.param("const all = []; while (true) all.push(new WebAssembly.Memory({ initial: 1024 }))", id="wasm"),
        pytest.param("const all = []; while (true) all.push(new SharedArrayBuffer(64e6))", id="shared memory"),
        pytest.param("'x'.repeat(2 ** 29) + 'y'.repeat(2 ** 29)", id="strings"),
        pytest.param("const f = () => f() + 1; f()", id="stack"),
    ],
)
async def test_memory_outside_of_the_heap_is_an_error_that_code_can_catch(open_kernel: Opener, code: str) -> None:
    kernel = await open_kernel(limits=MEMORY)
    run = await kernel.run(f"try {{ {code} }} catch (error) {{ result = error instanceof RangeError }}")
    assert run.result is True
    assert (await kernel.run("result = 1")).result == 1


async def test_threads_without_end_are_stopped(kernel: NodeProbe) -> None:
    await kernel.python("mine = 1\nresult = 1")
    await kernel.run(
        "const { Worker } = require('worker_threads'); const failed = [];\n"
        "for (let n = 0; n < 100; n += 1) {\n"
        "  try { new Worker('setInterval(() => {}, 1000)', { eval: true }).on('error', (e) => failed.push(e.code)) }\n"
        "  catch (e) { failed.push(e.code) }\n}\n"
        "setTimeout(() => process.exit(0), 500)"
    )
    assert await kernel.python("result = mine") == 1
    assert (await kernel.run("result = 1")).result == 1


async def test_processes_without_end_are_stopped(kernel: NodeProbe) -> None:
    run = await kernel.run(
        "const { spawn } = require('child_process'); let failed = 0; const all = [];\n"
        "for (let n = 0; n < 200; n += 1) {\n"
        "  try { const child = spawn('sleep', ['100']); all.push(child); child.on('error', () => { failed += 1 }) }\n"
        "  catch { failed += 1 }\n}\n"
        "await new Promise((r) => setTimeout(r, 50)); for (const child of all) child.kill('SIGKILL');\n"
        "result = failed > 100"
    )
    assert run.result is True
    assert (await kernel.run("result = 1")).result == 1


@pytest.mark.slow
async def test_too_few_threads_for_node_are_a_clear_error(open_kernel: Opener) -> None:
    kernel = await open_kernel(limits=SandboxLimits(process_count_max=3))
    run = await kernel.run("result = 1")
    assert run.error[0] in {"LanguageUnavailable", "KernelKilled", "KernelExited"}
    assert await kernel.python("result = 1") == 1


async def test_too_little_memory_for_node_is_a_clear_error(open_kernel: Opener) -> None:
    kernel = await open_kernel(limits=SandboxLimits(memory_bytes_max=400 * 1024**2))
    run = await kernel.run("result = 1")
    assert run.error[0] == "LanguageUnavailable"
    assert await kernel.python("result = 1") == 1


async def test_a_watch_of_files_fails_with_the_reason_and_looking_again_works(kernel: NodeProbe) -> None:
    run = await kernel.run("require('fs').watch('/tmp', () => {})")
    assert run.error[0] == "Error"
    assert "ENOSYS: function not implemented, watch '/tmp'" in run.error[1]
    code = """
const fs = require('fs');
fs.writeFileSync('/tmp/seen', '1');
fs.watchFile('/tmp/seen', { interval: 5 }, () => { fs.unwatchFile('/tmp/seen'); globalThis.result = 'changed'; });
setTimeout(() => fs.writeFileSync('/tmp/seen', 'more'), 20);
"""
    assert (await kernel.run(code)).result == "changed"


@pytest.mark.parametrize(
    ("code", "kind", "exit_code"),
    [
        pytest.param("process.kill(process.pid, 'SIGKILL')", "KernelKilled", 137, id="kill"),
        pytest.param(
            "process.kill(process.pid, 'SIGTERM'); await new Promise(() => {})", "KernelKilled", 143, id="term"
        ),
        pytest.param(
            "process.kill(process.pid, 'SIGALRM'); await new Promise(() => {})", "KernelKilled", 142, id="alarm"
        ),
        pytest.param("process.kill(0, 'SIGKILL')", "KernelKilled", 137, id="kill its group"),
        pytest.param("process.abort()", "KernelKilled", 134, id="abort"),
        pytest.param("process.reallyExit(5)", "KernelExited", 5, id="exit of the process"),
    ],
)
async def test_the_end_of_the_process_is_told(kernel: NodeProbe, code: str, kind: str, exit_code: int) -> None:
    await kernel.python("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nmine = 1\nresult = 1")
    run = await kernel.run(code)
    assert run.done is not None
    assert (run.error[0], run.done.exit_code) == (kind, exit_code)
    assert LOST in run.error[1]
    assert (await kernel.run("result = 2")).result == 2
    assert await kernel.python("result = mine") == 1


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param("Buffer.from('ffffffff00000000', 'hex')", id="huge"),
        pytest.param("Buffer.from('0000000200ff', 'hex')", id="head longer than the frame"),
        pytest.param("Buffer.from('00000004000241420000', 'hex')", id="no JSON"),
        pytest.param("frame('[1]')", id="no object"),
        pytest.param('frame(\'{"t":"call","id":"x"}\')', id="call without a name"),
        pytest.param("frame(JSON.stringify({ t: 'done', run: 1, status: 'fine', exit_code: 0 }))", id="no outcome"),
        pytest.param("frame('[' .repeat(10000))", id="deep"),
    ],
)
async def test_garbage_on_the_link_ends_node_and_nothing_else(kernel: NodeProbe, frame: str) -> None:
    run = await kernel.run(
        "function frame(head) { const b = Buffer.alloc(6 + head.length); b.writeUInt32BE(2 + head.length);\n"
        "  b.writeUInt16BE(head.length, 4); b.write(head, 6); return b }\n"
        f"require('fs').writeSync(3, {frame}); setInterval(() => {{}}, 1000)"
    )
    assert run.error[0] == "KernelExited"
    assert (await kernel.run("result = 2")).result == 2


async def test_the_environment_of_node_is_the_sandbox_s(kernel: NodeProbe) -> None:
    run = await kernel.run("result = [Object.keys(process.env).sort(), process.execArgv, process.argv.length]")
    assert isinstance(run.result, list)
    assert not [name for name in run.result[0] if name.startswith(("MOONPOOL", "NODE", "PYTHON"))]
    assert run.result[1:] == [[], 2]


async def test_a_host_without_node_says_so_and_python_works(open_kernel: Opener, bare_image: object) -> None:
    kernel = await open_kernel(other_image=bare_image)
    run = await kernel.run("result = 1")
    assert run.error[0] == "LanguageUnavailable"
    assert await kernel.python("result = 1") == 1


@pytest.mark.parametrize("which", ["system", "wheel"])
async def test_a_small_sandbox_behind_control_groups_runs_node(which: str) -> None:
    """RLIMIT_DATA is memory there, and the newer V8 maps 512 MiB for code that it does not touch."""
    code = (
        "result = [process.versions.node.split('.')[0] >= 20, new WebAssembly.Memory({ initial: 1 }).buffer.byteLength]"
    )
    image = await image_with(node_of(which))
    with readable_folder() as folder:
        async with best_groups() as groups:
            backend = ZygoteBackend(folder, groups)
            try:
                kernel = NodeProbe(await backend.open_sandbox(SandboxSpec(image=image, limits=SMALL)))
                assert (await kernel.run(code)).result == [True, 65536]
                child = "require('child_process').execFileSync(process.execPath, ['-p', '1 + 1'], { encoding: 'utf8' })"
                assert (await kernel.run(f"result = {child}")).result == "2\n"
            finally:
                await backend.close()


async def test_webassembly_runs_where_only_addresses_are_limited(kernel: NodeProbe) -> None:
    code = "result = new WebAssembly.Memory({ initial: 1, maximum: 2 }).grow(1)"
    assert (await kernel.run(code)).result == 1
