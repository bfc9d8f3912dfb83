"""Who runs code, and what its calls may do: what an execution gets before it starts.

The application makes one grant (`bootstrap.caller_grants`); approvers and responders are added by `engine.answering`
and `server.mcp.client_requests`; a replay has its own, which asks nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.pipeline.budgets import SessionMemory
from moonpool.pipeline.call_counters import CallCounters
from moonpool.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from moonpool.core.calls import CallProgress
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.pipeline.approval import ApprovalService
    from moonpool.pipeline.call_state import CallContext, Stage
    from moonpool.pipeline.deadline import Deadline
    from moonpool.pipeline.dry_run import Rehearsal
    from moonpool.pipeline.execution_grant import CallIdentity, ServerTrust
    from moonpool.pipeline.planned_run import PlanWatch
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.tools.snapshot import ToolSnapshot
    from moonpool.tracing.spans import Span
    from moonpool.upstreams.open_call import CallingClient


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of an execution when its context is made."""

    identity: CallIdentity
    snapshot: Callable[[], ToolSnapshot]  # the current tools
    deadline: Deadline
    counters: CallCounters = field(default_factory=CallCounters)
    span: Span | None = None  # of the execution, where there are any
    memory: SessionMemory = field(default_factory=SessionMemory)
    responder: RequestResponder | None = None  # answers server requests
    progress: Callable[[CallProgress], None] | None = None  # receives the progress of calls
    client: CallingClient | None = None  # that makes a call itself, without code
    rehearsal: Rehearsal | None = None  # of a dry run
    plan: PlanWatch | None = None  # of an execution under an approved plan

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What the execution puts into the pipeline."""
        return tuple(stage for stage in (self.rehearsal, self.plan) if stage is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerGrant:
    """Who runs code, and what its calls may do: a context is made of this for each execution."""

    principal: str
    roles: tuple[str, ...] = ()  # of the principal in its tenant
    make_context: Callable[[RunFacts], CallContext]
    policy: Policy = field(default_factory=Policy)
    policy_digest: str = ""
    servers: Mapping[str, ServerTrust] = field(default_factory=dict[str, "ServerTrust"])
    approvals: ApprovalService | None = None  # approves plans; None: nobody can be asked
    hides_host: bool = False  # SECURITY: its machine is another's, whose files and addresses no error names
    waiting: Callable[[str], Sequence[ApprovalRequest]] = lambda _: ()  # what an execution waits for, by its run id
