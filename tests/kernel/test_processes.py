"""The kernel is PID 1 of its sandbox: orphans are reaped, children of the code stay the code's, forks stay apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

if TYPE_CHECKING:
    from sandboxes.probe import Probe

pytestmark = pytest.mark.anyio

TOOLS = "import os\nfrom moonpool_guest.toolcalls import invoke, invoke_sync\n"
PROCESSES = """
import os
def processes(state=None):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/stat") as file: text = file.read().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError): continue
            if state in (None, text[0]): found.append(int(name))
    return sorted(found)
"""


async def test_orphans_and_forgotten_children_are_reaped_between_executions(kernel: Probe) -> None:
    for _ in range(3):
        code = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
time.sleep(0.05)
"""
        run = await kernel.run(code)
        assert run.done is not None
        assert run.done.status == "ok", run.stderr
        with anyio.fail_after(30):
            while (await kernel.run(f"{PROCESSES}\nresult = processes()")).result != []:
                pass  # some were still ending when the last execution ended


async def test_children_of_subprocess_keep_their_status_for_whoever_waits_later(kernel: Probe) -> None:
    await kernel.run(
        "import os, subprocess\nowned = subprocess.Popen(['/bin/sh', '-c', 'exit 7'])\n"
        "if (forgotten := os.fork()) == 0: os._exit(0)\n"
        "for pid in (owned.pid, forgotten): os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)"
    )
    run = await kernel.run(f"{PROCESSES}\nzombies = processes('Z')\nresult = [len(zombies), owned.wait(), processes()]")
    assert run.result == [1, 7, []]


async def test_children_of_multiprocessing_keep_their_status(kernel: Probe) -> None:
    await kernel.run(
        "import multiprocessing, os\nchild = multiprocessing.get_context('fork').Process(target=os._exit, args=(5,))\n"
        "child.start()"
    )
    assert (await kernel.run("child.join(10)\nresult = child.exitcode")).result == 5


async def test_a_pool_of_processes_works(kernel: Probe) -> None:
    code = """
import multiprocessing
def square(n): return n * n
with multiprocessing.get_context("fork").Pool(3) as pool: result = pool.map(square, range(5))
"""
    assert (await kernel.run(code)).result == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("call", ["invoke_sync('s', 't', {})", "asyncio.run(invoke('s', 't', {}))"])
async def test_a_forked_child_that_calls_a_tool_gets_a_typed_failure(kernel: Probe, call: str) -> None:
    code = f"""{TOOLS}
import asyncio, json
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, json.dumps({call}).encode())
    os._exit(0)
os.close(write)
result = [json.load(os.fdopen(read)), invoke_sync("s", "t", {{}})["ok"]]
"""
    run = await kernel.run(code)
    assert run.result == [
        {
            "ok": False,
            "error": {
                "type": "ExecutionEnded",
                "message": "tool calls work only in the process that runs the code, not in a forked child; "
                "make the call in the parent, or use threads or asyncio",
                "retryable": False,
            },
            "line": 7,
        },
        True,
    ]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param("", 0, id="runs to the end"),
        pytest.param("if pid == 0: raise ValueError", 1, id="raises"),
        pytest.param("import sys\nif pid == 0: sys.exit(9)", 9, id="exits"),
        pytest.param("if pid == 0: os._exit(8)", 8, id="_exits"),
    ],
)
@pytest.mark.parametrize("final", [False, True])
async def test_a_forked_child_ends_with_the_code_and_never_speaks_for_its_parent(
    kernel: Probe, last: str, expected: int, final: bool
) -> None:
    code = f"""
import os
pid = os.fork()
{last}
result = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if pid else "child"
"""
    assert (await kernel.run(code, final=final)).result == expected
    assert len([item for item, _ in kernel.heard if getattr(item, "status", None)]) == 1


async def test_a_forked_child_s_output_arrives(kernel: Probe) -> None:
    run = await kernel.run(
        "import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\nif pid: os.waitpid(pid, 0)"
    )
    assert sorted(run.stdout.split()) == ["child", "parent"]


async def test_a_fork_among_calling_threads_leaves_the_parent_s_calls_alone(kernel: Probe) -> None:
    code = f"""{TOOLS}
import threading
def calls():
    for n in range(20): answers.append(invoke_sync("s", "t", {{"n": n}})["ok"])
answers = []
threads = [threading.Thread(target=calls) for _ in range(4)]
for t in threads: t.start()
children = []
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if invoke_sync("s", "t", {{}})["error"]["type"] == "ExecutionEnded" else 1)
    children.append(os.waitpid(pid, 0)[1])
for t in threads: t.join()
result = [children, len(answers), all(answers)]
"""
    assert (await kernel.run(code)).result == [[0] * 5, 80, True]


@pytest.mark.req("H-011")
async def test_the_environment_is_small_and_known(kernel: Probe) -> None:
    run = await kernel.run(
        "import os, sys\nresult = [sorted(os.environ), os.getcwd(), os.getpid(), os.getuid(), sys.argv]"
    )
    names, *rest = run.result  # pyright: ignore[reportGeneralTypeIssues]
    assert set(names) - {"LD_LIBRARY_PATH"} == {
        *(
            "HOME",
            "LANG",
            "NPM_CONFIG_OFFLINE",
            "PATH",
            "PIP_NO_INDEX",
            "PYTHONDONTWRITEBYTECODE",
            "TMPDIR",
            "USER",
            "UV_OFFLINE",
        )
    }
    assert rest == ["/workspace", 1, 1000, [""]]
