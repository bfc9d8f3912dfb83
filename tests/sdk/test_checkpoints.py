"""Going back in a session, and branches of it, for every face."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import moonpool
from apps import fixture_server

if TYPE_CHECKING:
    from sdk.faces import Face

pytestmark = pytest.mark.anyio

STATE = """
import os, random
names = sorted(name for name in os.listdir() if name not in ("servers", "mcptools"))
[x, names, {name: open(name).read() for name in names if os.path.isfile(name)}, random.random(), file.tell()]
"""
BEGIN = """
import os, random
x = 1
open("a", "w").write("one")
os.mkdir("folder")
os.symlink("a", "link")
file = open("open", "w+")
file.write("kept"); file.flush()
random.seed(7)
"""
CHANGE = """
x = 2
open("a", "w").write("TWO")
open("b", "w").write("new")
os.rmdir("folder"); os.unlink("link"); open("link", "w").close()
file.write(" and more"); file.flush()
random.seed(8)
"""


async def test_undo_brings_back_variables_and_files(face: Face) -> None:
    async with face.session(checkpoints=True) as s:
        (await s.run(BEGIN)).check()
        before = (await s.run(STATE)).check().data
        assert before[:2] == [1, ["a", "folder", "link", "open"]]
        changed = (await s.run(CHANGE)).check()
        undone = await s.undo(2)
        assert undone.run_ids[1] == changed.run_id
        assert (undone.calls, undone.lost_files) == ((), "")
        assert (await s.run(STATE)).check().data == before
        assert (await s.run("file.write('!'); file.flush(); open('open').read()")).data == "kept!"
        await s.undo(3)
        assert (await s.run("x")).error.type == "NameError"
        with pytest.raises(moonpool.CheckpointError, match="1 executions to undo, not 2"):
            await s.undo(2)
        with pytest.raises(moonpool.InputError, match="from 1"):
            await s.undo(0)


async def test_named_checkpoints_and_files_put_in_between(face: Face) -> None:
    async with face.session(checkpoints=True) as s:
        await s.run("x = 1\nawait __import__('asyncio').sleep(0)")  # the kernel's own loop is no obstacle
        first = await s.checkpoint("first")
        for wrong in (s.undo(to="first"), s.undo("first"), s.undo(True), s.checkpoint(""), s.checkpoint(7)):
            with pytest.raises(moonpool.InputError, match=r"`to` is what|undo\(to=|name"):
                await wrong
        assert [one.name for one in s.checkpoints if one.name] == ["first"]
        await s.files.write("given", "of the application")
        await s.run("x = 2; open('given', 'w').write('spoilt')")
        await s.undo()
        assert await s.files.read("given") == b"of the application"
        assert (await s.run("x = 3\nawait __import__('asyncio').sleep(0)\nx")).data == 3
        assert (await s.undo(to=first)).checkpoint == first
        assert (await s.run("import os\n[x, os.path.exists('given')]")).data == [1, False]
        await s.undo(to=first)  # as often as wanted
        await s.reset()
        with pytest.raises(moonpool.CheckpointError, match="not kept any more"):
            await s.undo(to=first)


async def test_branches_run_by_turns(face: Face) -> None:
    async with face.session(checkpoints=True) as s:
        await s.run("x = [1]; open('f', 'w').write('1')")
        other = await s.fork()
        code = "x.append({0}); open('f', 'a').write('{0}'); [x, open('f').read()]"
        try:
            assert (await s.run(code.format(2))).data == [[1, 2], "12"]
            assert (await other.run(code.format(3))).data == [[1, 3], "13"]
            assert (await s.run(code.format(4))).data == [[1, 2, 4], "124"]
            assert await other.files.read("f") == b"13"
            await other.undo()
            assert (await other.run("x")).data == [1]
            with pytest.raises(moonpool.CheckpointError):
                await other.undo(5)
        finally:
            await other.close()
        assert (await s.run("x")).data == [1, 2, 4]
        with pytest.raises(moonpool.InputError, match="closed"):
            await other.run("x")


HEADLESS = """
import subprocess, sys, time
code = "import ctypes, os, threading, time; threading.Thread(target=time.sleep, args=[600]).start()"
code += "; ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)"
h = subprocess.Popen([sys.executable, "-c", code])
while open(f"/proc/{h.pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
    time.sleep(0.01)
"""  # a process whose first thread has ended looks like a zombie
OBSTACLES = {
    HEADLESS: "process 'python",
    "import threading; t = threading.Thread(target=e.wait, name='mine'); t.start()": "thread 'mine'",
    "p = __import__('subprocess').Popen(['sleep', '600'])": "process 'sleep'",
    "s = __import__('socket').socketpair()": "socket (descriptor",
    "q = __import__('os').pipe()": "pipe (descriptor",
}


async def test_what_no_twin_can_have_is_named_and_can_be_undone() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("import threading; e = threading.Event()")
        for code, named in OBSTACLES.items():
            (await s.run(code)).check()
            for refused in (s.fork(), s.checkpoint("now")):
                with pytest.raises(moonpool.CheckpointError) as raised:
                    await refused
                assert named in str(raised.value)
            await s.run("x = 1")
            with pytest.raises(moonpool.CheckpointError) as raised:
                await s.undo()
            assert named in str(raised.value)
            await s.undo(2)  # what the undone code started is ended with it
        assert (await s.run("len(threading.enumerate())")).data == 1
        await s.undo()


async def test_an_undo_lists_the_calls_that_stay_done() -> None:
    async with moonpool.session(
        servers={"echo": fixture_server("echo.py", trusted=True, allow=["*"])}, checkpoints=True
    ) as s:
        await s.run("x = 1")
        code = "from servers.echo import read_only, idempotent\nawait read_only()\nawait idempotent()"
        (await s.run(code)).check()
        undone = await s.undo()
        assert [(call.tool, call.may_have_changed) for call in undone.calls] == [
            ("echo.read_only", False),
            ("echo.idempotent", True),
        ]
        assert [call.tool for call in undone.cannot_be_undone] == ["echo.idempotent"]
        assert {call.run_id for call in undone.calls} == set(undone.run_ids)


@pytest.mark.parametrize("work", ["write", "checkpoint", "undo", "nothing"])
async def test_forks_that_close_during_their_work_leave_no_checkpoints(work: str) -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("x = 1")
        for number in range(40):  # more than the sandbox may keep
            fork = await s.fork()
            await fork.run("1")
            works = {
                "write": lambda fork=fork: fork.files.write("f", b"x" * 300_000),
                "checkpoint": lambda fork=fork: fork.checkpoint("one"),
                "undo": lambda fork=fork: fork.undo(),
                "nothing": lambda: asyncio.sleep(0),
            }
            working = asyncio.ensure_future(works[work]())
            await asyncio.sleep(0.001 * (number % 7))  # so that it is elsewhere each time
            await fork.close()
            await asyncio.wait({working})
            error = None if working.cancelled() else working.exception()
            assert error is None or isinstance(error, moonpool.MoonpoolError)
        await s.run("x = 2")
        await s.undo()
        assert (await s.run("x")).data == 1


async def test_a_sandbox_that_ended_unseen_is_told_once() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("x = 1")
        ended = await s.run("import os; os.closerange(4, 256)")  # what the kernel needs to go on
        if ended.error is None:  # else it was seen at once, and told there
            ended = await s.run("x")
        assert any(words in ended.error.message for words in ("starts afresh", "are lost"))
        assert (await s.run("'x' in globals()")).data is False
        with pytest.raises(moonpool.CheckpointError, match=r"its sandbox has ended|ended with the sandbox"):
            await s.undo(2)


async def test_code_that_ends_its_twins_spoils_its_own_undo_only() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("import os, signal")
        await s.run("x = 1")
        await s.run(
            "for name in os.listdir('/proc'):\n"
            "    if name.isdigit() and int(name) not in (1, os.getpid()): os.kill(int(name), signal.SIGKILL)\n"
            "x = 2"
        )
        with pytest.raises(moonpool.CheckpointError, match="ended by the code"):
            await s.undo(2)
        assert (await s.run("x")).data == 2
        await s.undo(1)


async def test_undo_waits_for_what_runs_and_is_given_up_with_its_caller() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("x = 1")
        stream = s.stream("print('on', flush=True)\nx = 2\nimport time; time.sleep(600)")
        await anext(stream)
        waiting = asyncio.ensure_future(s.undo())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        later = asyncio.ensure_future(s.undo())
        with anyio.fail_after(60):
            await stream.aclose()
            await later
            assert (await s.run("x")).data == 1


async def test_a_session_without_checkpoints_says_how_to_have_some() -> None:
    async with moonpool.session() as s:
        asked: tuple[Any, ...] = (s.undo(), s.fork(), s.checkpoint("x"))
        for one in asked:
            with pytest.raises(moonpool.InputError, match="checkpoints=True"):
                await one
