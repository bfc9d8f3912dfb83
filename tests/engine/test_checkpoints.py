"""Checkpoints beneath the faces: what is on record, what cannot be replayed, guests that lie, limits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from moonpool.engine.branches import KEPT_MAX, NAMED_MAX, CheckpointError
from moonpool.engine.checkpoint_orders import carry_out

from apps import open_app
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.fake import FakeBackend, FakeGuest
from moonpool.sandboxes.messages import CheckpointDone, Ready, RestoreCheckpoint
from moonpool.store.journal_file import read_rows
from moonpool.store.paths import journal_path
from sandboxes.images import IMAGE

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.engine.sessions import Session

pytestmark = pytest.mark.anyio


async def ran(session: Session, code: str) -> Envelope:
    envelope = await session.execute(CodeRequest(code=code.encode()))
    assert envelope.error is None, envelope.error
    return envelope


async def test_undo_and_fork_are_on_record_and_twenty_executions_are_kept() -> None:
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant, checkpoints=True)
        first = await ran(session, "x = 0")
        for number in range(KEPT_MAX + 3):
            await ran(session, f"x = {number + 1}")
        last = session.checkpoints.kept[-1]
        with pytest.raises(CheckpointError, match="go back less far"):
            await session.checkpoints.undo(KEPT_MAX + 4)
        undone = await session.checkpoints.undo(KEPT_MAX - 1)
        assert last not in session.checkpoints.kept
        assert (await ran(session, "x")).data == 4
        fork = await session.checkpoints.fork()
        assert (await ran(fork, "x")).data == 4
        for number in range(NAMED_MAX):
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


class Lying:
    """A guest whose kernel answers orders about checkpoints as a test wants."""

    def __init__(self, *answers: CheckpointDone | bytes) -> None:
        self._answers = answers

    async def __call__(self, guest: FakeGuest) -> None:
        guest.send(Ready(protocol=1, pid=1, language="python", version="3"))
        await guest.receive()
        for answer in self._answers:
            if isinstance(answer, bytes):
                guest.send_raw(answer)
            else:
                guest.send(answer)
        await guest.pause()


async def answered(*answers: Any) -> tuple[CheckpointDone, bool]:
    backend = FakeBackend(Lying(*answers))
    sandbox = await backend.open_sandbox(SandboxSpec(image=IMAGE))

    def order_of(order: int) -> RestoreCheckpoint:
        own.append(order)
        return RestoreCheckpoint(order=order, number=1)

    own: list[int] = []
    done = await carry_out(sandbox, order_of)
    ended = sandbox.has_ended
    await backend.close()
    return done, ended
