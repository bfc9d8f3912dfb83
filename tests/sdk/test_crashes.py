"""What is left of a session when its code's process dies, and what its caller is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import moonpool
from apps import fixture_server

if TYPE_CHECKING:
    from sdk.faces import Face

pytestmark = pytest.mark.anyio

ECHO = fixture_server("echo.py", trusted=True, allow=["*"])
STATE = "import os; [x, open('f').read(), os.path.exists('new')]"
CRASHES = {
    "os._exit(3)": ("KernelExited", 3),
    "os.kill(os.getpid(), signal.SIGKILL)": ("KernelKilled", 137),
    "import ctypes; ctypes.string_at(0)": ("KernelKilled", 139),
    "subprocess.Popen(['sleep', '600']); os.abort()": ("KernelKilled", 134),
    # in the middle of a frame of each kind, and of none
    "os.write(3, b'\\x01\\0'); os._exit(3)": ("KernelExited", 3),
    "os.write(3, b'\\x01\\0\\x40\\0' + b'{' * 5000); os._exit(3)": ("KernelExited", 3),
    "os.write(3, b'\\x02\\0\\0\\x2e' + struct.pack('>IQ', 9, 10**6) + bytes(32) + b'{}'); os._exit(3)": (
        "KernelExited",
        3,
    ),
}


async def test_a_session_goes_on_from_its_newest_checkpoint(face: Face) -> None:
    async with face.session(checkpoints=True) as s:
        died = await s.run("x = 0; print('said', flush=True); import os; os._exit(3)")
        assert (died.stdout, died.recovered.checkpoint.execution) == ("said\n", 0)
        (await s.run("x = 1; open('f', 'w').write('one')")).check()
        for code, (kind, status) in CRASHES.items():
            changed = "import os, signal, struct, subprocess; x = 2; open('f', 'w').write('TWO'); open('new', 'w')"
            died = await s.run(f"{changed}\n{code}")
            assert (died.error.type, died.exit_code) == (kind, status), (code, died.error)
            assert died.error.message.endswith("; variables and files are back as they were before this execution")
            assert died.recovered.run_ids == (died.run_id,)
            assert (await s.run(STATE)).check().data == [1, "one", False], code
        before = (await s.run("x = 5")).check()
        await s.undo()
        assert (await s.run("x")).data == 1
        assert before.recovered is None


@pytest.mark.slow
async def test_a_session_with_ipython_and_its_packages_goes_on_too() -> None:
    async with moonpool.session(checkpoints=True, environment="data") as s:
        await s.run("import pandas; x = pandas.Series([1])")
        assert (await s.run("import os; x[0] = 2; os._exit(3)")).recovered
        assert (await s.run("int(x.sum())")).check().data == 1


ENDINGS = {
    "1": ("", "kept"),
    "1 / 0": ("code", "kept"),
    "class Timeout(Exception): pass\nraise Timeout('the variables of this session are lost')": ("code", "kept"),
    "class OutputTooLarge(Exception): pass\nraise OutputTooLarge": ("code", "kept"),
    "result = object()": ("result", "kept"),
    "result = 'x' * 1_000_000": ("result", "kept"),
    "while True: pass": ("moonpool", "kept"),
    "import os; os._exit(3)": ("moonpool", "lost"),
}


async def test_a_result_says_what_failed_it_and_what_is_left(face: Face) -> None:
    async with face.session() as s:
        for code, expected in ENDINGS.items():
            ended = await s.run(code, timeout=0.5 if "while" in code else None)
            assert (ended.failed_by, ended.state) == expected, (code, ended.error)
    async with face.session(checkpoints=True) as s:
        ended = await s.run("import os; os._exit(3)")
        assert (ended.failed_by, ended.state) == ("moonpool", "recovered")


async def test_calls_since_the_checkpoint_stay_done_and_answers_on_their_way_reach_nobody() -> None:
    code = """
from servers.echo import idempotent, read_only, text
import asyncio, os
await read_only()
await idempotent()
waiting = [asyncio.ensure_future(text(text="x" * 60_000)) for _ in range(40)]
done = await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
os._exit(3)
"""
    async with moonpool.session(servers={"echo": ECHO}, checkpoints=True) as s:
        await s.run("x = 1")
        died = await s.run(code)
        assert died.recovered
        assert [call.tool for call in died.recovered.calls][:2] == ["echo.read_only", "echo.idempotent"]
        assert {call.run_id for call in died.recovered.calls} == {died.run_id}
        assert "tool calls made since stay done, and " in died.error.message
        assert "of them may have changed something: echo.idempotent" in died.error.message
        after = await s.run("from servers.echo import text\n[x, len(await text(text='y' * 70_000))]")
        assert after.check().data == [1, 70_000]


async def test_an_execution_without_a_checkpoint_of_its_own_takes_those_before_it_back() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("x = 1")
        held = (await s.run("import socket; x = 2; pair = socket.socketpair()")).check()
        late = (await s.run("x = 3")).check()
        died = await s.run("import os; os._exit(3)")
        assert died.recovered.run_ids == (held.run_id, late.run_id, died.run_id)
        assert died.error.message.endswith("as they were before this execution and the 2 before it")
        assert (await s.run("x")).data == 1


async def test_a_process_from_before_a_crash_takes_large_messages() -> None:
    """It knows the numbers of those that it heard, so those of the host go on over the crash."""
    large = f"x = {'a' * 300_000!r}\nlen(x)"
    async with moonpool.session(checkpoints=True) as s:
        assert (await s.run(large)).data == 300_000
        kept = await s.checkpoint("kept")
        assert (await s.run("import os; os._exit(3)")).recovered
        await s.undo(to=kept)
        for _ in range(2):
            assert (await s.run(large)).check().data == 300_000


async def test_branches_outlive_a_crash_of_one_of_them() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("x = 1")
        async with await s.fork() as other:
            assert (await other.run("x = 2; x")).data == 2
            await s.run("x = 3")
            assert (await s.run("import os; os._exit(3)")).recovered
            assert [(await one.run("x")).data for one in (s, other, s)] == [3, 2, 3]


async def test_what_ends_the_whole_sandbox_is_said_to() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("x = 1")
        kept = s.checkpoints[0]
        async with await s.fork() as other:
            lie = b'{"t":"kernel_ended","status":3}'
            frame = (1 << 24 | len(lie) + 2).to_bytes(4, "big") + len(lie).to_bytes(2, "big") + lie
            died = await s.run(f"import os, time; os.write(3, {frame!r}); time.sleep(600)")
            assert died.error.type == "ProtocolViolation"
            assert died.error.message.endswith("variables, files, checkpoints and branches of this session are lost")
            assert died.recovered is None
            with pytest.raises(moonpool.CheckpointError, match="has ended, and its checkpoints with it"):
                await s.undo()
            assert (await s.run("'x' in globals()")).data is False  # afresh, as it was said
            with pytest.raises(moonpool.CheckpointError, match="ended with the sandbox in execution 2"):
                await s.undo(to=kept)
            lost = await other.run("x")
            assert "the state of this session is lost" in lost.error.message
            await other.reset()
            assert (await other.run("1")).data == 1


async def test_code_that_ended_its_twins_is_put_back_to_its_beginning_which_is_no_process_of_its_own() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("import os, signal; x = 1")
        died = await s.run(
            "for name in os.listdir('/proc'):\n"
            "    if name.isdigit() and int(name) not in (1, os.getpid()): os.kill(int(name), signal.SIGKILL)\n"
            "os._exit(3)"
        )
        assert died.recovered.checkpoint.execution == 0
        assert (await s.run("'x' in globals()")).data is False
