"""One call and what its principal has used at all processes that share a database (`budgets.SharedLedger`).

The usage is looked up before the call is decided, and the decision is made in one step with the reservation in memory,
as without a database. Then the reservation is made in the database, in a transaction that looks whether the decision is
still right with the usage of that moment; else the call is decided anew.

INVARIANT: what a principal's calls take at all replicas together, no decision has overlooked.
SECURITY: what cannot be counted is refused.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from moonpool.core.calls import CallErrorType
from moonpool.core.errors import MoonpoolError
from moonpool.pipeline.budgets import Taken, result_limit, result_told
from moonpool.pipeline.call_state import Refusal
from moonpool.policy import Scope, Verdict, decide

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from moonpool.pipeline.call_state import CallState
    from moonpool.policy import CallFacts, Usage

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_ATTEMPT_COUNT: Final = 8
"""Each other call that comes between can change the decision once or twice."""


async def look_up(call: CallState) -> None:
    """What the principal has used everywhere. Raises Refusal."""
    if (shared := call.context.grant.shared) is not None:
        call.shared_usage = await _counted(call, shared.usage(call.name))


async def reserve(call: CallState, facts: CallFacts) -> None:
    """Take what the call needs. Afterwards `call.decision` may be another; if it denies, nothing was taken.

    Raises Refusal.
    """
    context = call.context
    if (shared := context.grant.shared) is None:
        return
    policy = context.grant.policy
    taken = Taken(
        tool=call.name,
        argument_bytes=facts.argument_bytes,
        cost=policy.cost(call.resolved),
        wall_s=context.grant.key.new_wall_s(),
        at=time.time(),
    )
    for _ in range(_ATTEMPT_COUNT):
        assert call.decision is not None
        verdict = call.decision.verdict
        if verdict is Verdict.DENY:
            return

        def holds(usage: Usage, verdict: Verdict = verdict) -> bool:
            return decide(policy, _with(facts, usage)).verdict is verdict

        now = await _counted(call, shared.reserve(taken, holds))
        if now is None:
            call.shared_taken = taken
            return
        call.decision = decide(policy, _with(facts, now))
    raise _uncounted(call)


async def give_back(call: CallState) -> None:
    """The call is over; what was not sent is free again. Idempotent."""
    taken, call.shared_taken = call.shared_taken, None
    if taken is None or (shared := call.context.grant.shared) is None:
        return
    try:
        await shared.give_back(taken)
    except MoonpoolError as exc:
        _log.warning("a call that was not sent stays counted: %s", exc)


async def let_in(call: CallState, size: int) -> None:
    """Count the bytes of a result. Raises Refusal when a budget has not as many left."""
    grant = call.context.grant
    if grant.shared is not None:
        left = await _counted(call, grant.shared.let_in(size, result_limit(grant.policy, Scope.KEY)))
        if left is not None:
            raise call.too_large(size, result_told(Scope.KEY, left))
    call.let_in(size)


def _with(facts: CallFacts, usage: Usage) -> CallFacts:
    return replace(facts, usage={**facts.usage, Scope.KEY: usage})


async def _counted(call: CallState, counting: Awaitable[_T]) -> _T:
    try:
        return await counting
    except MoonpoolError as exc:
        _log.error("a tool call was refused, because its budgets cannot be counted: %s", exc)
        raise _uncounted(call) from exc


def _uncounted(call: CallState) -> Refusal:
    problem = f"the budgets of {call.name} cannot be counted now; the operator sees why"
    return Refusal(CallErrorType.INTERNAL, problem, retryable=True)
