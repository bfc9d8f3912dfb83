"""What a session remembers of its executions to undo them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from moonpool.core.errors import MoonpoolError
from moonpool.engine import branches
from moonpool.engine.branches import KEPT_MAX, Branch, CheckpointError, SharedKernel
from moonpool.engine.checkpoints import SessionCheckpoints
from moonpool.engine.files.recorded_files import InputKeeper
from moonpool.pipeline.call_counters import SentCall
from moonpool.sandboxes.messages import CheckpointDone

if TYPE_CHECKING:
    from moonpool.sandboxes.base import Sandbox

pytestmark = pytest.mark.anyio


class _Sandbox:
    sandbox_id = "s"
    has_ended = False

    def memory_share(self) -> None:
        return None


@pytest.fixture
def sandbox() -> Sandbox:
    fake: Any = _Sandbox()
    return fake


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why orders are refused from now on, if they are."""
    why: list[str] = []

    async def carry_out(_: object, order_of: Any) -> CheckpointDone:
        order = order_of(1)
        return CheckpointDone(order=order.order, refused="".join(why[-1:]))

    monkeypatch.setattr(branches, "carry_out", carry_out)
    return why


async def _run(branch: Branch, sandbox: Sandbox, *numbers: int) -> None:
    for number in numbers:
        branch.ran(f"run {number}", [SentCall(f"run {number}", "server.tool", changes=True)], sandbox, told=True)
        await branch.keep(sandbox)


async def test_executions_that_cannot_be_undone_are_forgotten(sandbox: Sandbox, refused: list[str]) -> None:
    branch = Branch(SharedKernel(InputKeeper()))
    await branch.enter(sandbox)
    await _run(branch, sandbox, *range(200))
    assert len(branch._steps) <= KEPT_MAX + 2
    with pytest.raises(CheckpointError, match="of before execution 101 is not kept any more"):
        await branch.undo(sandbox, 100, None)
    undone = await branch.undo(sandbox, KEPT_MAX, None)
    assert undone.runs == tuple(f"run {number}" for number in range(200 - KEPT_MAX, 200))
    assert [call.run_id for call in undone.calls] == list(undone.runs)

    refused.append("threads run")
    without = Branch(SharedKernel(InputKeeper()))
    await without.enter(sandbox)
    await _run(without, sandbox, *range(200))
    assert len(without._steps) + len(without._refusals) <= 2 * KEPT_MAX + 2
    for n in (1, KEPT_MAX):
        with pytest.raises(CheckpointError, match="threads run"):
            await without.undo(sandbox, n, None)


async def test_what_came_after_a_named_checkpoint_is_remembered_as_long_as_it_is_kept(
    sandbox: Sandbox, refused: list[str]
) -> None:
    branch = Branch(SharedKernel(InputKeeper()))
    await branch.enter(sandbox)
    await _run(branch, sandbox, *range(100))
    named = await branch.checkpoint(sandbox, "here")
    await _run(branch, sandbox, *range(100, 150))
    undone = await branch.undo(sandbox, 1, named)
    assert undone.runs == tuple(f"run {number}" for number in range(100, 150))
    assert not refused


async def test_a_recovery_that_cannot_be_recorded_counts_its_execution_once(
    sandbox: Sandbox, refused: list[str]
) -> None:
    class Recorder:
        async def record(self, *_: object, **__: object) -> None:
            raise MoonpoolError("the journal cannot be written")

    branch, recorder, no_session = Branch(SharedKernel(InputKeeper())), Recorder(), Any
    checkpoints: SessionCheckpoints[Any] = SessionCheckpoints(no_session, branch, recorder)  # pyright: ignore[reportArgumentType]
    await branch.enter(sandbox)
    await _run(branch, sandbox, 1, 2)
    with pytest.raises(MoonpoolError, match="cannot be written"):
        await checkpoints.recover(sandbox, "run 3", [])
    branch.ran("run 3", [], sandbox, told=True)  # as its session does after an error
    await branch.keep(sandbox)
    assert (await branch.undo(sandbox, 1, None)).runs == ("run 2",)
    assert not refused
