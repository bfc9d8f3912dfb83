"""The same kernel in a wall of its own: one row of each kind, so that the two backends cannot drift apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from sandboxes.images import working
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec

pytestmark = pytest.mark.anyio


@pytest.fixture
async def walled(request: pytest.FixtureRequest, image: ImageSpec) -> AsyncGenerator[Probe]:
    async with working(BubblewrapBackend) as backend:
        request.node.user_properties.append(("sandbox backend", backend.name))
        with anyio.fail_after(20):
            sandbox = await backend.open_sandbox(SandboxSpec(image=image))
        yield Probe(sandbox)


TOOLS = "import asyncio\nfrom moonpool_guest.toolcalls import invoke, invoke_sync\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("def f():\n    global result\n    result = 1\nf()", 1, id="global"),
        pytest.param(
            "import asyncio\nasync def m(): return 2\nresult = [await m(), asyncio.run(m())]", [2, 2], id="both"
        ),
        pytest.param(
            f"{TOOLS}answers = await asyncio.gather(*(invoke('s', 't', {{'n': n}}) for n in range(100)))\n"
            "result = all(a['ok'] for a in answers) and invoke_sync('s', 't', {})['ok']",
            True,
            id="tool calls",
        ),
        pytest.param(
            "import os\nresult = [os.getcwd(), os.getpid(), os.getuid()]", ["/workspace", 1, 1000], id="place"
        ),
        pytest.param(
            "import os\nfor _ in range(3):\n    if os.fork() == 0:\n        os._exit(0)\nresult = 3", 3, id="children"
        ),
    ],
)
async def test_code_runs_in_a_wall_of_its_own(walled: Probe, code: str, expected: object) -> None:
    assert (await walled.run(code)).result == expected


async def test_stderr_is_short_and_names_what_was_not_awaited_in_a_wall_of_its_own(walled: Probe) -> None:
    run = await walled.run("async def call(): ...\ncall()\nimport json\njson.loads('{')")
    assert "coroutine 'call' was never awaited, so nothing of it was done" in run.stderr
    assert run.stderr.count("  File ") == 1


@pytest.mark.parametrize("code", ["while True: pass", "import asyncio\nawait asyncio.sleep(100)"])
async def test_it_is_interrupted_and_keeps_its_state(walled: Probe, code: str) -> None:
    await walled.run("kept = 'kept'")
    walled.start(f"print('in')\n{code}")
    await walled.said("in")
    walled.sandbox.interrupt()
    assert (await walled.finish()).error[0] == "KeyboardInterrupt"
    assert (await walled.run("result = kept")).result == "kept"


async def test_errors_and_exits_are_the_same(walled: Probe) -> None:
    assert (await walled.run("1/0")).error == ("ZeroDivisionError", "division by zero")
    run = await walled.run("import sys\nsys.exit(3)")
    assert run.done is not None
    assert (run.done.status, run.done.exit_code) == ("exit", 3)
    exit_outcome = (await walled.run_to_exit("import os\nos._exit(4)")).exit
    assert exit_outcome is not None
    assert exit_outcome.exit_code == 4
