"""`asyncio.run` and top-level `await`, alone, together, and over several executions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxes.probe import Probe

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-030")]

MAIN = "import asyncio\nasync def main(value=1):\n    await asyncio.sleep(0)\n    return value\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("result = asyncio.run(main())", 1, id="run"),
        pytest.param("result = [asyncio.run(main(n)) for n in range(3)]", [0, 1, 2], id="run again and again"),
        pytest.param("result = await main()", 1, id="await"),
        pytest.param("result = [await main(1), asyncio.run(main(2)), await main(3)]", [1, 2, 3], id="both"),
        pytest.param("result = asyncio.get_event_loop().run_until_complete(main())", 1, id="get_event_loop"),
        pytest.param("async with asyncio.timeout(5): result = await main()", 1, id="async with"),
        pytest.param("result = [x async for x in (y async for y in agen())]", [1, 2], id="async comprehension"),
        pytest.param("async for result in agen(): pass", 2, id="async for"),
        pytest.param("result = await asyncio.gather(*(main(n) for n in range(3)))", [0, 1, 2], id="gather"),
        pytest.param("with asyncio.Runner() as r: result = r.run(main())", 1, id="Runner"),
        pytest.param("result = await asyncio.to_thread(lambda: asyncio.run(main()))", 1, id="run in a thread"),
        pytest.param(
            "async def nested(): return asyncio.run(main(7))\nresult = await nested()", 7, id="run inside a coroutine"
        ),
    ],
)
async def test_asynchronous_code_runs(kernel: Probe, code: str, expected: object) -> None:
    prelude = MAIN + "async def agen():\n    yield 1\n    yield 2\n"
    assert (await kernel.run(prelude + code)).result == expected


async def test_executions_of_one_session_may_mix_both(kernel: Probe) -> None:
    await kernel.run(MAIN)
    for code in ("await main(1)", "asyncio.run(main(1))", "await main(1)", "asyncio.run(main(1))"):
        assert (await kernel.run(f"result = {code}")).result == 1


async def test_after_a_nested_run_the_outer_loop_goes_on(kernel: Probe) -> None:
    code = """
started = asyncio.create_task(main("task"))
inner = asyncio.run(main("inner"))
result = [inner, await started, asyncio.current_task() is not None, asyncio.get_running_loop().is_running()]
"""
    assert (await kernel.run(MAIN + code)).result == ["inner", "task", True, True]


async def test_a_nested_run_that_fails_leaves_the_outer_loop_intact(kernel: Probe) -> None:
    code = "async def bad(): raise KeyError('k')\ntry: asyncio.run(bad())\nexcept KeyError: result = await main(2)"
    assert (await kernel.run(MAIN + code)).result == 2


async def test_tasks_live_on_in_the_next_execution_that_awaits(kernel: Probe) -> None:
    await kernel.run(MAIN + "await asyncio.sleep(0)\ntask = asyncio.create_task(main('late'))")
    assert (await kernel.run("result = await task")).result == "late"


async def test_the_end_of_a_final_execution_cancels_pending_tasks_and_closes_generators(kernel: Probe) -> None:
    code = """
async def waits():
    try: await asyncio.sleep(100)
    finally: print("cancelled")
async def generates():
    try: yield 1
    finally: print("closed")
task = asyncio.create_task(waits())
kept = generates()
await anext(kept)
await asyncio.sleep(0)
"""
    run = await kernel.run(MAIN + code, final=True)
    assert run.stdout == "cancelled\nclosed\n"


async def test_a_subprocess_of_asyncio_works(kernel: Probe) -> None:
    code = """
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec("/bin/echo", "hello", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return [out.decode(), process.returncode]
result = asyncio.run(main())
"""
    assert (await kernel.run(code)).result == ["hello\n", 0]


async def test_the_guide_s_sample_runs_unchanged(kernel: Probe) -> None:
    code = """
import asyncio

async def main():
    global result
    rows = [1, 2, 3]
    await asyncio.sleep(0)
    result = {"count": len(rows)}

asyncio.run(main())
"""
    assert (await kernel.run(code)).result == {"count": 3}
