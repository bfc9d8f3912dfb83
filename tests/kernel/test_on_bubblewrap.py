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
async def probe(request: pytest.FixtureRequest, image: ImageSpec) -> AsyncGenerator[Probe]:
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
async def test_code_runs_in_an_outer_sandbox_of_its_own(probe: Probe, code: str, expected: object) -> None:
    assert (await probe.run(code)).result == expected


async def test_stderr_is_short_and_names_what_was_not_awaited_in_an_outer_sandbox_of_its_own(
    probe: Probe,
) -> None:
    run = await probe.run("async def call(): ...\ncall()\nimport json\njson.loads('{')")
    assert "coroutine 'call' was never awaited, so nothing of it was done" in run.stderr
    assert run.stderr.count("  File ") == 1


@pytest.mark.parametrize("code", ["while True: pass", "import asyncio\nawait asyncio.sleep(100)"])
async def test_it_is_interrupted_and_keeps_its_state(probe: Probe, code: str) -> None:
    await probe.run("kept = 'kept'")
    probe.start(f"print('in')\n{code}")
    await probe.said("in")
    probe.sandbox.interrupt()
    assert (await probe.finish()).error[0] == "KeyboardInterrupt"
    assert (await probe.run("result = kept")).result == "kept"


async def test_errors_and_exits_are_the_same(probe: Probe) -> None:
    assert (await probe.run("1/0")).error == ("ZeroDivisionError", "division by zero")
    run = await probe.run("import sys\nsys.exit(3)")
    assert run.done is not None
    assert (run.done.status, run.done.exit_code) == ("exit", 3)
    exit_outcome = (await probe.run_to_exit("import os\nos._exit(4)")).exit
    assert exit_outcome is not None
    assert exit_outcome.exit_code == 4
