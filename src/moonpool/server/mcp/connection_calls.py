"""The calls that one set of tools begins: waited for, resumed with answers, left to go on, ended with the tools.

What a call does is its tool's; whom it asks meanwhile is told to `client_requests`. How calls outlive requests:
`moonpool.engine.pending_calls`; whose they are: `moonpool.engine.executions`.
"""

from __future__ import annotations

import asyncio
import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from moonpool.core.errors import InputError
from moonpool.engine.kept_executions import ExecutionLostError
from moonpool.engine.pending_calls import ExecutionCancelledError, Patience, Pause
from moonpool.engine.request_state import RequestStateError
from moonpool.server.mcp.approval_pending import ApprovalPendingError
from moonpool.server.mcp.client_requests import LeavingAsker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.executions import Executions
    from moonpool.engine.open_questions import OpenQuestion
    from moonpool.engine.pending_calls import Listener, Parked, ParkedCall, Work
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.pipeline.request_responder import RequestResponder
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.settings import Settings

OUTPUT_BYTES_MAX: Final = 20_000
"""Of output in one answer about an execution that goes on."""
CONNECTION_OVER: Final = "nothing is begun here any more: this connection, or the right to it, has ended"


class CallingApp(Protocol):
    """What calls need of the application (`moonpool.bootstrap.Tenant`)."""

    @property
    def settings(self) -> Settings: ...
    @property
    def caller_grant(self) -> CallerGrant: ...
    @property
    def executions(self) -> Executions: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client's side of one request to execute code."""

    listener: Listener | None = None  # hears output and progress while this request waits
    asker: Callable[[Parked[Any]], RequestResponder | None] = lambda _: (
        None
    )  # the client that a call started by this request may ask
    state: str | None = None  # of the call that this request resumes
    answers: Mapping[str, JsonValue]  # to the call's questions


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNeeded:
    """Questions that the call needs answered to continue."""

    questions: tuple[OpenQuestion, ...]
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The call goes on; or was cancelled, with output that nobody has had."""

    execution_id: str
    output: str  # what came since the last answer, or from the offset asked for
    missing: int  # bytes before it that are kept no more
    next_offset: int
    total: int  # bytes of output so far
    cancelled: ExecutionCancelledError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRequest:
    """What to wait for, and how long."""

    execution_id: str
    patience_s: float | None  # None: the operator's
    offset: int | None  # None: where the last answer about it ended
    cancel: bool


class ConnectionCalls:
    """The calls of one set of tools. `waiting` says which approvals an execution waits for."""

    def __init__(
        self, app: CallingApp, bindings: Bindings, waiting: Callable[[str], Sequence[ApprovalRequest]]
    ) -> None:
        self._settings, self._bindings, self._waiting = app.settings, bindings, waiting
        self._executions = app.executions
        self._calls = app.executions.of(app.caller_grant.principal)
        self._is_closed = False

    async def outcome(self, tool: str, key: str, work: Work, caller: Caller) -> Envelope | InputNeeded:
        """What `work` came to, or what it asks. `key` is the digest of the request: repeats must be of the same.

        Raises RequestStateError, ApprovalPendingError, ExecutionsBusyError, and what `work` raises.
        """
        reached = await self._reached(self._call(tool, key, work, caller), tool, None, caller)
        assert not isinstance(reached, Running)
        return reached

    async def begun(
        self, tool: str, key: str, work: Work, caller: Caller, patience_s: float | None
    ) -> Envelope | InputNeeded | Running:
        """The same, but it is waited for at most `patience_s`, and no longer than the operator says."""
        call = self._call(tool, key, work, caller)
        return await self._reached(call, tool, self._patience_s(patience_s), caller)

    async def wait(
        self, tool: str, request: WaitRequest, caller: Caller
    ) -> Envelope | JsonObject | InputNeeded | Running:
        """The same of a call that was begun before; JSON is the envelope of one that ended long ago.

        Raises ExecutionUnknownError, ExecutionLostError too.
        """
        call = self._calls.find(request.execution_id)
        if call is None:
            return await self._recalled(request)
        if caller.state is not None and self._calls.resume(caller.state, call.key, caller.answers) is not call:
            raise RequestStateError
        if request.cancel:
            await call.cancel()
        if request.offset is not None:
            call.output.read(request.offset, 0)  # a wrong one is said at once
        return await self._reached(call, tool, self._patience_s(request.patience_s), caller, request.offset)

    async def _recalled(self, request: WaitRequest) -> JsonObject | Running:
        """What is kept of an execution that is not in memory, or goes on at another replica, which has its output."""
        cancelled: ExecutionCancelledError | None = None
        try:
            found = await self._calls.recall(
                request.execution_id, within_s=self._patience_s(request.patience_s), cancel=request.cancel
            )
        except ExecutionCancelledError as error:
            found, cancelled = None, error
        if found is not None:
            return found
        at = request.offset or 0
        return Running(
            execution_id=request.execution_id, output="", missing=0, next_offset=at, total=at, cancelled=cancelled
        )

    def session_of(self, execution_id: str) -> str | None:
        """The name of the session that it runs in, if any."""
        call = self._calls.find(execution_id)
        return None if call is None else call.session

    def leave(self) -> int:
        """The client has disconnected; returns how many executions continue because they wait in the queue of
        approvals.
        """
        for call in self._own:
            spared = not call.over and not call.open and bool(self._asked_by(call))
            call.client_left(spared=spared)
        return sum(call.spared for call in self._own)

    async def wait_spared(self) -> None:
        """Wait until those executions have ended."""
        while spared := [call for call in self._own if call.spared and not call.over]:
            await asyncio.gather(*(call.finished() for call in spared), return_exceptions=True)

    async def close(self) -> None:
        """End every call that began here, and begin none; what ended by itself has been kept when this returns."""
        self._is_closed = True
        for call in self._own:
            call.client_left(spared=call.spared)
        await asyncio.gather(*(call.end() for call in self._own))
        await self._executions.settled()

    @property
    def is_busy(self) -> bool:
        """Whether a call that began here goes on, with or without a request that waits for it."""
        return any(not call.over for call in self._own)

    @property
    def _own(self) -> list[ParkedCall]:
        return [call for call in self._calls.calls if call.opener is self]

    def _call(self, tool: str, key: str, work: Work, caller: Caller) -> ParkedCall:
        """The call that this request begins, repeats or resumes."""
        key = f"{tool} {key}"  # a state of another tool, also of another profile, does not fit
        if caller.state is not None:
            return self._calls.resume(caller.state, key, caller.answers)
        if self._is_closed:  # SECURITY: a request of a caller whose key was revoked may be on its way
            raise InputError(CONNECTION_OVER)
        return self._calls.repeated(key, self) or self._calls.start(key, work, opener=self)

    async def _reached(
        self, call: ParkedCall, tool: str, patience_s: float | None, caller: Caller, offset: int | None = None
    ) -> Envelope | InputNeeded | Running:
        patience = Patience(
            running_s=patience_s,
            elsewhere_s=self._settings.approval_wait_s,
            elsewhere=lambda: self._waits_elsewhere(call),
            asked=lambda: bool(self._asked_by(call)) and self._waits_elsewhere(call),
        )
        asker = caller.asker(call)
        try:
            with call.attended(caller.listener, asker, asks_later=isinstance(asker, LeavingAsker)):
                outcome = await call.outcome(patience)
        except ExecutionCancelledError as cancelled:
            if not call.detached:
                raise
            if call.is_lost:
                raise ExecutionLostError(call.call_id) from None
            return _running(call, offset, cancelled)
        if outcome is Pause.ELSEWHERE:
            raise ApprovalPendingError(self._asked_by(call), tool)
        if outcome is Pause.RUNNING:
            await self._calls.remember(call)
            return _running(call, offset)
        if isinstance(outcome, tuple):
            return InputNeeded(questions=outcome, state=self._calls.state_of(call, outcome))
        return outcome

    def _patience_s(self, asked: float | None) -> float:
        """Never more than the operator's: clients give up on requests, which would end what the request waits for."""
        most = self._settings.patience_s
        return most if asked is None else min(asked, most)

    def _asked_by(self, call: ParkedCall) -> list[ApprovalRequest]:
        return [one for run_id in call.run_ids for one in self._waiting(run_id)]

    def _waits_elsewhere(self, call: ParkedCall) -> bool:
        """Whether the call waits only for answers that its client is not asked for, or behind a call that does."""
        own = {one.request_id for one in self._asked_by(call)}
        if own or call.contexts:
            return bool(own) and own.isdisjoint(self._bindings.at_client)
        asking = (one for other in self._own if (one := {r.request_id for r in self._asked_by(other)}))
        return any(one.isdisjoint(self._bindings.at_client) for one in asking)


def _running(call: ParkedCall, offset: int | None, cancelled: ExecutionCancelledError | None = None) -> Running:
    """Its next output, or that from `offset`. A character that is not whole yet is left for the next answer."""
    piece = call.output.read(call.told_to if offset is None else offset, OUTPUT_BYTES_MAX)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(piece.data)
    call.told_to = piece.end - len(decoder.getstate()[0])
    return Running(
        execution_id=call.call_id,
        output=text,
        missing=piece.missing,
        next_offset=call.told_to,
        total=piece.total,
        cancelled=cancelled,
    )
