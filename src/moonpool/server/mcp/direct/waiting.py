"""Direct calls that wait for answers of their client, across requests: those of one principal.

They are waited for as executions are (`engine.pending_calls`), but nothing of them outlives this process or is kept: a
call without code has no output to read later. A client that asks for input and never comes back leaves calls behind,
each with a place at its server, so above `WAITING_MAX` the oldest of these ends for a further one.

INVARIANT: a state that a client brings back fits one call, of this principal, with the same request, that goes on or
ended by itself; all else has one error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError
from moonpool.engine.executions import OUTCOME_KEPT_S
from moonpool.engine.output_window import OutputWindow
from moonpool.engine.pending_calls import ExecutionCancelledError, Parked, Patience, Pause
from moonpool.engine.request_state import RequestState, RequestStateError, StateSeal
from moonpool.pipeline.request_responder import AnswererGoneError
from moonpool.server.mcp.approval_pending import ApprovalPendingError
from moonpool.server.mcp.client_requests import LeavingAsker
from moonpool.server.mcp.connection_calls import CONNECTION_OVER, InputNeeded

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from moonpool.core.calls import ToolCallOutcome
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.connection_calls import Caller
    from moonpool.settings import Settings

    Call = Parked[ToolCallOutcome]
    Work = Callable[[Call], Coroutine[object, object, ToolCallOutcome]]

WAITING_MAX: Final = 5
"""Calls that ask something and that their client has left."""
OPEN_COUNT_MAX: Final = 16
KEPT_COUNT_MAX: Final = 64


class WaitingCalls:
    """The calls of one principal. `waiting` says which approvals an execution waits for."""

    def __init__(
        self,
        settings: Settings,
        principal: str,
        bindings: Bindings,
        waiting: Callable[[str], Sequence[ApprovalRequest]],
    ) -> None:
        self._settings, self._bindings, self._waiting = settings, bindings, waiting
        self._kept_s = settings.approval_expiry_s + OUTCOME_KEPT_S
        self._seal = StateSeal(principal, valid_s=self._kept_s)
        self._calls: dict[str, Call] = {}
        self._gave_way = set[str]()
        self._ending = set[asyncio.Task[None]]()
        self._is_closed = False

    async def outcome(self, said: str, key: str, work: Work, caller: Caller) -> ToolCallOutcome | InputNeeded:
        """What `work` came to, or what it asks. `key` is the digest of the request: repeats must be of the same.

        Raises RequestStateError, ApprovalPendingError, and what `work` raises.
        """
        call = self._call(key, work, caller)
        asker = caller.asker(call)
        patience = Patience(elsewhere_s=self._settings.approval_wait_s, elsewhere=lambda: self._waits_for_others(call))
        try:
            with call.attended(caller.listener, asker, asks_later=isinstance(asker, LeavingAsker)):
                outcome = await call.outcome(patience)
        except ExecutionCancelledError:
            raise RequestStateError from None
        if isinstance(outcome, Pause):
            raise ApprovalPendingError(self._asked_by(call), said)
        if isinstance(outcome, tuple):
            call.given_out = True
            names = tuple(question.question_id for question in outcome)
            state = RequestState(call_id=call.call_id, key=call.key, questions=names)
            return InputNeeded(questions=outcome, state=self._seal.sealed(state))
        return outcome

    @property
    def is_busy(self) -> bool:
        """Whether a call goes on."""
        return any(not call.over for call in self._calls.values())

    def leave(self) -> int:
        """The client has disconnected; returns how many calls go on because they wait in the queue of approvals."""
        for call in self._calls.values():
            call.client_left(spared=not call.over and not call.open and bool(self._asked_by(call)))
        return sum(call.spared for call in self._calls.values())

    async def wait_spared(self) -> None:
        """Wait until those have ended."""
        while spared := [call for call in self._calls.values() if call.spared and not call.over]:
            await asyncio.gather(*(call.finished() for call in spared), return_exceptions=True)

    async def close(self) -> None:
        """End every call, and begin none."""
        self._is_closed = True
        calls = tuple(self._calls.values())
        for call in calls:
            call.client_left(spared=call.spared)
        await asyncio.gather(*(call.end() for call in calls), *self._ending, return_exceptions=True)

    # --- as the owner of its calls (`pending_calls.CallOwner`)

    def refuse_more(self, call: Call) -> None:
        """Raises AnswererGoneError when `call` may not ask now."""
        if len(call.open) >= OPEN_COUNT_MAX:
            raise AnswererGoneError(f"{OPEN_COUNT_MAX} questions of this call are open already")
        left = [other for other in self._calls.values() if other.open and not other.waited_for]
        left = [other for other in left if other.call_id not in self._gave_way]
        if not call.open and len(left) >= WAITING_MAX:
            self._gave_way.add(left[0].call_id)
            ending = asyncio.ensure_future(left[0].end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def detach(self, call: Call) -> bool:
        """No: nobody has its id."""
        del call
        return False

    def ended(self, call: Call, outcome: ToolCallOutcome | None) -> None:
        """It is over; its outcome can be asked for again for a while, if somebody has a state of it."""
        self._gave_way.discard(call.call_id)
        if outcome is None or not (call.given_out or call.set_aside):
            self._calls.pop(call.call_id, None)
            return
        asyncio.get_running_loop().call_later(self._kept_s, self._calls.pop, call.call_id, None)
        over = [other for other in self._calls.values() if other.over and other is not call]
        for old in over[: max(0, len(over) + 1 - KEPT_COUNT_MAX)]:
            self._calls.pop(old.call_id, None)

    def _call(self, key: str, work: Work, caller: Caller) -> Call:
        """The call that this request begins, repeats or resumes. Raises RequestStateError."""
        answers = {name: answer for name, answer in caller.answers.items() if isinstance(answer, dict)}
        if caller.state is not None:
            state = self._seal.opened(caller.state)
            call = self._calls.get(state.call_id)
            if call is None or state.key != key or call.key != key:
                raise RequestStateError
            call.questions.answer(answers, state.questions)
            return call
        if self._is_closed:  # SECURITY: as in `ConnectionCalls`
            raise InputError(CONNECTION_OVER)
        set_aside = (call for call in self._calls.values() if call.set_aside and call.key == key)
        if (call := next(set_aside, None)) is None:
            call = Parked["ToolCallOutcome"](key, self, self, OutputWindow(0))
            call.questions.early = answers
            self._calls[call.call_id] = call
            call.start(work(call))
        return call

    def _asked_by(self, call: Call) -> list[ApprovalRequest]:
        return [one for run_id in call.run_ids for one in self._waiting(run_id)]

    def _waits_for_others(self, call: Call) -> bool:
        """Whether it waits only for answers that its client is not asked for."""
        asked = {one.request_id for one in self._asked_by(call)}
        return bool(asked) and asked.isdisjoint(self._bindings.at_client)
