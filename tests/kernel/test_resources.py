"""Code that takes too much is stopped by the sandbox's limits and hears a plain Python error; the session goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxes.probe import Probe

pytestmark = pytest.mark.anyio

SMALL = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (400 << 20, 2 << 30))\n"


async def still_works(kernel: Probe) -> None:
    code = "import subprocess\nopen('/workspace/x', 'w').close()\nresult = subprocess.run(['/bin/true']).returncode"
    assert (await kernel.run(code)).result == 0


@pytest.mark.req("H-053")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param("def f(): f()\nf()", "RecursionError", id="recursion"),
        pytest.param("class E(Exception):\n    def __str__(self): return str(self)\nraise E", "E", id="error text"),
        pytest.param("x = bytearray(8 << 30)", "MemoryError", id="8 GiB at once"),
        pytest.param(f"{SMALL}kept = []\nwhile True: kept.append(bytes(1 << 20) * 2)", "MemoryError", id="bit by bit"),
        pytest.param("kept = []\nwhile True: kept.append(open('/dev/null'))", "OSError", id="descriptors"),
        pytest.param(
            "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1,), daemon=True).start()",
            "RuntimeError",
            id="threads",
        ),
        pytest.param(
            "with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))", "OSError", id="one large file"
        ),
        pytest.param("import os\nfor n in range(100_000): open(f'/tmp/{n}', 'x').close()", "OSError", id="inodes"),
    ],
)  # fmt: skip
async def test_taking_too_much_is_an_error_of_the_code(kernel: Probe, code: str, kind: str) -> None:
    run = await kernel.run(code)
    assert run.error[0] == kind
    cleanup = """
import gc, os, time
kept = None
gc.collect()
for name in os.listdir('/tmp'): os.unlink(f'/tmp/{name}')
if os.path.exists('big'): os.unlink('big')
import threading
while threading.active_count() > 1: time.sleep(0.05)
"""
    await kernel.run(cleanup)
    await still_works(kernel)


@pytest.mark.req("H-053")
async def test_a_full_disk_is_enospc_and_empty_again_after_deletion(kernel: Probe) -> None:
    code = """
import errno, os
def fill(folder):
    try:
        for n in range(100):
            with open(f"{folder}/part{n}", "wb") as f: f.write(bytes(16 << 20))
    except OSError as error:
        return error.errno == errno.ENOSPC
codes = [fill(folder) for folder in ("/workspace", "/tmp", "/home/user", "/dev/shm")]
for folder in ("/workspace", "/tmp", "/home/user", "/dev/shm"):
    for name in os.listdir(folder):
        if name.startswith("part"): os.unlink(f"{folder}/{name}")
open("/workspace/after", "wb").write(bytes(16 << 20))
result = codes
"""
    assert (await kernel.run(code)).result == [True] * 4  # one quota for all of them


@pytest.mark.req("H-053", "P-007")
async def test_a_fork_bomb_ends_in_eagain_and_the_session_goes_on(kernel: Probe) -> None:
    code = """
import errno, os, signal, time
children = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            time.sleep(100)
            os._exit(0)
        children.append(pid)
except OSError as error:
    result = [errno.errorcode[error.errno], 10 < len(children) < 64]
for pid in children: os.kill(pid, signal.SIGKILL)
for pid in children: os.waitpid(pid, 0)
"""
    assert (await kernel.run(code)).result == ["EAGAIN", True]
    await still_works(kernel)


async def test_the_cpu_limit_ends_the_sandbox_with_a_signal(kernel: Probe) -> None:
    """RLIMIT_CPU is the last resort behind the host's clock; here it is lowered by the code itself."""
    code = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass"
    run = await kernel.run_to_exit(code)
    assert run.exit is not None
    assert run.exit.signal == 9


async def test_a_crash_of_the_parser_or_interpreter_is_an_outcome(kernel: Probe) -> None:
    kernel.start("x = " + "-" * 200_000 + "1\n")
    run = await kernel.until(lambda run: run.done or run.exit)
    assert (run.done and run.done.error) or (run.exit and run.exit.signal)
