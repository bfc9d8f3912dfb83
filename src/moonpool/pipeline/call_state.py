"""One tool call in the pipeline, and the execution that it belongs to, as the stages see them.

`CallContext` is one per execution: a frozen identity and grant, the counters, and the stages that this execution puts
into the pipeline. It is made before the first call and then handed to every call. `CallState` is one per call: what
each stage found out, for the stages after it and for the record.
"""

from __future__ import annotations

import logging
from asyncio import Semaphore
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from moonpool.core.calls import ApprovalState, CallError, CallErrorType, RpcError
from moonpool.core.manifest import RESERVED_PREFIX
from moonpool.core.phrases import printable, storable
from moonpool.pipeline.budgets import Ledger, Reservation, SessionMemory, low_budgets, result_refused, usage_of
from moonpool.pipeline.call_counters import CallCounters
from moonpool.pipeline.execution_grant import UNKNOWN_SERVER, ServerTrust
from moonpool.policy import CallFacts, Hints, Scope, Verdict
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.core.calls import CallProgress, ToolCallSpec
    from moonpool.core.errors import MoonpoolError
    from moonpool.core.manifest import Manifest, ToolDefinition
    from moonpool.features.plans.model import Effect
    from moonpool.pipeline.budgets import Taken
    from moonpool.pipeline.call_result import CallResult
    from moonpool.pipeline.execution_grant import CallIdentity, ExecutionGrant
    from moonpool.pipeline.validation import SchemaChecks
    from moonpool.policy import Decision, Usage
    from moonpool.redaction.redactor import Redactor
    from moonpool.tracing.calls import CallSpan
    from moonpool.tracing.spans import Span
    from moonpool.upstreams.open_call import CallingClient

_log = logging.getLogger(__name__)


class Refusal(Exception):  # noqa: N818  flow control of the pipeline; never leaves it
    """Raised by a stage to refuse a call; holds the typed error that the code in the sandbox sees."""

    def __init__(
        self, kind: CallErrorType, message: str, *, retryable: bool = False, rpc: RpcError | None = None
    ) -> None:
        super().__init__(message)
        self.error = CallError(type=kind, message=message, retryable=retryable, rpc=rpc)


def denial(decision: Decision) -> Refusal:
    """A refusal by policy. One because of a budget of calls per minute ends by itself."""
    passing = decision.room_in_s is not None
    kind = CallErrorType.RATE_LIMIT if passing else CallErrorType.POLICY_DENIED
    return Refusal(kind, decision.reason, retryable=passing)


@dataclass(frozen=True, slots=True)
class StageTools:
    """What an added stage may use of the pipeline. SECURITY: nothing that reaches a server or the journal."""

    redactor: Redactor
    checks: SchemaChecks


class Stage(Protocol):
    """A stage that an execution adds between decide and approve: a dry run, a plan.

    INVARIANT: the stages that every call passes are not in `CallContext.stages`, so no such tuple can omit, repeat or
    move one. A stage may refuse a call or answer it; it cannot let one through that policy denied.
    """

    def take(self, call: CallState, tools: StageTools, /) -> Awaitable[CallResult] | None:
        """Called in the step in which policy decided, also when it denied. Returns the answer to a call that is not
        made, None to let the call go on. Raises Refusal.
        """
        ...

    def before_sending(self, call: CallState, /) -> None:
        """Called before the call leaves, after it may have waited for an answer and its turn. Raises Refusal."""
        ...


def _no_time() -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """One execution as the pipeline sees it; only `counters`, `memory` and ledgers change. Used on one event loop."""

    identity: CallIdentity
    grant: ExecutionGrant
    manifest: Callable[[], Manifest]  # the current tools
    stages: tuple[Stage, ...] = ()
    counters: CallCounters = field(default_factory=CallCounters)
    span: Span | None = None  # of the execution, where there are any
    recheck: Callable[[], Awaitable[None]] | None = None  # looks whether held tools were accepted meanwhile
    relist: Callable[[str], Awaitable[MoonpoolError | None]] | None = None
    """Lists the tools of a server again whose listing failed; returns why it failed again."""
    progress: Callable[[CallProgress], None] | None = None  # receives the progress of calls, if wanted
    client: CallingClient | None = None  # that made the call itself, without code
    clock: Callable[[], float] = _no_time  # seconds that the execution has run
    pause_deadline: Callable[[], AbstractContextManager[object]] = (
        nullcontext  # the execution's deadline is paused inside
    )
    memory: SessionMemory = field(default_factory=SessionMemory)  # what the session's earlier executions left
    ledgers: Mapping[Scope, Ledger] = field(init=False)  # where this execution's calls are counted
    slots: Semaphore = field(init=False)  # to be at an upstream
    turns: Semaphore = field(init=False)  # to ask for approval

    def __post_init__(self) -> None:
        own, limits = Ledger(), self.grant.limits
        ledgers = {Scope.EXECUTION: own, Scope.SESSION: self.memory.ledger, Scope.KEY: self.grant.key}
        object.__setattr__(self, "ledgers", ledgers)
        object.__setattr__(self, "slots", Semaphore(limits.concurrent_max))
        object.__setattr__(self, "turns", Semaphore(limits.questions_max))
        for ledger in ledgers.values():
            ledger.start(self.clock)

    def end(self) -> None:
        """The execution is over; later calls are refused. Idempotent."""
        if self.counters.ended:
            return
        self.counters.ended = True
        for ledger in self.ledgers.values():
            ledger.stop(self.clock)
        if self.grant.shared is not None:
            self.grant.shared.ran(self.grant.key.new_wall_s())


