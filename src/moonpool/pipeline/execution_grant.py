"""In whose name an execution's tool calls are made, and what they may do. All of it is frozen before the first call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from moonpool.core.languages import PYTHON
from moonpool.pipeline.budgets import Ledger, SharedLedger
from moonpool.policy import Hints, Policy, effective_hints, glob_matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.manifest import ToolDefinition
    from moonpool.pipeline.approval import ApprovalService
    from moonpool.pipeline.request_responder import RequestResponder


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIdentity:
    """Whose calls they are: what stands in every record."""

    run_id: str
    trace_id: str
    principal: str
    session_id: str
    code_digest: str
    language: str = PYTHON


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Limits on the tool calls of one execution."""

    calls_max: int = 1000
    concurrent_max: int = 32  # calls that are at an upstream at the same time; more wait their turn
    timeout_s: float = 60.0
    result_bytes_max: int = 64 * 1024**2
    questions_max: int = (
        16  # of one execution that are open at once; more wait their turn, so that other executions can ask too
    )
    near_names_max: int = 20  # calls with unknown names for which near ones are looked up; others are only refused
    examples_max: int = 20  # refusals that include an example call


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrust:
    """What the host says about one server: whether its annotations count, which tools may be repeated, its timeout."""

    trusted: bool = False
    idempotent: tuple[str, ...] = ()  # globs of tools that the host knows to be repeatable
    timeout_s: float | None = None  # instead of the execution's
    digest: str = ""  # of the configuration by which it is reached: what was approved for it belongs to that
    address: str = ""  # its command or URL, without secrets
    config_file: str = ""  # where that stands
    may_log_in: bool = False  # it is sent a login of ours, as soon as there is one

    def hints(self, tool: ToolDefinition) -> Hints:
        return effective_hints(tool, trusted=self.trusted)

    def repeatable(self, tool: ToolDefinition, hints: Hints) -> bool:
        """True when a second try does no harm: by a trusted hint or the host's configuration (X-21)."""
        return hints.repeatable or any(glob_matches(glob, tool.name) for glob in self.idempotent)


UNKNOWN_SERVER = ServerTrust()


class ClientConsent(Protocol):
    """Whether a user agreed that the OAuth client by which they call uses logins of ours (`features.consents`)."""

    async def holds(self, server_id: str, server_digest: str, /) -> bool:
        """Raises MoonpoolError if that cannot be known now."""
        ...

    def remedy(self, server_id: str, /) -> str:
        """What gives the consent. For the operator, never for code or a model."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionGrant:
    """What the calls of an execution may do, and who can be asked about them."""

    approvals: ApprovalService
    responder: RequestResponder | None = None  # answers server requests
    policy: Policy = field(default_factory=Policy)
    trust: Mapping[str, ServerTrust] = field(default_factory=dict[str, ServerTrust])
    limits: CallLimits = field(default_factory=CallLimits)
    consent: ClientConsent | None = None  # of a caller by an OAuth client; None: of another
    key: Ledger = field(default_factory=Ledger)  # what the principal has used, here
    shared: SharedLedger | None = None  # and everywhere, where a budget wants to know that
