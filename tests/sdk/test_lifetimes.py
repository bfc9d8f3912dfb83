"""What is left when sessions end in every way: nothing that runs, nothing that waits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

import moonpool
from apps import DATA, fixture_server
from process_tree import alive, descendants_of
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

ECHO = {"echo": fixture_server("echo.py", ask=["*"])}
CALL = "from servers.echo import text\nr = await text(text='hi')\nr.data if r.ok else r.error['message']"


async def test_cancelling_a_run_interrupts_the_code_and_keeps_its_state() -> None:
    async with moonpool.session() as s:
        await s.run("import os, time")
        run = asyncio.ensure_future(s.run("x = 1; open('began', 'w').close(); time.sleep(600)"))
        waiting = asyncio.ensure_future(s.run("y = 1"))  # waits for its turn
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        with anyio.fail_after(60):
            assert (await s.run("time.__name__, 'y' in globals()")).data == ["time", False]


async def test_a_session_is_used_from_two_loops_and_from_a_thread() -> None:
    async with moonpool.session() as s:
        await s.run("x = 1")

        def elsewhere() -> object:
            async def use() -> object:
                return (await s.run("x += 1; x")).data

            return asyncio.run(use())

        assert await asyncio.to_thread(elsewhere) == 2
        assert (await s.run("x")).data == 2


async def test_a_loop_that_is_blocked_stops_no_deadline() -> None:
    async with moonpool.session(servers=ECHO, approve=lambda _: True) as s:
        run = asyncio.ensure_future(s.run("import time; time.sleep(600)", timeout=0.5))
        await asyncio.sleep(0)
        wait_until(lambda: s.usage.executions == 1, within_s=60)  # blocks this loop
        assert (await run).error.type == "Timeout"  # pyright: ignore[reportOptionalMemberAccess]


async def test_plain_calls_work_inside_a_running_loop() -> None:
    with moonpool.sync.session() as s:
        assert s.run("6 * 7").data == 42


async def test_closing_twice_and_use_after_closing() -> None:
    s = moonpool.session()
    assert (await s.run("1")).data == 1  # its first use opens it
    await s.close()
    await s.close()
    with pytest.raises(moonpool.InputError, match="closed"):
        await s.run("1")


async def test_closing_ends_what_runs_and_what_waits() -> None:
    s = moonpool.session(servers=ECHO)
    asked = asyncio.Event()
    seen: list[object] = []

    async def read() -> None:
        async for event in s.stream(CALL):
            seen.append(event)
            if isinstance(event, moonpool.ApprovalRequest):
                asked.set()

    reading = asyncio.ensure_future(read())
    with anyio.fail_after(60):
        await asked.wait()
        await s.close()
        await asyncio.wait([reading])
    assert reading.exception() is None or isinstance(reading.exception(), moonpool.MoonpoolError)


async def test_a_question_that_nobody_reads_any_more_is_refused() -> None:
    async with moonpool.session(servers=ECHO) as s:
        async for event in s.stream(CALL):
            if isinstance(event, moonpool.ApprovalRequest):
                break
        with anyio.fail_after(60):
            assert (await s.run("1")).data == 1
        with pytest.raises(moonpool.ApprovalAnswerError):
            await event.approve()


@pytest.mark.parametrize("end", ["forgotten", "interrupted", "killed"])
def test_a_process_leaves_nothing_behind(end: str, tmp_path: Path) -> None:
    code = "import moonpool, sys, threading\ns = moonpool.sync.session()\nprint(s.run('6*7').data, flush=True)\n" + (
        "" if end == "forgotten" else "s.run('import time; time.sleep(600)')\n"
    )
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(DATA)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environ, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"42\n"
        children = descendants_of(process.pid)
        if end == "interrupted":
            process.send_signal(signal.SIGINT)
        elif end == "killed":
            process.kill()
        assert (process.wait(60) == 0) == (end == "forgotten")
    wait_until(lambda: not alive(children), within_s=60)
