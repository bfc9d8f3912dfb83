"""What is left when sessions end in every way: nothing that runs, nothing that waits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import moonpool
from apps import DATA, fixture_server
from moonpool.sdk.hosted_session import HostedSession
from moonpool.sdk.hosted_stream import HostedStream
from moonpool.sdk.options import SessionOptions
from moonpool.sdk.runtime_thread import RuntimeThread
from process_tree import alive, descendants_of
from waiting import until, wait_until

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


async def test_a_run_is_cancelled_while_its_checkpoint_is_made() -> None:
    async with moonpool.session(checkpoints=True) as s:
        await s.run("import time; held = bytearray(64_000_000)")
        for number in range(12):
            await s.run("1")  # its checkpoint is made by the next execution, where that comes at once
            run = asyncio.ensure_future(s.run("while True: time.sleep(0.05)", timeout=600))
            for _ in range(number):
                await asyncio.sleep(0.001)  # so that it is elsewhere each time
            run.cancel()
            with anyio.fail_after(60):
                await asyncio.wait({run})
            assert run.cancelled()


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_what_waits_when_a_session_closes_does_not_run(ending: str) -> None:
    async with moonpool.session() as other, moonpool.session(checkpoints=True) as s:
        await other.run("1")
        before = descendants_of(os.getpid())
        events = s.stream("print('on', flush=True)\nwhile True: __import__('time').sleep(0.05)", timeout=600)
        await anext(events)
        waiting = {
            name: asyncio.ensure_future(work)
            for name, work in {
                "undo": s.undo(),
                "checkpoint": s.checkpoint("one"),
                "write": s.files.write("f", b"1"),
                "read": s.files.read("f"),
                "fork": s.fork(),
                "run": s.run("open('/workspace/ran', 'w')"),
            }.items()
        }
        await asyncio.sleep(0)  # all are asked for
        with anyio.fail_after(60):
            await (s.close() if ending == "close" else s.reset())
            await asyncio.wait(waiting.values())
        assert waiting.pop("run").result().error.type == "Cancelled"
        for work in waiting.values():
            assert isinstance(work.exception(), moonpool.InputError), work
        await s.close()
        await until(lambda: descendants_of(os.getpid()) <= before)


@pytest.mark.parametrize("scope", ["task", "anyio"])
async def test_a_close_that_is_cancelled_closes_all_the_same(scope: str) -> None:
    async with moonpool.session() as other:
        await other.run("1")
        before = descendants_of(os.getpid())
        for _ in range(4):
            if scope == "anyio":  # it cancels at every await
                with anyio.CancelScope() as cancelled:
                    async with moonpool.session() as s:
                        await s.run("1")
                        cancelled.cancel()
            else:
                s = moonpool.session()
                await s.run("1")
                closing = asyncio.ensure_future(s.close())
                await asyncio.sleep(0)
                closing.cancel()
                await asyncio.wait({closing})
        await until(lambda: descendants_of(os.getpid()) <= before)


async def test_a_stream_that_is_left_in_a_scope_that_ends_runs_no_further() -> None:
    async with moonpool.session() as s:
        code = "print('on', flush=True)\nwhile True: __import__('time').sleep(0.05)"
        for _ in range(4):
            with anyio.CancelScope() as cancelled:
                async with s.stream(code, timeout=600) as events:
                    await anext(events)
                    cancelled.cancel()
            with anyio.fail_after(60):
                assert (await s.run("1")).ok


STOPPED = """
import os, signal, time
kernel = os.getpid()
if not os.fork():
    while True:
        try:
            os.kill(kernel, signal.SIGSTOP)
        except OSError:
            os._exit(0)
        time.sleep(0.0005)