@dataclass(slots=True, kw_only=True)
class CallState:
    """One call. Fields stay at their defaults where the call did not get as far."""

    spec: ToolCallSpec
    context: CallContext
    name: str = field(init=False)  # `server.tool`
    started: float = field(default_factory=perf_counter)
    tool: ToolDefinition | None = None
    tool_digest: str = ""
    trust: ServerTrust = UNKNOWN_SERVER
    hints: Hints = field(default_factory=Hints)
    arguments_json: bytes = b""
    arguments_digest: str = ""
    look_alikes: str | None = None  # see `CallFacts`
    decision: Decision | None = None
    approval: ApprovalState = ApprovalState.NOT_REQUIRED
    approver: str = ""
    result: CallResult | None = None
    tally: Tally = field(default_factory=Tally)  # what was redacted in the result or in the error message
    warnings: list[str] = field(default_factory=list[str])
    reservation: Reservation | None = None
    shared_usage: Usage | None = None  # of the principal, see `SharedLedger`
    shared_taken: Taken | None = None
    taken_in: tuple[str, ...] = ()  # labels of what this call gave to the code
    recorded: bool = False
    task_id: str = ""  # the server's name for the call, where it carried it out as a task
    rehearsed: bool = False  # not made: a dry run's placeholder answers it
    effect: Effect | None = None  # of the approved plan
    upstream_ms: float = 0.0
    asked_ms: float = 0.0
    span: CallSpan | None = None

    def __post_init__(self) -> None:
        self.name = f"{self.spec.server_id}.{self.spec.tool}"

    @property
    def only_reads(self) -> bool:
        """Whether the call changes nothing: as policy believes, or as a reading method of the protocol."""
        return self.hints.read_only or self.spec.tool.startswith(RESERVED_PREFIX)

    @property
    def destroys(self) -> bool:
        """Whether its server or the policy says that the call may destroy something. A missing hint does not."""
        return "destroys" in self.context.grant.policy.does(self.resolved)

    @property
    def stopped_early(self) -> bool:
        """Whether policy ended the call: no approval was asked, no server called, no placeholder given."""
        return self.decision is None or self.decision.verdict is Verdict.DENY

    @property
    def resolved(self) -> ToolDefinition:
        assert self.tool is not None, "resolve comes first"
        return self.tool

    @property
    def facts(self) -> CallFacts:
        """What policy may know of this call now."""
        context = self.context
        return CallFacts(
            tool=self.resolved,
            arguments=self.spec.arguments,
            trusted=self.trust.trusted,
            principal=context.identity.principal,
            language=context.identity.language,
            taken_in=context.memory.taken_in,
            usage=self._usage,
            argument_bytes=len(self.arguments_json),
            look_alikes=self.look_alikes,
        )

    @property
    def _usage(self) -> Mapping[Scope, Usage]:
        context = self.context
        if not context.grant.policy.budgets:
            return {}
        usage = usage_of(context.ledgers, self.name)
        return usage if self.shared_usage is None else {**usage, Scope.KEY: self.shared_usage}

    def reserve(self, facts: CallFacts) -> None:
        """Take from the budgets what the call needs, in the step in which it was decided."""
        context, policy = self.context, self.context.grant.policy
        self.reservation = Reservation(
            ledgers=context.ledgers,
            tool=self.name,
            argument_bytes=facts.argument_bytes,
            cost=policy.cost(self.resolved),
        )
        for name, told in low_budgets(context.ledgers, policy, facts):
            context.counters.low_budgets.append(name)
            self.warnings.append(told)
            _log.warning("%s", printable(storable(told)))

    def let_in(self, size: int) -> None:
        """Count the bytes of a result. Raises Refusal when a budget has not as many left."""
        if why := result_refused(self.context.ledgers, self.context.grant.policy, size):
            raise self.too_large(size, why)

    def too_large(self, size: int, why: str) -> Refusal:
        """A result that a budget does not let in."""
        problem = f"the result of {self.name} is {size} bytes and {why}; the call was made"
        return Refusal(CallErrorType.OUTPUT_TOO_LARGE, problem)

    def take_in(self) -> None:
        """Note that the code is about to get what the server sent: from now on its session has read it."""
        if labels := self.context.grant.policy.returns(self.resolved):
            self.taken_in = tuple(sorted(labels))
            self.context.memory.taken_in |= labels

    def answered(self, result: CallResult) -> None:
        """Set the result: a server's, redacted, or the answer of an added stage."""
        self.result = result
        if result.tally:
            self.tally.update(result.tally)
        self.warnings += result.warnings

    @property
    def repeatable(self) -> bool:
        return self.trust.repeatable(self.resolved, self.hints)

    @property
    def duration_ms(self) -> float:
        return round((perf_counter() - self.started) * 1000, 3)
