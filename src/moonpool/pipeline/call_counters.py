"""What happened to an execution's tool calls so far: read for its envelope and its end record.

The only part of an execution's `CallContext` that changes. Used on one event loop.

Refused calls of one execution: the first have a record of their own, all others are counted by kind.

A refused call costs the code nothing and a record costs a kilobyte, so a loop of them would fill the disk and keep the
journal from its neighbours. Only calls that the broker refused by itself are counted: nobody was asked, no server was
called, nothing was answered.

INVARIANT: no refusal is neither recorded nor counted. What is counted is put on record after each
`COUNTED_PER_RECORD` of them and before the end of the execution (`engine.run_records`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import ApprovalState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.calls import CallErrorType

OWN_RECORDS_MAX: Final = 100
"""Refused calls of one execution that have a record of their own."""

COUNTED_PER_RECORD: Final = 1000
"""So many may be counted and not yet on record, should the process be killed."""


class RefusedCalls:
    """The account of one execution."""

    def __init__(self) -> None:
        self._own = 0
        self._counted: dict[str, int] = {}
        self._told = set[tuple[str, str]]()

    def is_news(self, tool: str, rule_id: str) -> bool:
        """Whether the operator has not been told yet that this rule refuses this tool, one that there is."""
        known = (tool, rule_id) in self._told
        self._told.add((tool, rule_id))
        return not known

    def has_own_record(self) -> bool:
        """Whether the call that is refused now gets a record of its own; else `count` it."""
        self._own += 1
        return self._own <= OWN_RECORDS_MAX

    def count(self, error_type: str, tool: str = "") -> None:
        """Count one. `tool` is empty when there is no such tool: names that a guest makes up would have no end."""
        name = f"{error_type} {tool}".rstrip()
        self._counted[name] = self._counted.get(name, 0) + 1

    @property
    def is_due(self) -> bool:
        """Whether so many are counted that they are to be put on record now."""
        return sum(self._counted.values()) >= COUNTED_PER_RECORD

    @property
    def is_open(self) -> bool:
        """Whether anything is counted that is not on record yet."""
        return bool(self._counted)

    def take(self) -> Mapping[str, int]:
        """What is counted and not on record yet; from now on it is."""
        counted, self._counted = self._counted, {}
        return dict(sorted(counted.items()))


TASK_IDS_MAX: Final = 16
"""Tasks that one envelope names; each call's own is in the journal."""
SENT_CALLS_MAX: Final = 1000
"""Calls of one execution that are named where it is undone; those that may have changed something are all named."""
_SEVERITY: Final = (
    ApprovalState.NOT_REQUIRED,
    ApprovalState.APPROVED,
    ApprovalState.EXPIRED,
    ApprovalState.REJECTED,
    ApprovalState.PENDING,
)


@dataclass(frozen=True, slots=True)
class SentCall:
    """A call that reached its server."""

    run_id: str
    tool: str  # server.tool
    changes: bool  # whether it may have changed something


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
    sent: list[SentCall] = field(default_factory=list[SentCall])  # named when it is undone
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

    def note_sent(self, call: SentCall) -> None:
        """It is about to leave."""
        self.changing += call.changes
        if call.changes or len(self.sent) < SENT_CALLS_MAX:
            self.sent.append(call)

    def note_task(self, task_id: str) -> None:
        """A server carried a call out as this task (H-069)."""
        if len(self.task_ids) < TASK_IDS_MAX:
            self.task_ids.append(task_id)

    def turn_away(self, kind: CallErrorType) -> None:
        """A call was refused before it entered the pipeline."""
        self.refused += 1
        self.refusals.count(kind)
