"""What a caller may do: its principal, its rules, who is asked, the limits of its calls."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.calls import ApprovalState
from moonpool.core.errors import InputError
from moonpool.core.hidden_characters import all_seen
from moonpool.core.phrases import clip
from moonpool.features.approvals.queue_approver import GrantedApprovals
from moonpool.features.consents.model import PairConsent
from moonpool.pipeline.approval import LiveApprovals
from moonpool.pipeline.budgets import Ledger
from moonpool.pipeline.call_state import CallContext
from moonpool.pipeline.caller_grant import CallerGrant
from moonpool.pipeline.execution_grant import CallLimits, ExecutionGrant, ServerTrust
from moonpool.pipeline.planned_run import PlannedApprovals
from moonpool.policy import Policy, Scope
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.configuration.servers import McpConfig
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalQueue, ApprovalRequest
    from moonpool.features.consents.model import Consents
    from moonpool.pipeline.approval import ApprovalBounds, ApprovalService, Approver
    from moonpool.pipeline.budgets import SharedLedger
    from moonpool.pipeline.caller_grant import RunFacts
    from moonpool.pipeline.deadline import Deadline
    from moonpool.policy import CallFacts, Layer
    from moonpool.redaction.redactor import Redactor
    from moonpool.settings import Settings

_ADDRESS_CHARS_MAX: Final = 400
PRINCIPAL_CHARS_MAX: Final = 200
PRINCIPALS_MAX: Final = 10_000
"""How many principals' budgets one tenant counts."""


class Budgets(Protocol):
    """Ledgers that replicas share (`moonpool.features.budgets.service.SharedBudgets`)."""

    def of(self, principal: str, /) -> SharedLedger: ...
    async def close(self) -> None: ...


