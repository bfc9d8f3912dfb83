"""The executions of one tenant that requests wait for: who owns them, how many there are, what is kept of them.

A face holds the view of one principal (`Executions.of`). Whatever names an execution is looked up in such a view only,
so an id or a state of another principal or tenant is as unknown there as one that never was. What a call does and how
it is waited for: `pending_calls`; what a restart leaves: `kept_executions`.

INVARIANT: at most `Bounds.detached_max` executions of a principal, and four times as many of a tenant, go on without a
request that waits for them. A request that would leave one more waits on, and further ones are refused.
SECURITY: a state comes back from outside. It is sealed with a key of this process and bound to owner, request and the
questions it was given out with. Everything that is wrong with one has the same error.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.engine.output_window import OutputWindow
from moonpool.engine.pending_calls import ParkedCall
from moonpool.engine.request_state import RequestState, RequestStateError, StateSeal
from moonpool.pipeline.request_responder import AnswererGoneError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.kept_executions import KeptExecutions
    from moonpool.engine.open_questions import OpenQuestion
    from moonpool.engine.pending_calls import Work
    from moonpool.settings import Settings

OPEN_COUNT_MAX: Final = 16
KEPT_COUNT_MAX: Final = 64
OUTCOME_KEPT_S: Final = 600.0
"""How long after its questions have ended a call can still be resumed."""
TENANT_KEPT_COUNT_MAX: Final = 512
TENANT_KEPT_SHOWN_MAX: Final = 64 * 1024**2
"""Of what outcomes in memory show; the newest is kept in any case."""
TENANT_SHARES: Final = 4
"""How many principals may have as many executions in the background as one may."""
ENDED_OUTPUT_BYTES: Final = 64 * 1024
"""Kept of the output of a call that is over, whose outcome has it."""


class ExecutionsBusyError(MoonpoolError):
    """Too many executions of this principal or tenant go on without a request. The code was not started."""

    code = "executions_busy"
    fault = Fault.CALLER
    retryable = True

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} executions go on in the background already, and no more may; wait for one of them, or cancel it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one principal's executions."""

    kept_s: float  # how long an outcome can be asked for again from memory
    parked_max: int  # executions with open questions
    detached_max: int  # executions that go on without a request
    window_bytes: int  # of the output of one

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of an operator. The window is no smaller than what both streams may have before they have artifacts."""
        return cls(
            kept_s=settings.approval_expiry_s + OUTCOME_KEPT_S,
            parked_max=settings.parked_runs_max,
            detached_max=settings.detached_runs_max,
            window_bytes=settings.stdout_bytes_max + settings.stderr_bytes_max,
        )


class Executions:
    """All principals' executions of one tenant. Used on one event loop."""

    def __init__(self, bounds: Bounds, kept: KeptExecutions) -> None:
        self.bounds, self.kept = bounds, kept
        self._views: dict[str, PrincipalExecutions] = {}
        self._over: dict[str, tuple[PrincipalExecutions, int]] = {}  # in memory, by id, with its size; the oldest first
        self._over_size = 0
        self.detached_count = 0  # that go on by themselves
        self._keeping: set[asyncio.Task[None]] = set()

    def of(self, principal: str) -> PrincipalExecutions:
        """Those of one principal, also of those that have none yet; `bootstrap.caller_grants` bounds how many."""
        view = self._views.get(principal)
        if view is None:
            view = self._views[principal] = PrincipalExecutions(principal, self)
        return view

    def remember_over(self, call_id: str, view: PrincipalExecutions, size: int) -> None:
        """An execution is over and stays in memory for a while; the oldest of the tenant make room."""
        self._over[call_id] = view, size
        self._over_size += size
        while len(self._over) > TENANT_KEPT_COUNT_MAX or (
            self._over_size > TENANT_KEPT_SHOWN_MAX and len(self._over) > 1
        ):
            oldest, (its_view, _) = next(iter(self._over.items()))
            its_view.drop(oldest)

    def forget_over(self, call_id: str) -> None:
        """It is no longer in memory."""
        _, size = self._over.pop(call_id, (None, 0))
        self._over_size -= size

    def soon(self, work: Coroutine[object, object, None]) -> None:
        """Do it beside; `close` waits for it."""
        task = asyncio.ensure_future(work)
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def close(self) -> None:
        """End every execution; what ended by itself has been kept when this returns."""
        await asyncio.gather(*(call.end() for view in self._views.values() for call in view.calls))
        await self.settled()

    async def settled(self) -> None:
        """Wait until what has ended is kept."""
        while self._keeping:
            await asyncio.wait(self._keeping)


