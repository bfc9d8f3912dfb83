"""Approvals: a question to a person, its answer, the queue where questions wait, and approval grants.

An answer belongs to one request and repeats the digest of its arguments. A request may wait in a queue that several
processes share: somebody answers it once; whoever asked takes that answer once.
An approval grant covers further calls of the same principal, server and tool, while the server's configuration and the
tool's definition are those that were approved and the arguments are the same, meet its conditions, or may be any. It
answers the question that policy asks; it never changes what policy says, so a rule that denies still denies.

SECURITY: an answer that was given to an ordinary question does not cover a call that policy reserves for a person; only
one that a person gave to exactly such a question does.

Asking is `moonpool.pipeline.approval`, the file `moonpool.features.approvals.table`, the use case
`moonpool.features.approvals.service`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.calls import ApprovalState  # noqa: TC001  msgspec reads the annotations
from moonpool.core.errors import Fault, MoonpoolError
from moonpool.policy import Rule, Verdict, literal_glob, operators_remedy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.policy import CallFacts, Condition

EXPIRY_S_DEFAULT: Final = 600.0
NOTE_CHARS_MAX: Final = 1000
WHOLE_CHARS_MAX: Final = 600_000
"""Of what a person can read whole: any plan, most arguments. What is longer is shown cut, and kept nowhere."""
PLAN: Final = "plan"
"""The name in place of a tool's where a whole plan is asked about."""
REGISTRATION: Final = "register_mcp_server"
"""The name in place of a tool's where the registration of a server is asked about."""
QUEUE: Final = "application:queue"
"""Who refused, in the journal, where no person did."""
PROGRAMS: Final = ("application:", "command:", "api:")
"""How the names of answerers begin that are no persons: records, and plans, tell them apart by that."""
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
    principal: str = ""  # whose code runs by the same credential; empty: at the host's terminal, or an application's

    def problem(self, *, principal: str, human_only: bool) -> str:
        """Why this answerer may not say yes to what the code of `principal` asks; empty if nothing forbids it.

        SECURITY: a model that holds a credential could otherwise run code with it and approve the calls of that code.
        """
        if self.principal and self.principal == principal:
            return "nobody approves what their own code asks; somebody else must answer"
        if human_only and not self.person:
            return "policy wants a person to answer"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What a person is asked. Texts are redacted and bounded, and of hostile origin.

    `arguments` is for reading, of a plan one line per server and effect; the answer is bound to `arguments_digest`.
    """

    request_id: str
    run_id: str
    principal: str
    server_id: str
    tool_name: str
    arguments: str  # bounded, without known secrets; see `shown_arguments`
    arguments_digest: str
    reason: str
    remedy: str = ""  # what would make the question unnecessary; empty: `moonpool allow`
    human_only: bool = False
    session_id: str = ""
    rule_id: str = ""  # of the policy that asks
    tool_digest: str = ""  # of the tool's definition
    of_the_moment: bool = False  # asked because of what was done before, so an approval grant does not count
    plan_effect: int = 0  # of the approved plan that the call is carried out under; 0: of none
    expires_s: float = EXPIRY_S_DEFAULT  # from the moment the request was made
    cut: bool = False  # `arguments` is not all of it, so nothing may be approved for a while by looking at it
    whole: str = ""  # all of it but for known secrets, where it is cut and not too long
    server_digest: str = ""  # of the configuration by which the server is reached
    server_address: str = ""  # its command or address, without secrets
    config_file: str = ""  # where that stands
    code_line: int = 0  # that makes the call, as the sandbox says; 0: it does not
    by_client: bool = False  # a client makes the call itself, without code

    @property
    def is_plan(self) -> bool:
        """Whether it is about a whole plan. A tool of the same name has a digest."""
        return self.tool_name == PLAN and not self.tool_digest

    @property
    def is_registration(self) -> bool:
        """Whether it is about a new server. A tool of the same name has a digest."""
        return self.tool_name == REGISTRATION and not self.tool_digest

    @property
    def place(self) -> str:
        """Which server that is, for people: `git is "mcp-git --repo x", configured in /etc/servers.json`."""
        return server_place(self.server_id, self.server_address, self.config_file)

    @property
    def operators_remedy(self) -> str:
        """What an operator can do so that nobody is asked. SECURITY: never for the code that made the call."""
        return operators_remedy(self.remedy, self.server_id, self.tool_name, self.config_file)

    def answered(self, state: ApprovalState, approver: str, note: str = "") -> ApprovalAnswer:
        return ApprovalAnswer(
            request_id=self.request_id,
            arguments_digest=self.arguments_digest,
            state=state,
            approver=approver,
            note=note,
        )


def server_place(server_id: str, address: str, config_file: str) -> str:
    """Identifies a server by its address, not by its name. Empty when nothing is known of it."""
    return f'{server_id} is "{address}", configured in {config_file}' if address else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """An answer to the request named by `request_id`; `state` is APPROVED, REJECTED or EXPIRED."""

    request_id: str
    arguments_digest: str
    state: ApprovalState
    approver: str  # who answered, for the audit trail: `terminal:alice`, `application:auto`
    note: str = ""  # shown to the code that made the call


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A request as the queue keeps it, and what became of it."""

    request: ApprovalRequest
    asked_at: float  # seconds since 1970
    expires_at: float
    owner: str = ""  # the process that waits
    state: QueueState = QueueState.WAITING
    approver: str = ""
    note: str = ""
    answered_at: float | None = None

    @property
    def request_id(self) -> str:
        return self.request.request_id


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

    def put(self, queued: QueuedRequest) -> None:
        """Let a request wait for an answer."""
        ...

    def take(self, request_id: str, arguments_digest: str) -> ApprovalAnswer | None:
        """The answer, once; None while the request waits. Whatever is not a fitting answer is a no."""
        ...

    def withdraw(self, request_id: str) -> None:
        """The answer is no longer wanted, and one that nobody has taken came too late. Does nothing to one taken."""
        ...

    def grants_for(self, principal: str, server_id: str, tool_name: str) -> Sequence[ApprovalGrant]:
        """Approval grants in force that may cover a call of this tool."""
        ...
