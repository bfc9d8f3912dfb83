"""Who can be asked what servers want to know, for callers that have one such person: the command line and its sessions.

The MCP face binds its executions to its clients by itself (`server.mcp.client_requests`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.pipeline.call_state import CallContext
    from moonpool.pipeline.caller_grant import CallerGrant, RunFacts
    from moonpool.pipeline.request_responder import RequestResponder


def answered_by(caller: CallerGrant, responder: Callable[[], RequestResponder | None]) -> CallerGrant:
    """`caller`, with `responder` at the beginning of an execution as whom its servers may ask."""

    def make_context(facts: RunFacts) -> CallContext:
        return caller.make_context(replace(facts, responder=facts.responder or responder()))

    return replace(caller, make_context=make_context)
