"""Checkpoints beneath the faces: what is on record, what cannot be replayed, guests that lie, limits."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from apps import open_app
from moonpool.core.errors import InputError
from moonpool.engine import branches
from moonpool.engine.branches import CheckpointError
from moonpool.engine.checkpoint_orders import carry_out
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
            await session.checkpoints.undo(8)
        undone = await session.checkpoints.undo(3)
        assert last not in session.checkpoints.kept
        assert (await ran(session, "x")).data == 4
        fork = await session.checkpoints.fork()
        assert (await ran(fork, "x")).data == 4
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
        assert (await ran(session, "'y' in globals()")).data is False
        ended = await session.execute(CodeRequest(code=b"import os, signal; os.kill(os.getpid(), signal.SIGTERM)"))
        assert (ended.extras["signal"], ended.extras["exit_code"]) == ("SIGTERM", 143)
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
