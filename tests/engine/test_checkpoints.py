"""Checkpoints beneath the faces: what is on record, what cannot be replayed, guests that lie, limits."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import open_app
from moonpool.core.audit import JournalError
from moonpool.core.errors import InputError
from moonpool.engine import branches
from moonpool.engine.branches import CheckpointError
from moonpool.engine.checkpoint_orders import carry_out
from moonpool.engine.checkpoints import CheckpointRecorder
from moonpool.engine.code_request import CodeRequest
from moonpool.sandboxes.fake import FakeSandbox
from moonpool.sandboxes.messages import CheckpointDone, RestoreCheckpoint
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.engine.sessions import Session
    from moonpool.sandboxes.fake import FakeGuest

pytestmark = pytest.mark.anyio


REACH = """
import os, signal
refused = []
for what in ("mem", "fd"):
    try:
        os.listdir("/proc/1/fd") if what == "fd" else open("/proc/1/mem", "rb")
    except PermissionError:
        refused.append(what)
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1):
    os.kill(1, number)
try:
    os.readlink("/proc/1/exe"); reached = ""
except OSError as error:
    reached = type(error).__name__
[os.getpid() == 1, refused, reached]
"""


async def ran(session: Session, code: str) -> Envelope:
    envelope = await session.execute(CodeRequest(code=code.encode()))
    assert envelope.error is None, envelope.error
    return envelope


async def test_undo_and_fork_are_on_record_and_the_last_executions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "KEPT_MAX", 4)
    monkeypatch.setattr(branches, "NAMED_MAX", 2)
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant, checkpoints=True)
        first = await ran(session, "x = 0")
        for number in range(7):
            await ran(session, f"x = {number + 1}")
        last = session.checkpoints.kept[-1]
        with pytest.raises(CheckpointError, match="go back less far"):
            await session.checkpoints.undo(5)
        undone = await session.checkpoints.undo(4)
        assert last not in session.checkpoints.kept
        assert (await ran(session, "x")).data == 3
        fork = await session.checkpoints.fork()
        assert (await ran(fork, "x")).data == 3
        for number in range(2):
            await session.checkpoints.take(f"name {number}")
        with pytest.raises(CheckpointError, match="named checkpoints are kept already"):
            await session.checkpoints.take("one more")
        for name in ("x" * 201, "a\nb"):
            with pytest.raises(InputError):
                await session.checkpoints.take(name)
        await fork.close()
        await session.close()
        rows = await asyncio.to_thread(list, read_rows(journal_path(app.data)))
    told = [row.to_json() for row in rows if row.kind == "checkpoint"]
    own = [one for one in told if one["session_id"] == session.session_id]
    assert [(one["action"], one["error_type"]) for one in own] == [
        ("undone", "checkpoint_failed"),
        ("undone", ""),
        ("forked", ""),
    ]
    assert own[1]["undone"] == list(undone.runs)
    assert first.run_id not in undone.runs
    assert own[2]["forked_session"] == fork.session_id


async def test_a_fork_that_is_not_recorded_ends_also_when_its_session_was_closed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_app() as app, asyncio.timeout(60):
        session = app.runtime.session(app.caller_grant, checkpoints=True)
        await ran(session, "x = 3")

        closing: list[asyncio.Future[None]] = []

        async def close_and_fail(*_: object, **_more: object) -> None:
            closing.append(asyncio.ensure_future(session.close()))
            await asyncio.sleep(0)
            raise JournalError("no room")

        monkeypatch.setattr(CheckpointRecorder, "record", close_and_fail)
        with pytest.raises(JournalError):
            await session.checkpoints.fork()
        await closing[0]
        assert app.runtime.statistics().alive == 0


@pytest.mark.parametrize("backend", ["zygote", "bubblewrap"])
async def test_the_first_process_is_out_of_reach_and_passes_interrupts_on(backend: str) -> None:
    async with open_app(backend=backend) as app:
        session = app.runtime.session(app.caller_grant, checkpoints=True)
        told = await ran(session, REACH)
        assert told.data == [False, ["mem", "fd"], "PermissionError"]
        late = await session.execute(CodeRequest(code=b"y = 1\nwhile True: pass", timeout_s=0.2))
        assert late.error is not None
        assert late.error.type == "Timeout"
        assert (await ran(session, "y")).data == 1
        await session.checkpoints.undo(2)
        last = await ran(session, "'y' in globals()")
        assert last.data is False
        ended = await session.execute(CodeRequest(code=b"import os, signal; os.kill(os.getpid(), signal.SIGTERM)"))
        assert (ended.extras["signal"], ended.extras["exit_code"]) == ("SIGTERM", 143)
        assert session.last_recovery is not None
        assert session.last_recovery[0] == ended.run_id
        assert (await session.checkpoints.undo(1)).runs == (last.run_id,)
        await session.close()
        rows = await asyncio.to_thread(list, read_rows(journal_path(app.data)))
    told = [row.to_json() for row in rows if row.kind == "checkpoint"]
    recovered = [one["undone"] for one in told if one["action"] == "recovered" and ended.run_id in one["undone"]]
    assert recovered == [[ended.run_id]]


FORGED = """
import os, sys, time
memory, mark = open("/proc/self/mem", "rb", 0), None
for line in open("/proc/self/maps"):
    where, rights = line.split()[:2]
    if rights.startswith("rw") and mark is None:
        start, end = (int(one, 16) for one in where.split("-"))
        memory.seek(start)
        found = memory.read(end - start)
        at = found.find(b'"tok' + b'en":"')
        if at >= 0:
            mark = bytes([1, 1, 0x40, 4]) + bytes.fromhex(found[at + 9 : at + 73].decode())
