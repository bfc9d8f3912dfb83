"""What happened to an execution's tool calls so far: read for its envelope and its end record.

The only part of an execution's `CallContext` that changes. Used on one event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import ApprovalState
from moonpool.pipeline.refused_calls import RefusedCalls

if TYPE_CHECKING:
    from moonpool.core.calls import CallErrorType

TASK_IDS_MAX: Final = 16
"""Tasks that one envelope names; each call's own is in the journal."""
_SEVERITY: Final = (
    ApprovalState.NOT_REQUIRED,
    ApprovalState.APPROVED,
    ApprovalState.EXPIRED,
    ApprovalState.REJECTED,
    ApprovalState.PENDING,
)


@dataclass(slots=True, kw_only=True)
class CallCounters:
    """The counts of one execution."""

    calls: int = 0  # that entered the pipeline
    refused: int = 0  # that did not: after the end, above `calls_max`, unreadable, too many at once
    refusals: RefusedCalls = field(default_factory=RefusedCalls)  # all that were refused before approval
    examples: int = 0  # that refusals have shown
    unknown: int = 0  # calls of tools that are not in the manifest, or with arguments that do not fit
    redactions: int = 0
    changing: int = 0  # calls that were sent and may have changed something
    failed: int = 0  # calls that gave an error
    result_bytes: int = 0
    settled: ApprovalState = ApprovalState.NOT_REQUIRED
    pending: int = 0  # approvals that wait for an answer now
    task_ids: list[str] = field(default_factory=list[str])  # of calls that servers carried out as tasks; the first few
    low_budgets: list[str] = field(default_factory=list[str])  # that calls of this execution took to 80 %
    ended: bool = False  # later calls are refused

    @property
    def approval_state(self) -> ApprovalState:
        """The execution's state for its envelope: PENDING while a question is open, else the gravest answer (H-034)."""
        return ApprovalState.PENDING if self.pending else self.settled

    def settle(self, state: ApprovalState) -> None:
        """A question about a call was answered."""
        self.settled = max(self.settled, state, key=_SEVERITY.index)

    def note_task(self, task_id: str) -> None:
        """A server carried a call out as this task (H-069)."""
        if len(self.task_ids) < TASK_IDS_MAX:
            self.task_ids.append(task_id)

    def turn_away(self, kind: CallErrorType) -> None:
        """A call was refused before it entered the pipeline."""
        self.refused += 1
        self.refusals.count(kind)
