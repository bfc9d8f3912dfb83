"""Who can be asked what servers want to know, for callers that have one such person: the command line and its sessions.

The MCP face binds its executions to its clients by itself (`faces.mcp.asking`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.broker.call_in_hand import Respondent
    from moonpool.broker.context import CallContext
    from moonpool.runtime.deadline import Deadline
    from moonpool.runtime.runs import Ticket
    from moonpool.runtime.tools import ToolSnapshot


def answered_by(ticket: Ticket, respondent: Callable[[], Respondent | None]) -> Ticket:
    """`ticket`, with `respondent` at the beginning of an execution as whom its servers may ask."""

    def make_context(
        run_id: str,
        trace_id: str,
        session_id: str,
        code_digest: str,
        language: str,
        snapshot: Callable[[], ToolSnapshot],
        deadline: Deadline,
    ) -> CallContext:
        made = ticket.make_context(run_id, trace_id, session_id, code_digest, language, snapshot, deadline)
        made.respondent = respondent()
        return made

    return replace(ticket, make_context=make_context)
