"""One tool call on its way along the road: what each stage found out, for the stages after it and for the record."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from moonpool.broker.context import UNKNOWN_SERVER, CallContext, ServerTrust
from moonpool.broker.redaction import Tally
from moonpool.core.calls import ApprovalState, CallError, CallErrorType
from moonpool.core.policy import CallFacts, Hints

if TYPE_CHECKING:
    from moonpool.broker.arrival import Arrival
    from moonpool.core.calls import ToolCallSpec
    from moonpool.core.manifest import ToolDefinition
    from moonpool.core.policy import Decision


class Refusal(Exception):  # noqa: N818  flow control of the road; never leaves it
    """A stage's no, as the typed error that the code in the sandbox sees."""

    def __init__(self, kind: CallErrorType, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.error = CallError(type=kind, message=message, retryable=retryable)


@dataclass(slots=True, kw_only=True)
class Passage:
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
    decision: Decision | None = None
    approval: ApprovalState = ApprovalState.NOT_REQUIRED
    approver: str = ""
    arrival: Arrival | None = None
    message_tally: Tally = field(default_factory=Tally)  # redactions in an error message that no result came with
    warnings: list[str] = field(default_factory=list[str])
    recorded: bool = False

    @property
    def name(self) -> str:
        return f"{self.spec.server_id}.{self.spec.tool}"

    @property
    def resolved(self) -> ToolDefinition:
        assert self.tool is not None, "resolve comes first"
        return self.tool

    @property
    def facts(self) -> CallFacts:
        """What policy may know of this call."""
        return CallFacts(
            tool=self.resolved,
            arguments=self.spec.arguments,
            trusted=self.trust.trusted,
            principal=self.session.principal,
            language=self.session.language,
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
