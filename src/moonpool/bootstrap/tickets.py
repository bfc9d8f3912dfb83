"""What a caller of this process may do: who it is, the rules, who is asked, the limits of its calls."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.broker.approval import ApprovalDesk, ApprovalRequest
from moonpool.broker.context import CallContext, CallLimits, ServerTrust
from moonpool.core.policy import Policy, server_rules
from moonpool.runtime.runs import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.broker.approval import ApprovalAnswer, Approver
    from moonpool.broker.config import McpConfig
    from moonpool.runtime.deadline import Deadline
    from moonpool.runtime.tools import ToolSnapshot
    from moonpool.settings import Settings


def make_ticket(settings: Settings, config: McpConfig | None, approver: Approver) -> Ticket:
    """The ticket of whoever started this process."""
    servers = config.servers if config is not None else ()
    rules = [
        rule
        for server in servers
        for rule in server_rules(server.server_id, ((rule.tool, rule.verdict) for rule in server.rules))
    ]
    policy = Policy(rules=tuple(rules))
    trust = {
        server.server_id: ServerTrust(trusted=server.trusted, idempotent=server.idempotent, timeout_s=server.timeout_s)
        for server in servers
    }
    principal = f"local:{getpass.getuser()}" if _has_name() else f"local:uid-{os.geteuid()}"
    desk = ApprovalDesk(approver)

    def make_context(
        run_id: str,
        trace_id: str,
        session_id: str,
        code_digest: str,
        snapshot: Callable[[], ToolSnapshot],
        deadline: Deadline,
    ) -> CallContext:
        return CallContext(
            run_id=run_id,
            trace_id=trace_id,
            principal=principal,
            session_id=session_id,
            code_digest=code_digest,
            manifest=lambda: snapshot().manifest,
            desk=ParkingDesk(desk, deadline),
            policy=policy,
            trust=trust,
            limits=CallLimits(calls_max=settings.tool_calls_max),
        )

    return Ticket(principal=principal, make_context=make_context)


@dataclass(frozen=True, slots=True)
class ParkingDesk:
    """An approval desk that stops the execution's clock while somebody is asked."""

    desk: ApprovalDesk
    deadline: Deadline

    async def settle(self, request: ApprovalRequest) -> ApprovalAnswer:
        with self.deadline.parked():
            return await self.desk.settle(request)


def _has_name() -> bool:
    try:
        return bool(getpass.getuser())
    except (KeyError, OSError):
        return False
