"""Who runs code, and how their calls are judged: what an execution is given before it starts.

The application makes a ticket (`bootstrap.caller_grants`); who is asked beside it is added by those who have somebody
to ask (`answering`, `faces.mcp.asking`); a replay has its own, which asks nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from moonpool.broker.approval import ApprovalRequest, ApprovalService
    from moonpool.broker.call_context import CallContext, ServerTrust
    from moonpool.runtime.deadline import Deadline
    from moonpool.runtime.tool_snapshot import ToolSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of an execution when its context is made."""

    run_id: str
    trace_id: str
    session_id: str
    code_digest: str
    language: str
    snapshot: Callable[[], ToolSnapshot]  # the tools of the moment
    deadline: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerGrant:
    """Who runs code here, and how their calls are judged: what a context is made of for each execution."""

    principal: str
    make_context: Callable[[RunFacts], CallContext]
    policy_digest: str = ""
    servers: Mapping[str, ServerTrust] = field(default_factory=dict[str, "ServerTrust"])
    approvals: ApprovalService | None = None  # whoever may approve a plan; None: nobody can be asked here
    waiting: Callable[[str], Sequence[ApprovalRequest]] = lambda _: ()  # what an execution waits for, by its run id