assert mark, "this test needs the token, which was in the first order of this process"
head = b'{"t":"kernel_ended","status":3}'
os.write(3, mark + (1 << 24 | len(head) + 2).to_bytes(4, "big") + len(head).to_bytes(2, "big") + head)
time.sleep(600)
"""


async def test_code_that_says_its_kernel_ended_spoils_its_own_session_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moonpool.engine.checkpoint_orders.ANSWER_S", 1)
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant, checkpoints=True)
        with anyio.fail_after(60):
            told = await session.execute(CodeRequest(code=FORGED.encode()))
        assert told.error is not None
        assert told.error.type == "KernelExited", told.error
        assert "checkpoints and branches of this session are lost" in told.error.message
        assert (await ran(session, "'mark' in globals()")).data is False
        await session.close()


KILLED_WHEN_IDLE = """
import os
kernel = os.getpid()
if not os.fork():
    while open(f"/proc/{kernel}/stat").read().split()[2] != "S":
        pass
    os.kill(kernel, 9)
    os._exit(0)
"""


async def test_a_kernel_that_dies_while_no_code_runs_ends_its_sandbox() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant, checkpoints=True)
        await ran(session, KILLED_WHEN_IDLE)
        with anyio.fail_after(60), suppress(CheckpointError):  # if it has ended already
            async with session.in_use() as sandbox:
                await sandbox.wait_exited()
        told = await session.execute(CodeRequest(code=b"x"))
        assert told.error is not None
        assert "its sandbox has ended, and with it variables, files and checkpoints" in told.error.message
        assert (await ran(session, "'kernel' in globals()")).data is False
        await session.close()


async def answered(*answers: dict[str, object]) -> tuple[CheckpointDone, bool]:
    """What the host makes of a guest that says this, and whether the sandbox has ended."""

    async def guest_script(guest: FakeGuest) -> None:
        order, _ = await guest.receive()
        assert isinstance(order, RestoreCheckpoint)
        for said in answers:
            guest.send_raw(json.dumps({"t": "checkpoint_done", "order": order.order, **said}).encode())
        await guest.pause()

    sandbox = FakeSandbox(guest_script)
    done = await carry_out(sandbox, lambda order: RestoreCheckpoint(order=order, number=1))
    ended = sandbox.has_ended
    await sandbox.close()
    return done, ended


async def test_what_a_guest_says_of_checkpoints_is_bounded_and_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moonpool.engine.checkpoint_orders.ANSWER_S", 0.05)
    honest, ended = await answered({"refused": "no\x1b[31m room" + "x" * 5000, "full": True})
    assert (honest.full, ended) == (True, False)
    assert "\x1b" not in honest.refused
    assert len(honest.refused) < 500
    lies: tuple[dict[str, object], ...] = (
        {"order": 2**40},
        {"refused": 7},
        {"refused": "x" * 9000},
        {"full": "yes"},
        {"lost": "x" * 9000},
    )
    for said in ((), *((lie,) for lie in lies)):
        done, ended = await answered(*said)
        assert ended, said
        assert "the sandbox ended" in done.refused
