"""Approvals that are answered elsewhere: a queued request, its states, and approval grants.

A request waits in a queue that several processes share. Somebody answers it once; whoever asked takes that answer once.
An approval grant covers further calls of the same principal, server and tool, while the server's configuration and the
tool's definition are those that were approved and the arguments are the same, meet its conditions, or may be any. It
answers the question that policy asks; it never changes what policy says, so a rule that denies still denies.

SECURITY: an answer that was given to an ordinary question does not cover a call that policy reserves for a person; only
one that a person gave to exactly such a question does.

The file is `moonpool.features.approvals.table`, the use case `moonpool.features.approvals.service`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.policy import Rule, Verdict, literal_glob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.policy import CallFacts, Condition

NOTE_CHARS_MAX: Final = 1000
WHOLE_CHARS_MAX: Final = 600_000
"""Of what a person can read whole: any plan, most arguments. What is longer is shown cut, and kept nowhere."""
PLAN: Final = "plan"
"""The name in place of a tool's where a whole plan is asked about."""
GRANT_S_MAX: Final = 90 * 86_400.0


class QueueState(StrEnum):
    """Where a queued request stands. Only WAITING can be answered; every other state is final."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"  # nobody answered in time, which denies
    WITHDRAWN = "withdrawn"  # the call is no longer made
    ABANDONED = "abandoned"  # the process that asked has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Answerer:
    """Who answers: `terminal:alice`, and whether a person is there."""

    name: str
    person: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """One request as the queue keeps it. Texts are redacted and bounded, and of hostile origin."""

    request_id: str
    run_id: str
    session_id: str
    principal: str
    server_id: str
    tool_name: str
    tool_digest: str
    arguments: str  # for reading
    arguments_digest: str  # what the answer is bound to
    reason: str
    rule_id: str
    human_only: bool
    asked_at: float  # seconds since 1970
    expires_at: float
    cut: bool = False  # `arguments` is not all of it
    whole: str = ""  # all of it but for known secrets, where it is cut and not too long
    server_digest: str = ""  # of the configuration by which the server is reached
    server_address: str = ""
    config_file: str = ""
    code_line: int = 0
    owner: str = ""  # the process that waits
    state: QueueState = QueueState.WAITING
    approver: str = ""
    note: str = ""
    answered_at: float | None = None

    @property
    def is_plan(self) -> bool:
        """Whether it is about a whole plan; its arguments are lines then. A tool has a digest."""
        return self.tool_name == PLAN and not self.tool_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer:
    """What became of a request, for whoever asked."""

    state: QueueState
    arguments_digest: str
    approver: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGrant:
    """A yes to further calls: with exactly the arguments of `arguments_digest`, or any that meet all of `where`."""

    answer_id: str
    principal: str
    server_id: str
    tool_name: str
    tool_digest: str
    server_digest: str
    server_address: str  # for people
    where: tuple[Condition, ...]
    arguments_digest: str  # empty: other arguments are covered too, as `where` says
    human_only: bool  # given to a question that only a person may answer
    given_by: str
    given_at: float
    expires_at: float
    request_id: str  # the question it was given to

    def covers(
        self, facts: CallFacts, *, server_digest: str, arguments_digest: str, human_only: bool, now: float
    ) -> bool:
        """Whether a call with these facts, of the server that is configured so, needs no further question."""
        rule = Rule(
            rule_id=f"standing:{self.answer_id}",
            verdict=Verdict.ALLOW,
            server=literal_glob(self.server_id),
            tool=literal_glob(self.tool_name),
            principal=literal_glob(self.principal),
            when=self.where,
        )
        in_force = self.given_at <= now < self.expires_at and (self.human_only or not human_only)
        # SECURITY: a tool that was described anew is another tool, a server that is reached otherwise another server.
        same = (self.tool_digest, self.server_digest) == (facts.tool.digest, server_digest)
        return in_force and same and self.arguments_digest in {"", arguments_digest} and rule.matches(facts)


class ApprovalQueueError(MoonpoolError):
    """The queue of approvals cannot be read or written, or is full. What needed it was refused."""

    code = "approval_queue_unusable"
    fault = Fault.HOST
    retryable = True


class ApprovalAnswerError(MoonpoolError):
    """A request or approval grant cannot be answered or removed: unknown, answered already, or too late."""

    code = "approval_not_answerable"
    fault = Fault.CALLER


class ApprovalQueue(Protocol):
    """A queue as whoever asks sees it. Blocking but for `is_unused`; its methods raise ApprovalQueueError."""

    def is_unused(self) -> bool:
        """Whether nobody has ever kept a request or an answer. One look at a folder."""
        ...

    def put(self, request: QueuedRequest) -> None:
        """Let `request` wait for an answer."""
        ...

    def take(self, request_id: str, arguments_digest: str) -> QueueAnswer | None:
        """The answer, once; None while the request waits. Whatever is not a fitting answer is a no."""
        ...

    def withdraw(self, request_id: str) -> None:
        """The answer is no longer wanted, and one that nobody has taken came too late. Does nothing to one taken."""
        ...

    def grants_for(self, principal: str, server_id: str, tool_name: str) -> Sequence[ApprovalGrant]:
        """Approval grants in force that may cover a call of this tool."""
        ...
