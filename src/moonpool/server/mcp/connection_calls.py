"""The calls of one connection: begun, waited for, resumed with answers, given up when the client leaves.

What a call does is its tool's; whom it asks meanwhile is told to `client_requests`. How calls outlive requests:
`moonpool.engine.pending_calls`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, cast

from moonpool.engine.pending_calls import ParkedCalls, T
from moonpool.server.mcp.approval_pending import ApprovalPendingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonValue
    from moonpool.engine.pending_calls import Listener, OpenQuestion, ParkedCall, Work
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.settings import Settings

OUTCOME_KEPT_S: Final = 600.0
"""How long after its questions have ended a call can still be resumed."""


class CallingApp(Protocol):
    """What calls need of the application (`moonpool.bootstrap.Tenant`)."""

    @property
    def settings(self) -> Settings: ...
    @property
    def caller_grant(self) -> CallerGrant: ...

    async def keep_outcome(self, envelope: Envelope, /) -> None:
        """Keep the outcome of an execution whose caller has disconnected."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client's side of one request to execute code."""

    listener: Listener | None = None  # hears output and progress while this request waits
    asker: Callable[[ParkedCall[Any]], RequestResponder | None] = lambda _: (
        None
    )  # the client that a call started by this request may ask
    state: str | None = None  # of the call that this request resumes
    answers: Mapping[str, JsonValue]  # to the call's questions


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNeeded:
    """Questions that the call needs answered to continue."""

    questions: tuple[OpenQuestion, ...]
    state: str


class ConnectionCalls(Generic[T]):
    """The calls of one connection. `waiting` says which approvals an execution waits for."""

    def __init__(
        self,
        app: CallingApp,
        bindings: Bindings,
        waiting: Callable[[str], Sequence[ApprovalRequest]],
        *,
        keep: Callable[[T], Awaitable[None]] | None,
        giving_way_at: int | None = None,
    ) -> None:
        """`keep` gets outcomes that nobody waited for. With `giving_way_at`, a call that would be one more than so
        many which wait for answers ends the oldest of them that its client has left waiting.
        """
        settings = app.settings
        self._bindings, self._waiting = bindings, waiting
        self._patience_s = settings.approval_wait_s
        self._calls = ParkedCalls[T](
            owner=app.caller_grant.principal,
            kept_s=settings.approval_expiry_s + OUTCOME_KEPT_S,
            parked_max=settings.parked_runs_max if giving_way_at is None else giving_way_at,
            keep=keep,
            gives_way=giving_way_at is not None,
        )

    async def outcome(self, tool: str, key: str, work: Work[T], caller: Caller) -> T | InputNeeded:
        """What `work` came to, or what it asks. `key` is the digest of the request: repeats must be of the same.

        Raises RequestStateError, ApprovalPendingError, and what `work` raises.
        """
        if caller.state is not None:
            call = self._calls.resume(caller.state, key, caller.answers)
        elif (call := self._calls.repeated(key)) is None:
            early = {name: answer for name, answer in caller.answers.items() if isinstance(answer, dict)}
            call = self._calls.start(key, work, early)
        with call.heard_by(caller.listener):
            outcome = await call.outcome(self._patience_s, lambda: self._waits_elsewhere(call))
        if outcome is None:
            raise ApprovalPendingError(self._asked_by(call), tool)
        if isinstance(outcome, tuple):  # no outcome of a call is one
            questions = cast("tuple[OpenQuestion, ...]", outcome)
            return InputNeeded(questions=questions, state=self._calls.state_of(call, questions))
        return outcome

    def leave(self) -> int:
        """The client has disconnected; returns how many executions continue because they wait in the queue of
        approvals.
        """
        return self._calls.leave(lambda call: bool(self._asked_by(call)))

    async def wait_spared(self) -> None:
        """Wait until those executions have ended."""
        await self._calls.wait_spared()

    async def close(self) -> None:
        """End every call."""
        await self._calls.close()

    def _asked_by(self, call: ParkedCall[T]) -> list[ApprovalRequest]:
        return [one for run_id in call.run_ids for one in self._waiting(run_id)]

    def _waits_elsewhere(self, call: ParkedCall[T]) -> bool:
        """Whether the call waits only for answers that its client is not asked for, or behind a call that does."""
        own = {one.request_id for one in self._asked_by(call)}
        if own or call.contexts:
            return bool(own) and own.isdisjoint(self._bindings.at_client)
        asking = (one for other in self._calls.calls if (one := {r.request_id for r in self._asked_by(other)}))
        return any(one.isdisjoint(self._bindings.at_client) for one in asking)
