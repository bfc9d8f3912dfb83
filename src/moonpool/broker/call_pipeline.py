"""The call pipeline from a sandbox to an upstream: every tool call passes here, and nothing else reaches a server.

Stages in a fixed order, none skipped: resolve (is the tool in this session's manifest?), validate, decide (policy),
approve (only if policy asks), call (the upstream attaches the credential; it never travels back), normalise and redact,
record. A stage refuses by raising `Refusal`, which becomes the typed error that the code in the sandbox sees. In a dry
run calls that may change something leave the pipeline after decide (`rehearsal`); under a plan those that are not in it
stop there and end the execution (`planned`).

INVARIANT: each call that enters the pipeline is recorded exactly once, also when a stage fails or is cancelled. Only
calls that the broker refuses by itself are counted instead, by kind, after the first hundred of an execution
(`refused_calls`). INVARIANT: what a call takes from budgets is reserved as it is decided, and labels of a result are
taken in before its code gets it; see `spending`. INVARIANT: the intent of a call that may change something is durable
before it leaves; the outcome of every call is committed before its result is returned. When the journal cannot keep
them, the call is refused (fail closed). SECURITY: arguments, results and names are hostile data. They are bounded and
redacted before anybody sees them; nothing here evaluates or logs them. What goes wrong on the host is told to the
operator's log, not to the guest.

The first two stages are `resolving`; policy is `moonpool.core.policy`; who is asked is `approval`, and what they are
shown `shown_calls`; what an execution brings along is `context`; what one call gathers on its way is `passage`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread
import msgspec

from moonpool.broker.call_in_hand import CallInHand, in_hand
from moonpool.broker.call_observer import tell
from moonpool.broker.call_result import CallResult, receive_result
from moonpool.broker.call_state import CallState, Refusal
from moonpool.broker.failures import PASSING_CAUSES, upstream_failure
from moonpool.broker.phrases import on_one_line, printable, storable
from moonpool.broker.recording import CANCELLED, CallRecorder
from moonpool.broker.redaction import Tally
from moonpool.broker.resolving import Resolving
from moonpool.broker.shown_calls import line_of_plan, question_about
from moonpool.broker.upstreams.base import UpstreamCallTimeoutError, UpstreamError
from moonpool.broker.upstreams.callers import calling_as
from moonpool.broker.validation import LARGE_BYTES, SchemaChecks
from moonpool.core.audit import JournalError
from moonpool.core.calls import ApprovalState, CallError, CallErrorType, ToolCallOutcome, ToolCallSpec
from moonpool.core.policy import Decision, Verdict, operators_remedy

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.broker.call_context import CallContext
    from moonpool.broker.call_observer import CallObserver
    from moonpool.broker.redaction import Redactor
    from moonpool.broker.upstreams.base import UpstreamSource
    from moonpool.core.audit import Journal
    from moonpool.core.json import JsonObject

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_SHOWN_ON_LOOP_BYTES_MAX: Final = 2000
_TIMEOUT_GRACE_S: Final = 5.0  # an upstream keeps its own timeout; this only guards against one that does not


class CallPipeline:
    """Passes tool calls. One per broker, shared by all executions, used on one event loop."""

    def __init__(
        self, upstreams: UpstreamSource, *, journal: Journal, redactor: Redactor, observer: CallObserver | None = None
    ) -> None:
        self._upstreams = upstreams
        self._observer = observer
        self._redactor = redactor
        self._recorder = CallRecorder(journal, redactor)
        self._checks = SchemaChecks()
        self._resolving = Resolving(self._checks)
        self._unrecorded = False  # the journal did not take the last record

    async def run(self, spec: ToolCallSpec, session: CallContext) -> ToolCallOutcome:
        """Carry one call through all stages. Raises nothing but cancellation: every failure is an outcome."""
        passage = CallState(spec=spec, session=session)
        if (refused := self._not_admitted(passage)) is not None:
            return refused
        try:
            try:
                error = await self._travel(passage)
            except Refusal as refusal:
                error = refusal.error
                if passage.stopped_early and not session.refusals.has_own_record():
                    return self._count(passage, error)
            return await self._record(passage, error)
        except asyncio.CancelledError:
            self._record_without_waiting(passage, None, error_type=CANCELLED)
            raise
        except Exception as exc:  # noqa: BLE001  a bug of ours must not end the execution without a word
            return self._broken(passage, exc)
        finally:
            passage.over()

    async def _travel(self, passage: CallState) -> CallError | None:
        """The stages from resolve to redact."""
        await self._resolving.resolve(passage)
        await self._resolving.validate(passage)
        decision = passage.decide()
        if decision.verdict is Verdict.DENY:
            raise await self._denial(passage, decision)
        if passage.rehearsed:
            return await self._rehearse(passage, decision)
        if passage.session.plan is not None:
            passage.session.plan.admit(passage)
        if decision.verdict is not Verdict.ALLOW:
            await self._approve(passage, decision)
        raw = await self._call(passage)
        passage.arrival = await self._arrive(passage, raw)
        if passage.arrival.raw is not None:
            passage.take_in()
        if passage.session.plan is not None:
            passage.session.plan.learn(passage)
        return passage.arrival.error

    def _not_admitted(self, passage: CallState) -> ToolCallOutcome | None:
        """The limits of the execution, before the pipeline proper."""
        session = passage.session
        if session.ended:
            kind = CallErrorType.EXECUTION_ENDED
            problem = f"the execution that called {passage.name} is over; await every call before the code ends"
        elif session.calls >= session.limits.calls_max:
            kind = CallErrorType.RATE_LIMIT
            problem = f"an execution may make at most {session.limits.calls_max} tool calls; split the work"
        else:
            session.calls += 1
            return None
        error = CallError(type=kind, message=problem)
        session.refused += 1
        if not session.refusals.has_own_record():
            return self._count(passage, error)
        error = self._shown(passage, error)
        self._record_without_waiting(passage, error)
        return _outcome(passage, error, None)

    async def _denial(self, passage: CallState, decision: Decision) -> Refusal:
        passing = decision.room_in_s is not None
        kind = CallErrorType.RATE_LIMIT if passing else CallErrorType.POLICY_DENIED
        if passage.session.rehearsal is not None and passage.rehearsed:
            passage.session.rehearsal.denied(passage, decision, await self._for_people(passage, line_of_plan))
        elif not passing and passage.session.refusals.is_news(passage.name, decision.rule_id):
            spec, trust = passage.spec, passage.trust
            reason, tool = (self._redactor.text(storable(text), Tally()) for text in (decision.reason, spec.tool))
            remedy = operators_remedy(decision.remedy, spec.server_id, tool, trust.config_file)
            _log.warning("%s", on_one_line(f"{reason}; to allow it: {remedy}"))
        return Refusal(kind, decision.reason, retryable=passing)

    async def _rehearse(self, passage: CallState, decision: Decision) -> CallError | None:
        """INVARIANT: a call that takes this way asks nobody, reserves nothing and reaches no upstream."""
        rehearsal = passage.session.rehearsal
        assert rehearsal is not None
        shown = await self._for_people(passage, line_of_plan)
        answer = rehearsal.answer(passage, decision, shown, self._checks.result(passage.resolved))
        if isinstance(answer, str):
            raise Refusal(CallErrorType.VALIDATION_ERROR, answer)
        passage.arrival = answer
        return answer.error

    async def _for_people(self, passage: CallState, show: Callable[[CallState, Redactor], _T]) -> _T:
        """What people are shown of a call; of a large one in a worker thread, because it may take 0.1 s."""
        if len(passage.arguments_json) <= _SHOWN_ON_LOOP_BYTES_MAX:
            return show(passage, self._redactor)
        return await anyio.to_thread.run_sync(show, passage, self._redactor)

    async def _approve(self, passage: CallState, decision: Decision) -> None:
        session = passage.session
        request = await self._for_people(passage, partial(question_about, decision))
        passage.approval = ApprovalState.PENDING
        session.pending += 1
        asked = perf_counter()
        try:
            async with session.turns:
                answer = await session.approvals.settle(request, passage.facts)
        finally:
            session.pending -= 1
            passage.asked_ms = round((perf_counter() - asked) * 1000, 3)
        passage.approval, passage.approver = answer.state, answer.approver
        session.settle(answer.state)
        if answer.state is not ApprovalState.APPROVED:
            expired = answer.state is ApprovalState.EXPIRED
            kind = CallErrorType.APPROVAL_EXPIRED if expired else CallErrorType.APPROVAL_REJECTED
            raise Refusal(kind, f"{passage.name} was not approved{': ' if answer.note else ''}{answer.note}")

    async def _call(self, passage: CallState) -> JsonObject:
        spec, session = passage.spec, passage.session
        upstream = self._upstreams.get(spec.server_id)
        if upstream is None:
            problem = f"server {spec.server_id!r} is not connected any more; start a new session"
            raise Refusal(CallErrorType.UPSTREAM_ERROR, problem)
        timeout_s = passage.trust.timeout_s or session.limits.timeout_s
        async with session.slots:
            if session.ended:  # it ended while this call waited for its answer or its turn
                problem = f"the execution that called {passage.name} is over; the call was not made"
                raise Refusal(CallErrorType.EXECUTION_ENDED, problem)
            self._resolving.still_offered(passage)
            if session.plan is not None:
                session.plan.still_kept()
            if not passage.hints.read_only or self._unrecorded:  # then reading calls wait for the journal too
                await self._leave_intent(passage)
            session.changing += not passage.only_reads
            passage.leave()
            left = perf_counter()
            try:
                async with asyncio.timeout(timeout_s + _TIMEOUT_GRACE_S) as guard:
                    call = passage.in_hand = CallInHand(session, passage.name)
                    with calling_as(session.session_id or session.run_id), in_hand(call, guard):
                        return await upstream.call_tool(spec.tool, spec.arguments, timeout_s=timeout_s)
            except UpstreamError as exc:
                # The operator's copy; the guest's leaves parts out.
                told = self._redactor.text(storable(f"{passage.name}: {exc}"), Tally())
                _log.warning("%s", printable(told).replace("\n", " "))
                failure = upstream_failure(exc, repeatable=passage.repeatable)
            except TimeoutError:
                problem = f"did not answer {spec.tool!r} within {timeout_s:g} s"
                late = UpstreamCallTimeoutError(spec.server_id, problem, for_guest=problem)
                failure = upstream_failure(late, repeatable=passage.repeatable)
            finally:
                passage.upstream_ms = round((perf_counter() - left) * 1000, 3)
        if failure.type not in PASSING_CAUSES:  # the server said something, and its words may stand in the message
            passage.take_in()
        raise Refusal(failure.type, failure.message, retryable=failure.retryable)

    async def _leave_intent(self, passage: CallState) -> None:
        try:
            await self._recorder.intent(passage)
            self._unrecorded = False
        except JournalError as exc:
            self._unrecorded = True
            _log.error("a tool call was refused: %s", exc)
            problem = f"{passage.name} was not called, because the audit trail cannot be written"
            raise Refusal(CallErrorType.INTERNAL, f"{problem}; the operator sees why") from exc

    async def _arrive(self, passage: CallState, raw: JsonObject) -> CallResult:
        """Normalise and redact."""
        tool, size_max = passage.resolved, passage.session.limits.result_bytes_max
        try:
            encoded = msgspec.json.encode(raw)
        except (ValueError, TypeError, RecursionError) as exc:
            problem = f"server {tool.server_id!r} answered {tool.name!r} with a value that is not JSON"
            raise Refusal(CallErrorType.UPSTREAM_ERROR, problem) from exc
        if len(encoded) > size_max:
            problem = f"the result of {passage.name} is {len(encoded)} bytes and at most {size_max} are taken"
            raise Refusal(CallErrorType.OUTPUT_TOO_LARGE, f"{problem}; ask the tool for less at a time")
        passage.let_in(len(encoded))
        check = self._checks.result(tool)
        if len(encoded) < LARGE_BYTES:
            return receive_result(tool, raw, encoded, check=check, redactor=self._redactor)
        return await anyio.to_thread.run_sync(
            lambda: receive_result(tool, raw, encoded, check=check, redactor=self._redactor)
        )

    async def _record(self, passage: CallState, error: CallError | None) -> ToolCallOutcome:
        """The last stage: commit the outcome, then give it to the caller."""
        session, arrival = passage.session, passage.arrival
        if error is not None:
            error = self._shown(passage, error)
            session.failed += 1
        session.redactions += passage.tally.total()
        session.result_bytes += arrival.size_bytes if arrival else 0
        try:
            await self._recorder.outcome(passage, error)
        except JournalError as exc:
            self._unrecorded = True
            _log.error("the outcome of a tool call was withheld: %s", exc)
            problem = f"the outcome of {passage.name} is withheld, because the audit trail cannot be written"
            message = f"{problem}; the operator sees why"
            return _outcome(passage, CallError(type=CallErrorType.INTERNAL, message=message), None)
        if self._observer is not None and error is None:
            tell(self._observer, passage)
        return _outcome(passage, error, arrival)

    def _count(self, passage: CallState, error: CallError) -> ToolCallOutcome:
        """Answer one of many refused calls: it is counted, not recorded, and waits for no disk."""
        session, error = passage.session, self._shown(passage, error)
        session.failed += 1
        session.redactions += passage.tally.total()
        try:
            self._recorder.count_refused(passage, error)
        except JournalError as exc:  # nothing was called, and the end of the execution cannot be recorded either
            _log.error("the record of refused tool calls is lost: %s", exc)
        return _outcome(passage, error, None)

    def _record_without_waiting(self, passage: CallState, error: CallError | None, *, error_type: str = "") -> None:
        """Hand the record over: whoever cancels, or calls too late, does not wait for a disk."""
        if passage.recorded:
            return
        try:
            self._recorder.outcome(passage, error, error_type=error_type)
        except Exception as exc:  # noqa: BLE001  nobody is left to tell but the operator
            _log.error("the record of a tool call is lost: %s: %s", type(exc).__name__, storable(str(exc)))

    def _broken(self, passage: CallState, exc: Exception) -> ToolCallOutcome:
        """A bug of ours. The exception's text may hold arguments or results, so only its type is told."""
        frames = exc.__traceback__
        while frames is not None and frames.tb_next is not None:
            frames = frames.tb_next
        where = f"{frames.tb_frame.f_code.co_qualname}:{frames.tb_lineno}" if frames else "?"
        _log.error("a tool call failed inside the broker: %s in %s", type(exc).__name__, where)
        problem = f"the broker failed on {passage.name} ({type(exc).__name__}); this is a bug in Moonpool"
        error = self._shown(passage, CallError(type=CallErrorType.INTERNAL, message=problem))
        passage.session.failed += 1
        self._record_without_waiting(passage, error)
        return _outcome(passage, error, None)

    def _shown(self, passage: CallState, error: CallError) -> CallError:
        """`error` as the guest may see it."""
        message = self._redactor.text(storable(error.message), passage.message_tally)
        return CallError(type=error.type, message=message, retryable=error.retryable)


def _outcome(passage: CallState, error: CallError | None, arrival: CallResult | None) -> ToolCallOutcome:
    return ToolCallOutcome(
        error=error,
        raw=arrival.raw if arrival else None,
        data_from=arrival.data_from if arrival and error is None else None,
        approval=passage.approval,
        refused=error is not None and passage.stopped_early,
        duration_ms=passage.duration_ms,
        redactions=passage.tally.total(),
        warnings=passage.all_warnings,
    )
