"""One tool call in the pipeline: what each stage found out, for the stages after it and for the record."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from moonpool.broker.call_context import UNKNOWN_SERVER, CallContext, ServerTrust
from moonpool.broker.phrases import printable, storable
from moonpool.broker.redaction import Tally
from moonpool.broker.spending import Reservation, low_budgets, result_refused, usage_of
from moonpool.core.calls import ApprovalState, CallError, CallErrorType
from moonpool.core.manifest import RESERVED_PREFIX
from moonpool.core.policy import CallFacts, Hints, Verdict, decide

if TYPE_CHECKING:
    from moonpool.broker.call_in_hand import CallInHand
    from moonpool.broker.call_result import CallResult
    from moonpool.core.calls import ToolCallSpec
    from moonpool.core.manifest import ToolDefinition
    from moonpool.core.plans import Effect
    from moonpool.core.policy import Decision

_log = logging.getLogger(__name__)


class Refusal(Exception):  # noqa: N818  flow control of the pipeline; never leaves it
    """A stage's no, as the typed error that the code in the sandbox sees."""

    def __init__(self, kind: CallErrorType, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.error = CallError(type=kind, message=message, retryable=retryable)


@dataclass(slots=True, kw_only=True)
class CallState:
    """One call. Fields stay at their defaults where the call did not get as far."""

    spec: ToolCallSpec
    session: CallContext
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
    arrival: CallResult | None = None
    message_tally: Tally = field(default_factory=Tally)  # redactions in an error message that no result came with
    warnings: list[str] = field(default_factory=list[str])
    reservation: Reservation | None = None
    taken_in: tuple[str, ...] = ()  # labels of what this call gave to the code
    recorded: bool = False
    in_hand: CallInHand | None = None  # while it is at its server, and afterwards
    rehearsed: bool = False  # not made: a dry run's placeholder answers it
    effect: Effect | None = None  # of the approved plan
    upstream_ms: float = 0.0
    asked_ms: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.spec.server_id}.{self.spec.tool}"

    @property
    def task_id(self) -> str:
        """The server's name for the call, where it carried it out as a task."""
        return "" if self.in_hand is None else self.in_hand.task_id

    @property
    def only_reads(self) -> bool:
        """Whether the call changes nothing: as policy believes, or as a reading method of the protocol."""
        return self.hints.read_only or self.spec.tool.startswith(RESERVED_PREFIX)

    @property
    def destroys(self) -> bool:
        """Whether its server or the policy says that the call may destroy something. Nobody's silence does."""
        return "destroys" in self.session.policy.does(self.resolved)

    @property
    def stopped_early(self) -> bool:
        """Whether the call got no further than to policy: nobody was asked, no server called, no placeholder given."""
        return self.decision is None or self.decision.verdict is Verdict.DENY

    @property
    def resolved(self) -> ToolDefinition:
        assert self.tool is not None, "resolve comes first"
        return self.tool

    def decide(self) -> Decision:
        """Ask policy, and take from the budgets what the call needs, in one step. A rehearsed call needs nothing."""
        session, facts = self.session, self.facts
        self.rehearsed = session.rehearsal is not None and session.rehearsal.takes(self)
        decision = self.decision = decide(session.policy, facts)
        if decision.verdict is not Verdict.DENY and session.policy.budgets and not self.rehearsed:
            self.reservation = Reservation(
                ledgers=session.ledgers,
                tool=self.name,
                argument_bytes=facts.argument_bytes,
                cost=session.policy.cost(self.resolved),
            )
            for name, told in low_budgets(session.ledgers, session.policy, facts):
                session.low_budgets.append(name)
                self.warnings.append(told)
                _log.warning("%s", printable(storable(told)))
        return decision

    def leave(self) -> None:
        """The call goes out: what it takes is spent, whatever comes of it."""
        if self.reservation is not None:
            self.reservation.keep()

    def over(self) -> None:
        """The call is over; one that never left has taken nothing."""
        if self.reservation is not None:
            self.reservation.give_back()

    def let_in(self, size: int) -> None:
        """Count the bytes of a result. Raises Refusal when a budget has not as many left."""
        if self.session.policy.budgets and (why := result_refused(self.session.ledgers, self.session.policy, size)):
            problem = f"the result of {self.name} is {size} bytes and {why}; the call was made"
            raise Refusal(CallErrorType.OUTPUT_TOO_LARGE, problem)

    def take_in(self) -> None:
        """The code is about to get what the server sent: from now on its session has read that."""
        if labels := self.session.policy.returns(self.resolved):
            self.taken_in = tuple(sorted(labels))
            self.session.memory.taken_in |= labels

    @property
    def facts(self) -> CallFacts:
        """What policy may know of this call."""
        session = self.session
        return CallFacts(
            tool=self.resolved,
            arguments=self.spec.arguments,
            trusted=self.trust.trusted,
            principal=session.principal,
            language=session.language,
            taken_in=session.memory.taken_in,
            usage=usage_of(session.ledgers, self.name) if session.policy.budgets else {},
            argument_bytes=len(self.arguments_json),
            look_alikes=self.look_alikes,
        )

    @property
    def repeatable(self) -> bool:
        return self.trust.repeatable(self.resolved, self.hints)

    @property
    def tally(self) -> Tally:
        return self.message_tally + self.arrival.tally if self.arrival else self.message_tally

    @property
    def all_warnings(self) -> tuple[str, ...]:
        return (*self.warnings, *(self.arrival.warnings if self.arrival else ()))

    @property
    def duration_ms(self) -> float:
        return round((perf_counter() - self.started) * 1000, 3)