class PrincipalExecutions:
    """Those of one principal; made by `Executions.of`."""

    def __init__(self, principal: str, tenant: Executions) -> None:
        self._principal, self._tenant, self._bounds = principal, tenant, tenant.bounds
        self._seal = StateSeal(principal, valid_s=tenant.bounds.kept_s)
        self._calls: dict[str, ParkedCall] = {}
        self.detached_count = 0  # that go on by themselves

    @property
    def calls(self) -> tuple[ParkedCall, ...]:
        """Those that go on, and those whose outcome is kept."""
        return tuple(self._calls.values())

    def start(self, key: str, work: Work, opener: object = None) -> ParkedCall:
        """Begin a call. `key` is the digest of its request: repeats must be of the same. Raises ExecutionsBusyError."""
        if not self._has_room():
            raise ExecutionsBusyError(self.detached_count)
        call = ParkedCall(key, self, opener, OutputWindow(self._bounds.window_bytes))
        self._calls[call.call_id] = call
        call.begin(work)
        return call

    def find(self, execution_id: str) -> ParkedCall | None:
        """One that goes on here, or has ended and is still in memory."""
        return self._calls.get(execution_id)

    async def recall(self, execution_id: str, *, within_s: float = 0.0, cancel: bool = False) -> JsonObject | None:
        """The kept envelope of one that is not in memory; None while another replica runs it (`KeptExecutions.find`).

        Raises ExecutionUnknownError, ExecutionLostError, ExecutionCancelledError, DatabaseError.
        """
        return await self._tenant.kept.find(execution_id, self._principal, within_s=within_s, cancel=cancel)

    async def remember(self, call: ParkedCall) -> None:
        """Before its id is given out: a restart must not make it unknown. Whoever cancels that never had the id."""
        if call.is_marked:
            return
        try:
            await self._tenant.kept.mark(call.call_id, self._principal)
        except asyncio.CancelledError:
            if not call.waited_for:
                await call.cancel()
            raise
        call.is_marked = True
        if call.over:  # meanwhile
            await self._settle_mark(call)

    async def _keep(self, call: ParkedCall, outcome: Envelope | None) -> None:
        """INVARIANT: its mark says that it has ended after its outcome is there, which others may wait for."""
        if outcome is not None:
            await self._tenant.kept.keep(outcome, self._principal)
        if call.detached:
            await self._settle_mark(call)

    async def _settle_mark(self, call: ParkedCall) -> None:
        """It is over, and its mark says so. What ended with this process keeps the mark of one that runs."""
        if call.has_outcome:
            await self._tenant.kept.end(call.call_id, self._principal)
        elif not call.is_lost:
            await self._tenant.kept.forget(call.call_id)

    def resume(self, sealed: str, key: str, answers: Mapping[str, JsonValue]) -> ParkedCall:
        """The call that `sealed` belongs to, with `answers` taken. Raises RequestStateError."""
        state = self._seal.opened(sealed)
        call = self._calls.get(state.call_id)
        if call is None or state.key != key or call.key != key:
            raise RequestStateError
        taken = {name: answer for name, answer in answers.items() if isinstance(answer, dict)}
        call.questions.answer(taken, state.questions)
        return call

    def repeated(self, key: str, opener: object = None) -> ParkedCall | None:
        """The call that was set aside and whose request comes again, to whom it came first.

        INVARIANT: until somebody has its outcome, or it is kept no more, every such request waits for it. None begins
        the code anew.
        """
        aside = (call for call in self._calls.values() if call.set_aside and call.opener is opener)
        return next((call for call in aside if call.key == key), None)

    def state_of(self, call: ParkedCall, questions: Iterable[OpenQuestion]) -> str:
        """What the client brings back to wait for `call` again, and to answer `questions`."""
        call.given_out = True
        names = tuple(question.question_id for question in questions)
        return self._seal.sealed(RequestState(call_id=call.call_id, key=call.key, questions=names))

    def refuse_more(self, call: ParkedCall) -> None:
        """Raises AnswererGoneError when `call` may not ask now."""
        if len(call.open) >= OPEN_COUNT_MAX:
            raise AnswererGoneError(f"{OPEN_COUNT_MAX} questions of this execution are open already")
        parked_max = self._bounds.parked_max
        if not call.open and sum(bool(other.open) for other in self._calls.values()) >= parked_max:
            raise AnswererGoneError(f"{parked_max} executions wait for answers already")

    def detach(self, call: ParkedCall) -> bool:
        """Have `call` go on while nobody waits for it; False: too many do."""
        del call
        has_room = self._has_room()
        self._count(+has_room)
        return has_room

    def ended(self, call: ParkedCall, outcome: Envelope | None) -> None:
        """A call is over."""
        call.output.shrink(ENDED_OUTPUT_BYTES)
        self._count(-call.detached)
        if call.detached or not call.waited_for:
            self._tenant.soon(self._keep(call, outcome))
        if not call.given_out:
            self._calls.pop(call.call_id, None)
            return
        asyncio.get_running_loop().call_later(self._bounds.kept_s, self.drop, call.call_id)
        self._tenant.remember_over(call.call_id, self, 0 if outcome is None else outcome.shown_size)
        over = [other for other in self._calls.values() if other.over and other is not call]
        over.sort(key=lambda other: other.set_aside)  # first those whose outcome somebody has; then the oldest
        for old in over[: max(0, len(over) + 1 - KEPT_COUNT_MAX)]:
            self.drop(old.call_id)

    def drop(self, call_id: str) -> None:
        """Keep it in memory no longer."""
        self._calls.pop(call_id, None)
        self._tenant.forget_over(call_id)

    def _has_room(self) -> bool:
        most = self._bounds.detached_max
        return self.detached_count < most and self._tenant.detached_count < most * TENANT_SHARES

    def _count(self, change: int) -> None:
        self.detached_count += change
        self._tenant.detached_count += change
