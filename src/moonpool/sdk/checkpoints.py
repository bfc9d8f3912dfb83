"""Going back in a session, as applications see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moonpool.engine import branches
    from moonpool.engine.branches import Checkpoint
    from moonpool.pipeline.call_counters import SentCall


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneCall:
    """A tool call of an execution that was undone. What it did at its server stays done."""

    tool: str  # server.tool
    run_id: str  # of the execution
    may_have_changed: bool  # as its server or the policy describes the tool; of most servers that is all that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What an undo came to: variables and `/workspace` are as they were at `checkpoint`."""

    checkpoint: Checkpoint  # whose state this is
    run_ids: tuple[str, ...]  # the executions that were undone, the oldest first
    calls: tuple[UndoneCall, ...]  # that reached a server
    lost_files: str = ""  # names of files that could not be put back, and why

    @property
    def cannot_be_undone(self) -> tuple[UndoneCall, ...]:
        """The calls that may have changed something outside."""
        return tuple(call for call in self.calls if call.may_have_changed)


def undone_of(undone: branches.Undone) -> Undone:
    """What the engine says, for applications."""

    def told(call: SentCall) -> UndoneCall:
        return UndoneCall(tool=call.tool, run_id=call.run_id, may_have_changed=call.changes)

    calls = tuple(told(call) for call in undone.calls)
    return Undone(checkpoint=undone.checkpoint, run_ids=undone.runs, calls=calls, lost_files=undone.lost)
