"""How code ends: exits, leftover threads, `atexit`, and streams that the code has damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxes.probe import Probe

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize(
    ("statement", "exit_code", "message", "said"),
    [
        ("sys.exit()", 0, None, ""),
        ("sys.exit(0)", 0, None, ""),
        ("raise SystemExit", 0, None, ""),
        ("exit_ = sys.exit; exit_(3)", 3, "the code exited with status 3", ""),
        ("raise SystemExit(True)", 1, "the code exited with status True", ""),
        ("sys.exit(-1)", 255, "the code exited with status -1", ""),
        ("sys.exit('text')", 1, "text", "text\n"),
        ("sys.exit([1])", 1, "[1]", "[1]\n"),
        ("await asyncio.sleep(0); sys.exit(4)", 4, "the code exited with status 4", ""),
        ("async def m(): sys.exit(5)\nasyncio.run(m())", 5, "the code exited with status 5", ""),
        ("sys.exit(type('Broken', (), {'__str__': lambda self: 1 / 0})())", 1,
         "<Broken whose text cannot be shown>", "<Broken whose text cannot be shown>\n"),
        ("sys.exit(type('Odd', (), {'__eq__': lambda self, other: 1 / 0, '__str__': lambda self: 'odd'})())", 1,
         "odd", "odd\n"),
    ],
)  # fmt: skip
async def test_sys_exit_is_an_outcome_with_a_status(
    kernel: Probe, statement: str, exit_code: int, message: str | None, said: str, final: bool
) -> None:
    run = await kernel.run(f"import asyncio, sys\n{statement}", final=final)
    assert run.done is not None
    assert (run.done.status, run.done.exit_code) == ("exit", exit_code)
    assert (run.done.error and run.done.error.message) == message
    assert run.stderr == said


async def test_a_session_goes_on_after_sys_exit(kernel: Probe) -> None:
    await kernel.run("x = 1\nimport sys\nsys.exit(1)")
    assert (await kernel.run("result = x")).result == 1


# --- the end of a final execution

ENDING = """
import atexit, threading, time
def works():
    time.sleep(0.05)
    print("thread done")
threading.Thread(target=works).start()
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
atexit.register(print, "atexit ran")
print("code done")
"""


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ("", "ok"),
        ("1/0", "error"),
        ("import sys; sys.exit(2)", "exit"),
        ("import asyncio; await asyncio.sleep(0)", "ok"),
    ],
)
async def test_a_final_execution_joins_threads_and_runs_atexit_before_done(
    kernel: Probe, last: str, status: str
) -> None:
    run = await kernel.run(f"{ENDING}{last}", final=True)
    assert run.stdout == "code done\nthread done\natexit ran\n"
    assert run.done is not None
    assert run.done.status == status


async def test_an_execution_that_is_not_final_waits_for_nobody(kernel: Probe) -> None:
    waiting = ENDING.replace("time.sleep(0.05)", "told.wait()")
    run = await kernel.run(f"import threading\ntold = threading.Event()\n{waiting}")
    assert run.stdout == "code done\n"
    kernel.start("told.set()")
    await kernel.said("thread done\n")


async def test_a_pool_of_threads_ends_with_the_final_execution(kernel: Probe) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(4)
futures = [pool.submit(print, n) for n in range(8)]
result = len([f.result() for f in futures])
"""
    assert (await kernel.run(code, final=True)).result == 8


async def test_an_error_in_atexit_is_shown_and_changes_nothing(kernel: Probe) -> None:
    run = await kernel.run("import atexit\natexit.register(lambda: 1/0)\nresult = 1", final=True)
    assert run.result == 1
    assert "ZeroDivisionError" in run.stderr


async def test_a_thread_that_fails_shows_its_traceback_and_changes_nothing(kernel: Probe) -> None:
    run = await kernel.run("import threading\nthreading.Thread(target=lambda: 1/0).start()\nresult = 1", final=True)
    assert run.result == 1
    assert "ZeroDivisionError" in run.stderr
    assert "moonpool_guest" not in run.stderr


# --- streams


@pytest.mark.parametrize(
    "damage",
    [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout = sys.stderr = None",
        "import sys; sys.stdout = 5; sys.stderr = 'x'",
        "import sys; del sys.stdout, sys.stderr",
    ],
)
async def test_damaged_streams_work_again_in_the_next_execution(kernel: Probe, damage: str) -> None:
    await kernel.run(damage)
    run = await kernel.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (run.stdout, run.stderr) == ("out\n", "err\n")


async def test_a_stream_whose_flush_raises_does_not_end_the_kernel(kernel: Probe) -> None:
    code = (
        "import sys\nclass S:\n    def write(self, text): pass\n    def flush(self): raise SystemExit\nsys.stdout = S()"
    )
    await kernel.run(code)
    assert (await kernel.run("result = 1")).result == 1


@pytest.mark.req("H-018", "H-019")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param("print('no newline', end='')", "no newline", id="no newline at the end"),
        pytest.param("print('a'); import os; os.write(1, b'b\\n'); print('c')", "a\nb\nc\n", id="descriptor 1"),
        pytest.param("print('a'); import os; os.system('echo b'); print('c')", "a\nb\nc\n", id="child of the shell"),
        pytest.param(
            "import subprocess, sys\nprint('a')\nsubprocess.run([sys.executable, '-I', '-S', '-c', 'print(1)'])",
            "a\n1\n",
            id="child interpreter",
        ),
        pytest.param("import sys; sys.stdout.buffer.write(b'raw\\xff\\n')", "raw\ufffd\n", id="bytes"),
        pytest.param("print('\\ud800')", "\\ud800\n", id="lone surrogate"),
        pytest.param("import io, sys\nsys.stdout = io.StringIO()\nprint('hidden')", "", id="replaced"),
        pytest.param(
            "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): print('x')\nprint('y')",
            "y\n",
            id="redirected",
        ),
    ],
)
async def test_every_way_to_write_reaches_the_host_in_order(kernel: Probe, code: str, said: str) -> None:
    assert (await kernel.run(code)).stdout == said


async def test_threads_print_whole_lines_that_all_arrive(kernel: Probe) -> None:
    code = """
import threading
def talks(name):
    for n in range(200): print(f"{name}:{n}\\n", end="")
threads = [threading.Thread(target=talks, args=(name,)) for name in range(8)]
for t in threads: t.start()
for t in threads: t.join()
"""
    run = await kernel.run(code)
    assert sorted(run.stdout.splitlines()) == sorted(f"{name}:{n}" for name in range(8) for n in range(200))


@pytest.mark.req("P-012")
async def test_stdin_is_empty(kernel: Probe) -> None:
    assert (await kernel.run("import sys\nresult = sys.stdin.read()")).result == ""
    assert (await kernel.run("input()")).error[0] == "EOFError"
