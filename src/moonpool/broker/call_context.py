"""What one execution brings to its tool calls: identity, manifest, policy, limits, and the running counts.

One `CallContext` per execution. The runtime makes it, hands it to every call of that execution, calls `end()` when the
execution is over, and reads the counts for the envelope and the end record.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.broker.refused_calls import RefusedCalls
from moonpool.broker.spending import Ledger, SessionMemory
from moonpool.core.calls import ApprovalState
from moonpool.core.languages import PYTHON
from moonpool.core.policy import Hints, Policy, Scope, effective_hints, glob_matches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.broker.approval import ApprovalService
    from moonpool.broker.call_in_hand import RequestResponder
    from moonpool.broker.planned import PlanWatch
    from moonpool.broker.rehearsal import Rehearsal
    from moonpool.core.calls import CallErrorType, CallProgress
    from moonpool.core.errors import MoonpoolError
    from moonpool.core.manifest import Manifest, ToolDefinition

TASK_IDS_MAX: Final = 16
"""Tasks that one envelope names; each call's own is in the journal."""
_SEVERITY: Final = (
    ApprovalState.NOT_REQUIRED,
    ApprovalState.APPROVED,
    ApprovalState.EXPIRED,
    ApprovalState.REJECTED,
    ApprovalState.PENDING,
)


def _no_time() -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Limits on the tool calls of one execution."""

    calls_max: int = 1000
    concurrent_max: int = 32  # calls that are at an upstream at the same time; more wait their turn
    timeout_s: float = 60.0
    result_bytes_max: int = 64 * 1024**2
    questions_max: int = 16  # of one execution that are open at once; more wait their turn, so that others can ask too
    near_names_max: int = 20  # calls with unknown names for which near ones are looked up; others are only refused
    examples_max: int = 20  # refusals that show how the tool is called


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrust:
    """What the host says about one server: whether its annotations count, which tools may be repeated, its timeout."""

    trusted: bool = False
    idempotent: tuple[str, ...] = ()  # globs of tools that the host knows to be repeatable
    timeout_s: float | None = None  # instead of the execution's
    digest: str = ""  # of the configuration by which it is reached: what was approved for it belongs to that
    address: str = ""  # its command or URL, without secrets
    config_file: str = ""  # where that stands

    def hints(self, tool: ToolDefinition) -> Hints:
        return effective_hints(tool, trusted=self.trusted)

    def repeatable(self, tool: ToolDefinition, hints: Hints) -> bool:
        """True when a second try does no harm: a trusted hint or the host's own word (X-21)."""
        return hints.repeatable or any(glob_matches(glob, tool.name) for glob in self.idempotent)


UNKNOWN_SERVER: Final = ServerTrust()


@dataclass(slots=True, kw_only=True)
class CallContext:
    """One execution as the pipeline sees it. Used on one event loop."""

    run_id: str
    trace_id: str
    principal: str
    session_id: str
    code_digest: str
    manifest: Callable[[], Manifest]
    approvals: ApprovalService
    recheck: Callable[[], Awaitable[None]] | None = None  # looks whether held tools were accepted meanwhile
    relist: Callable[[str], Awaitable[MoonpoolError | None]] | None = None
    """Asks a server whose tools could not be listed once more; gives why that failed again."""
    language: str = PYTHON
    policy: Policy = field(default_factory=Policy)
    trust: Mapping[str, ServerTrust] = field(default_factory=dict[str, ServerTrust])
    limits: CallLimits = field(default_factory=CallLimits)
    clock: Callable[[], float] = _no_time  # seconds that the execution has run
    key: Ledger = field(default_factory=Ledger)  # of the principal
    memory: SessionMemory = field(default_factory=SessionMemory)  # see `join`
    own: Ledger = field(default_factory=Ledger)
    rehearsal: Rehearsal | None = None  # of a dry run
    plan: PlanWatch | None = None  # of an execution that runs under an approved plan

    calls: int = 0  # that entered the pipeline
    refused: int = 0  # that never entered the pipeline: after the end, above `calls_max`, unreadable, too many at once
    refusals: RefusedCalls = field(default_factory=RefusedCalls)  # all that were refused before anybody was asked
    examples: int = 0  # that refusals have shown
    unknown: int = 0  # calls of tools that are not in the manifest, or with arguments that do not fit
    redactions: int = 0
    changing: int = 0  # calls that left and may have changed something
    failed: int = 0  # calls that gave an error
    result_bytes: int = 0
    settled: ApprovalState = ApprovalState.NOT_REQUIRED
    responder: RequestResponder | None = None  # who can answer what servers ask meanwhile
    progress: Callable[[CallProgress], None] | None = None  # hears how calls get on, if anybody does
    parking: Callable[[], AbstractContextManager[None]] = nullcontext  # the execution's clock stands still inside
    pending: int = 0  # approvals that wait for an answer now
    ended: bool = False
    task_ids: list[str] = field(default_factory=list[str])  # of calls that servers carried out as tasks; the first few
    low_budgets: list[str] = field(default_factory=list[str])  # that calls of this execution took to 80 %
    slots: asyncio.Semaphore = field(init=False)
    turns: asyncio.Semaphore = field(init=False)  # to ask for approval

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.limits.concurrent_max)
        self.turns = asyncio.Semaphore(self.limits.questions_max)
        for ledger in self.ledgers.values():
            ledger.start(self.clock)

    def join(self, memory: SessionMemory) -> None:
        """Take up what the session remembers, before the first call."""
        self.memory.ledger.stop(self.clock)
        self.memory = memory
        memory.ledger.start(self.clock)

    @property
    def ledgers(self) -> Mapping[Scope, Ledger]:
        """Where this execution's calls are counted."""
        return {Scope.EXECUTION: self.own, Scope.SESSION: self.memory.ledger, Scope.KEY: self.key}

    @property
    def approval_state(self) -> ApprovalState:
        """The execution's state for its envelope: PENDING while a question is open, else the gravest answer (H-034)."""
        return ApprovalState.PENDING if self.pending else self.settled

    def note_task(self, task_id: str) -> None:
        """A server carried a call out as this task (H-069)."""
        if task_id and len(self.task_ids) < TASK_IDS_MAX:
            self.task_ids.append(task_id)

    def settle(self, state: ApprovalState) -> None:
        self.settled = max(self.settled, state, key=_SEVERITY.index)

    def turn_away(self, kind: CallErrorType) -> None:
        """A call was refused before it entered the pipeline."""
        self.refused += 1
        self.refusals.count(kind)

    def end(self) -> None:
        """The execution is over; later calls are refused."""
        self.ended = True
        for ledger in self.ledgers.values():
            ledger.stop(self.clock)
