"""Approvals in this face: the client asks its user, by MCP elicitation (X-06).

A question goes to the client whose request the execution belongs to, if that client declared form elicitation and the
revision has a way back (2025-06-18 and 2025-11-25; in 2026-07-28 a server sends no requests). Everywhere else the call
is denied, and the answer says which rule would allow it.

SECURITY: only the action `accept` together with an explicit `allow: true` is a yes. What is shown was redacted and
bounded before it came here.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.broker.approval import DenyApprover, approve, reject
from moonpool.broker.phrases import clip
from moonpool.core.policy import allow_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from moonpool.broker.approval import ApprovalAnswer, ApprovalRequest
    from moonpool.broker.context import CallContext
    from moonpool.core.json import JsonObject
    from moonpool.runtime.deadline import Deadline
    from moonpool.runtime.runs import Ticket
    from moonpool.runtime.tools import ToolSnapshot

NAME: Final = "mcp:elicitation"
FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": False}},
    "required": ["allow"],
}
_ARGUMENTS_CHARS_MAX: Final = 2_000


class Asker(Protocol):
    """Puts a form to the user of one client; returns the action and what was filled in."""

    async def __call__(self, message: str, form: JsonObject) -> tuple[str, Mapping[str, object]]: ...


@dataclass(slots=True)
class _Asking:
    """One request of a client: who asks its user, and which executions it has started."""

    asker: Asker
    runs: list[str] = field(default_factory=list[str])


_asking: ContextVar[_Asking | None] = ContextVar("moonpool_asking", default=None)


class ElicitingApprover:
    """An `Approver` for `bootstrap.assemble`; the face tells it who can be asked about which execution."""

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        self._nobody = DenyApprover(report, why="this MCP client cannot ask its user (no form elicitation)")
        self._askers: dict[str, Asker] = {}

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        asker = self._askers.get(request.run_id)
        if asker is None:
            return await self._nobody.ask(request)
        action, content = await asker(_question(request), FORM)
        if action == "accept" and content.get("allow") is True:
            return approve(request, NAME)
        how = "cancelled the question" if action == "cancel" else "did not allow the call"
        hint = request.remedy or allow_hint(request.server_id, request.tool_name)
        return reject(request, NAME, f"the user {how}; to stop asking about this tool, {hint}")

    @contextmanager
    def asking(self, asker: Asker | None) -> Generator[None]:
        """Executions that start inside the block, with a ticket of `ticket`, ask `asker`."""
        asking = None if asker is None else _Asking(asker)
        token = _asking.set(asking)
        try:
            yield
        finally:
            _asking.reset(token)
            for run_id in asking.runs if asking is not None else ():
                self._askers.pop(run_id, None)

    def ticket(self, ticket: Ticket) -> Ticket:
        """`ticket`, with its executions bound to the request that started them."""

        def make_context(
            run_id: str,
            trace_id: str,
            session_id: str,
            code_digest: str,
            language: str,
            snapshot: Callable[[], ToolSnapshot],
            deadline: Deadline,
        ) -> CallContext:
            asking = _asking.get()  # the execution's task was made by the request's, so it has its context
            if asking is not None:
                asking.runs.append(run_id)
                self._askers[run_id] = asking.asker
            return ticket.make_context(run_id, trace_id, session_id, code_digest, language, snapshot, deadline)

        return replace(ticket, make_context=make_context)


def _question(request: ApprovalRequest) -> str:
    return (
        f"Code wants to call {request.server_id}.{request.tool_name}.\n"
        f"Arguments: {clip(request.arguments, _ARGUMENTS_CHARS_MAX)}\n"
        f"Asked because {request.reason}."
    )