class CallerGrants:
    """Grants for one tenant's callers, by its rules, its approvals and each principal's budgets."""

    def __init__(  # noqa: PLR0913  parts of the composition
        self,
        settings: Settings,
        trust: Mapping[str, ServerTrust],
        policy: Policy,
        approver: Approver,
        queue: ApprovalQueue,
        tool_registry: ToolRegistry,
        *,
        tenant_id: str,
        bounds: ApprovalBounds,
        consents: Consents | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        """`trust` is what the host says about each server. `queue` has the approval grants, also for other approvers;
        `tool_registry` rechecks tools that are held back or could not be listed. `bounds` are those of the
        process. Without `consents` no OAuth client has any; without `budgets` they are counted in this process.
        """
        self._settings, self._trust, self._policy, self._tool_registry = settings, trust, policy, tool_registry
        self._asking = LiveApprovals(approver, expiry_s=settings.approval_expiry_s, tenant_id=tenant_id, bounds=bounds)
        self._approvals = GrantedApprovals(self._asking, queue)
        self._ledgers: dict[str, Ledger] = {}
        self._tenant_id, self._consents, self._budgets = tenant_id, consents, budgets
        self.own_layers: tuple[Layer, ...] = ()
        """Rules of the organisation itself (`bootstrap.organisation_rules`), in force for executions that begin."""

    def grant(
        self,
        principal: str,
        *,
        roles: tuple[str, ...] = (),
        layers: tuple[Layer, ...] = (),
        client_id: str | None = None,
        calls_max: int | None = None,
        hides_host: bool = False,
    ) -> CallerGrant:
        """The grant of one request: principal, roles, rules in addition to the tenant's, and the OAuth client, if any;
        `calls_max` where an execution may make fewer calls than the settings say; `hides_host` see `CallerGrant`.

        Budgets of a principal are counted over all its requests, whatever rules they bring. Raises InputError for a
        name that is empty, longer than `PRINCIPAL_CHARS_MAX` or not visible as it is, and above `PRINCIPALS_MAX`.
        """
        # SECURITY: it stands in every record, which are never removed, and in questions to people.
        if not principal or len(principal) > PRINCIPAL_CHARS_MAX or not all_seen(principal):
            problem = f"{principal[:80]!r} cannot be the name of a principal"
            raise InputError(f"{problem}; use 1 to {PRINCIPAL_CHARS_MAX} visible characters")
        key = self._ledger(principal)
        own = self.own_layers
        policy = self._policy_with(own, layers)
        tool_registry = self._tool_registry
        limits = CallLimits(calls_max=min(self._settings.tool_calls_max, calls_max or self._settings.tool_calls_max))
        is_budgeted = any(budget.scope is Scope.KEY for budget in policy.budgets)
        shared = self._budgets.of(principal) if self._budgets is not None and is_budgeted else None
        consent = None if client_id is None else PairConsent(self._consents, self._tenant_id, principal, client_id)

        def make_context(facts: RunFacts) -> CallContext:
            # SECURITY: a grant may be older than the rules, as that of a session is.
            now = policy if self.own_layers is own else self._policy_with(self.own_layers, layers)
            deadline = facts.deadline
            asked: ApprovalService = ParkingApprovals(self._approvals, deadline)
            return CallContext(
                identity=facts.identity,
                grant=ExecutionGrant(
                    approvals=asked if facts.plan is None else PlannedApprovals(asked, facts.plan),
                    responder=facts.responder,
                    policy=now,
                    trust=self._trust,
                    limits=limits,
                    key=key,
                    shared=shared,
                    consent=consent,
                ),
                counters=facts.counters,
                span=facts.span,
                stages=facts.stages,
                manifest=lambda: facts.snapshot().manifest,
                recheck=tool_registry.recheck,
                relist=tool_registry.relist,
                progress=facts.progress,
                client=facts.client,
                clock=lambda: deadline.running_s,
                pause_deadline=deadline.paused,
                memory=facts.memory,
            )

        return CallerGrant(
            principal=principal,
            roles=roles,
            make_context=make_context,
            policy=policy,
            policy_digest=policy.digest,
            approvals=self._asking,
            servers=self._trust,
            waiting=self._asking.waiting,
            hides_host=hides_host,
        )

    def _policy_with(self, own: tuple[Layer, ...], more: tuple[Layer, ...]) -> Policy:
        return Policy(layers=(*self._policy.layers, *own, *more)) if own or more else self._policy

    def _ledger(self, principal: str) -> Ledger:
        ledger = self._ledgers.get(principal)
        if ledger is None:
            if len(self._ledgers) >= PRINCIPALS_MAX:
                raise InputError(f"{PRINCIPALS_MAX:,} principals used this tenant already; close it and open it again")
            ledger = self._ledgers[principal] = Ledger()
        return ledger


def server_trust(config: McpConfig | None, redactor: Redactor) -> dict[str, ServerTrust]:
    """What the host says about each configured server. No code contributes to it, so all of `redactor` applies."""
    if config is None:
        return {}
    from moonpool.configuration.servers import resolved_key  # noqa: PLC0415  reads configurations

    return {
        server.server_id: ServerTrust(
            trusted=server.trusted,
            idempotent=server.idempotent,
            timeout_s=server.timeout_s,
            digest=resolved_key(server),
            address=clip(redactor.text(server.reached_by, Tally()), _ADDRESS_CHARS_MAX),
            config_file=config.source,
            may_log_in=server.may_log_in,
        )
        for server in config.servers
    }


@dataclass(frozen=True, slots=True)
class ParkingApprovals:
    """An approval service that stops the execution's clock while a person is asked."""

    approvals: ApprovalService
    deadline: Deadline

    async def settle(self, request: ApprovalRequest, facts: CallFacts | None = None) -> ApprovalAnswer:
        with self.deadline.paused() as pause:
            answer = await self.approvals.settle(request, facts)
            pause.approved = answer.state is ApprovalState.APPROVED
            return answer


def local_principal() -> str:
    """The principal of the user who started this process."""
    try:
        return f"local:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"local:uid-{os.geteuid()}"