"""


async def test_a_kernel_that_its_code_keeps_stopped_holds_up_no_close() -> None:
    s = moonpool.session(checkpoints=True)
    await s.run("1")
    await s.run(STOPPED, timeout=2)
    with anyio.fail_after(20):  # what a kernel is asked is waited for longer
        await s.close()


async def test_a_fork_whose_caller_has_gone_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    original, waits = HostedSession.fork, threading.Event()
    forked: list[HostedSession] = []

    async def fork(hosted: HostedSession, made: list[HostedSession]) -> None:
        await original(hosted, made)
        forked.extend(made)
        waits.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    monkeypatch.setattr(HostedSession, "fork", fork)
    async with moonpool.session(checkpoints=True) as s:
        with anyio.fail_after(60):
            forking = asyncio.ensure_future(s.fork())
            await asyncio.to_thread(waits.wait)
            forking.cancel()
            await asyncio.wait({forking})
        assert forking.cancelled()
        assert forked[0].close not in forked[0].thread.closers


def sandboxes_beside(s: moonpool.Session) -> int:
    """Those of other sessions that share the engine of this one, which has none."""
    assert s._handle._reached is not None
    opened = s._handle._reached[1]._opened
    assert opened is not None
    return opened.tenant.runtime.statistics().alive


async def test_closing_during_a_reset_leaves_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    s = moonpool.session(files={"a": "x"})  # which the new kernel would get
    inside, closed = threading.Event(), threading.Event()

    def folders(*_: object) -> None:
        inside.set()
        closed.wait(60)

    async with moonpool.session() as other, asyncio.timeout(60):
        await s.start()
        monkeypatch.setattr(SessionOptions, "folders", folders)
        resetting = asyncio.ensure_future(s.reset())
        await asyncio.to_thread(inside.wait)
        await s.close()
        closed.set()
        with pytest.raises(moonpool.InputError, match="this session is closed"):
            await resetting
        assert sandboxes_beside(other) == 0


async def test_closing_ends_a_fork_that_waits() -> None:
    s = moonpool.session(checkpoints=True)
    await s.start()
    thread = RuntimeThread.join()  # lasts longer than the session
    try:
        before = thread.users, len(thread.closers)
        async with s.stream("print('on', flush=True)\nimport time; time.sleep(600)") as stream:
            await anext(stream)
            forking = asyncio.ensure_future(s.fork())
            await asyncio.sleep(0)
            with anyio.fail_after(60):
                await s.close()
                with pytest.raises(moonpool.InputError, match="this session is closed"):
                    await forking
        assert (thread.users, len(thread.closers)) == (before[0] - 1, before[1] - 1)
    finally:
        thread.leave()


async def test_a_session_is_used_from_two_loops_and_from_a_thread() -> None:
    async with moonpool.session() as s:
        await s.run("x = 1")

        def elsewhere() -> object:
            async def use() -> object:
                return (await s.run("x += 1; x")).data

            return asyncio.run(use())

        assert await asyncio.to_thread(elsewhere) == 2
        theirs, ours = await asyncio.gather(asyncio.to_thread(elsewhere), s.run("x += 1; x"))  # at the same time
        assert sorted([theirs, ours.data]) == [3, 4]  # pyright: ignore[reportArgumentType]


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


async def test_a_cancelled_read_ends_the_stream() -> None:
    async with moonpool.session() as s:
        stream = s.stream("x = 1\nprint('on', flush=True)\nimport time; time.sleep(600)")
        await anext(stream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(stream)
        with anyio.fail_after(60):
            assert (await s.run("x")).data == 1


async def test_closing_a_stream_that_begins_ends_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    original, inside, go = HostedSession.stream, threading.Event(), threading.Event()

    async def slow(hosted: HostedSession, *given: Any, **options: Any) -> HostedStream:
        inside.set()
        await asyncio.to_thread(go.wait, 60)
        return await original(hosted, *given, **options)

    async with moonpool.session() as s, asyncio.timeout(60):
        with monkeypatch.context() as patch:
            patch.setattr(HostedSession, "stream", slow)
            stream = s.stream("x = 1\nprint('on', flush=True)\nimport time; time.sleep(600)")
            reading = asyncio.ensure_future(anext(stream, None))
            await asyncio.to_thread(inside.wait)
            closing = asyncio.ensure_future(stream.aclose())
            await asyncio.sleep(0)
            go.set()
            await closing
            assert await reading is None
            assert await anext(stream, None) is None
        assert (await s.run("'time' in globals()")).data is False


async def test_a_stream_whose_session_was_closed_says_so_and_can_be_closed() -> None:
    s = moonpool.session()
    async with s.stream("print('on', flush=True)\nimport time; time.sleep(600)") as stream:
        await anext(stream)
        await s.close()  # the last of its thread
        with pytest.raises(moonpool.InputError, match="session was closed before this stream was read to its end"):
            await anext(stream)


async def test_cancelling_one_start_leaves_the_session_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go = threading.Event(), threading.Event()

    def folders(*_: object) -> None:
        inside.set()
        go.wait(60)

    monkeypatch.setattr(SessionOptions, "folders", folders)
    s = moonpool.session()
    async with asyncio.timeout(60):
        starting, running = asyncio.ensure_future(s.start()), asyncio.ensure_future(s.run("6 * 7"))
        await asyncio.to_thread(inside.wait)
        starting.cancel()
        await asyncio.wait([starting])
        go.set()
        assert (await running).data == 42
        await s.close()


async def test_a_start_that_nobody_else_waits_for_leaves_nothing_when_it_is_cancelled() -> None:
    s = moonpool.session()
    thread = RuntimeThread.join()
    try:
        before = thread.users
        starting = asyncio.ensure_future(s.start())
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert thread.users == before
        async with s:  # it may be tried again
            assert (await s.run("6 * 7")).data == 42
    finally:
        thread.leave()


def test_a_function_answers_in_the_loop_of_its_execution() -> None:
    async def approve(_: moonpool.ApprovalRequest) -> bool:
        loops.append(asyncio.get_running_loop())
        return True

    async def call() -> object:
        loops.append(asyncio.get_running_loop())
        return (await s.run(CALL)).data

    loops: list[object] = []
    s = moonpool.session(servers=ECHO, approve=approve)
    assert [asyncio.run(call()), asyncio.run(call())] == ["hi", "hi"]
    assert (loops[0], loops[2]) == (loops[1], loops[3])
    asyncio.run(s.close())


def test_functions_that_never_answer_hold_up_no_end() -> None:
    asked = threading.Semaphore(0)
    release = threading.Event()
    returned: list[object] = []

    def approve(_: object) -> bool:
        asked.release()
        returned.append(release.wait(20))
        return True

    def interrupt() -> None:
        for _ in range(8):
            asked.acquire()
        s.interrupt()

    calls = "import asyncio\nfrom servers.echo import text\nawait asyncio.gather(*(text(text='a') for _ in range(8)))"
    with moonpool.sync.session(servers=ECHO, approve=approve) as s:
        threading.Thread(target=interrupt, daemon=True).start()
        assert s.run(calls).error.type == "Cancelled"  # pyright: ignore[reportOptionalMemberAccess]
    assert not returned
    release.set()


def test_a_function_that_ends_its_thread_refuses_the_call() -> None:
    with moonpool.sync.session(servers=ECHO, approve=lambda _: sys.exit(1)) as s:
        assert "failed (SystemExit)" in s.run(CALL).check().data  # pyright: ignore[reportOperatorIssue]
        assert s.run("1").data == 1


async def test_a_session_reads_the_policy_as_its_file_is_then(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    said: list[object] = []
    async with AsyncExitStack() as stack:  # the first is open still when the second is opened
        for verdict in ("allow", "deny"):
            policy.write_text(f'version = 1\n[[rule]]\nid = "r"\nverdict = "{verdict}"\n', encoding="utf-8")
            servers = {"echo": fixture_server("echo.py", allow=["*"])}
            s = await stack.enter_async_context(moonpool.session(servers=servers, policy=policy))
            said.append((await s.run(CALL)).data)
    assert said[0] == "hi"
    assert "policy" in str(said[1])


def test_a_session_that_nothing_refers_to_ends() -> None:
    before = descendants_of(os.getpid())
    s = moonpool.sync.session(servers=ECHO, approve=lambda _: True)
    assert s.run(CALL).data == "hi"
    servers = {pid for pid in descendants_of(os.getpid()) - before if b"echo.py" in _command(pid)}
    assert servers
    with pytest.warns(ResourceWarning, match="not closed"):
        del s
    wait_until(lambda: not alive(servers), within_s=60)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.req("P-007", "G-043")
@pytest.mark.parametrize("end", ["forgotten", "interrupted", "killed"])
def test_a_process_leaves_nothing_behind(end: str, tmp_path: Path) -> None:
    code = "import moonpool, os\ns = moonpool.sync.session()\nprint(s.run('6*7').data, flush=True)\n" + (
        "if not os.fork():\n    s.close(); os._exit(0)\nassert os.wait()[1] == 0  # a child leaves it alone"
        if end == "forgotten"
        else "s.run('import time; time.sleep(600)')\n"
    )
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(DATA)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"42\n"
        children = descendants_of(process.pid)
        if end == "interrupted":
            process.send_signal(signal.SIGINT)
        elif end == "killed":
            process.kill()
        assert (process.wait(60) == 0) == (end == "forgotten")
        complaint = process.stderr.read().strip().split(b"\n")[-1]
        assert complaint == (b"KeyboardInterrupt" if end == "interrupted" else b"")
    wait_until(lambda: not alive(children), within_s=60)


@pytest.mark.slow
@pytest.mark.req("I-008")
def test_a_session_needs_no_network(tmp_path: Path) -> None:
    own_network = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--net"]
    code = f"""
import moonpool
with moonpool.sync.session(servers={ECHO!r}, approve=lambda _: True) as s:
    print(s.run({CALL!r}).check().data)
"""
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(DATA)}
    ended = subprocess.run(
        [*own_network, sys.executable, "-c", code],
        capture_output=True, check=False, cwd=tmp_path, encoding="utf-8", env=environ, timeout=90,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "hi\n", "")
