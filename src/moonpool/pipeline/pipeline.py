"""The call pipeline: every tool call of a sandbox passes here, and nothing else reaches a server.

Stages in a fixed order, none skipped: resolve (is the tool in this session's manifest?), validate, decide (policy),
approve (only if policy asks), call (the upstream attaches the credential; it never travels back), normalise and redact,
record. A stage refuses by raising `Refusal`, which becomes the typed error that the code in the sandbox sees. Between
decide and approve come the stages that the execution adds (`call_state.Stage`): in a dry run one that answers calls
which may change something (`dry_run`), under a plan one that stops calls that are not in it (`planned_run`).

INVARIANT: each call that enters the pipeline is recorded exactly once, also when a stage fails or is cancelled. Only
calls that the broker refuses by itself are counted instead, by kind, after the first hundred of an execution
(`RefusedCalls`).
INVARIANT: what a call takes from budgets is reserved as it is decided, and labels of a result are taken in before its
code gets it; see `budgets`.
INVARIANT: the intent of a call that may change something is durable before it is sent; the outcome of every call is
committed before its result is returned. When the journal cannot keep them, the call is refused (fail closed).
INVARIANT: a call that an added stage answers asks nobody, reserves nothing and reaches no upstream.
SECURITY: arguments, results and names are hostile data. They are bounded and redacted before anybody sees them; nothing
here evaluates or logs them. Failures of the host go to the operator's log, not to the guest.

The first two stages are `resolving`; policy is `moonpool.policy`; who is asked is `approval`, and what they are shown
`shown_calls`; the state of an execution and of one call is `call_state`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import msgspec

from moonpool.core.audit import JournalError
from moonpool.core.calls import ApprovalState, CallError, CallErrorType, RpcError, ToolCallOutcome, ToolCallSpec
from moonpool.core.errors import MoonpoolError
from moonpool.core.phrases import on_one_line, printable, storable
from moonpool.pipeline import shared_budgets
from moonpool.pipeline.call_counters import SentCall
from moonpool.pipeline.call_observer import tell
from moonpool.pipeline.call_records import CANCELLED, CallRecorder
from moonpool.pipeline.call_result import CallResult, receive_result
from moonpool.pipeline.call_state import CallState, Refusal, StageTools, denial
from moonpool.pipeline.execution_grant import UNKNOWN_SERVER
from moonpool.pipeline.failures import PASSING_CAUSES, upstream_failure
from moonpool.pipeline.resolving import Resolving
from moonpool.pipeline.server_requests import may_name_addresses
from moonpool.pipeline.shown_calls import question_about, shown
from moonpool.pipeline.validation import LARGE_BYTES, SchemaChecks
from moonpool.policy import Decision, Verdict, decide, operators_remedy
from moonpool.redaction.redactor import Tally
from moonpool.sandboxes.shielding import finish
from moonpool.tracing.calls import CallSpan
from moonpool.upstreams.base import UpstreamCallTimeoutError, UpstreamError
from moonpool.upstreams.callers import calling_as
from moonpool.upstreams.forms import URL_ELICITATION_REQUIRED
from moonpool.upstreams.open_call import OpenCall, open_call_of
from moonpool.upstreams.server_requests import INTERNAL

if TYPE_CHECKING:
    from moonpool.core.audit import Journal
    from moonpool.core.json import JsonObject
    from moonpool.pipeline.call_observer import CallObserver
    from moonpool.pipeline.call_state import CallContext
    from moonpool.redaction.redactor import Redactor
    from moonpool.upstreams.base import UpstreamSource

_log = logging.getLogger(__name__)

_RPC_DATA_BYTES_MAX: Final = 4096
_TIMEOUT_GRACE_S: Final = 5.0  # an upstream keeps its own timeout; this only guards against one that does not


class CallPipeline:
    """Takes tool calls through the stages. One per broker, shared by all executions, used on one event loop."""

    def __init__(
        self, upstreams: UpstreamSource, *, journal: Journal, redactor: Redactor, observer: CallObserver | None = None
    ) -> None:
        self._upstreams = upstreams
        self._observer = observer
        self._redactor = redactor
        self._recorder = CallRecorder(journal, redactor)
        self._checks = SchemaChecks()
        self._resolving = Resolving(self._checks)
        self._tools = StageTools(redactor, self._checks)
        self._unrecorded = False  # the journal did not take the last record

    async def run(self, spec: ToolCallSpec, context: CallContext) -> ToolCallOutcome:
        """Carry one call through all stages. Raises nothing but cancellation: every failure is an outcome."""
        call = CallState(spec=spec, context=context)
        if context.span is None:
            return await self._carry(call)
        call.span = span = CallSpan(context.span)
        error = CANCELLED
        try:
            outcome = await self._carry(call)
            error = "" if outcome.error is None else str(outcome.error.type)
            return outcome
        finally:
            verdict = "" if call.decision is None else str(call.decision.verdict)
            span.end(error, decision=verdict, approval=str(call.approval))

    async def _carry(self, call: CallState) -> ToolCallOutcome:
        context, counters = call.context, call.context.counters
        if counters.ended or counters.calls >= context.grant.limits.calls_max:
            return self._not_admitted(call)
        counters.calls += 1
        try:
            try:
                error = await self._answer(call)
            except Refusal as refusal:
                error = refusal.error
                if call.stopped_early and not counters.refusals.has_own_record():
                    return self._count(call, error)
            return await self._record(call, error)
        except asyncio.CancelledError:
            self._record_without_waiting(call, None, error_type=CANCELLED)
            raise
        except Exception as exc:  # noqa: BLE001  a bug of ours must not end the execution without a word
            return self._broken(call, exc)
        finally:
            if call.reservation is not None:  # a call that was not sent has taken nothing
                call.reservation.give_back()
            if call.shared_taken is not None:
                await finish(shared_budgets.give_back(call))

    async def _answer(self, call: CallState) -> CallError | None:
        """The stages from resolve to redact, in their order."""
        await self._resolving.resolve(call)
        self._name_span(call)
        await self._resolving.validate(call)
        await shared_budgets.look_up(call)
        context, facts = call.context, call.facts
        call.decision = decision = decide(context.grant.policy, facts)
        answer = None
        for stage in context.stages:
            if (answer := stage.take(call, self._tools)) is not None:
                break
        if answer is not None:
            result = await answer
            if decision.verdict is Verdict.DENY:  # SECURITY: whatever a stage decides
                raise denial(decision)
            call.answered(result)
            return result.error
        if decision.verdict is Verdict.DENY:
            self._tell_operator(call, decision)
            raise denial(decision)
        if context.grant.policy.budgets:  # before anything is awaited
            call.reserve(facts)
            await shared_budgets.reserve(call, facts)
            decision = call.decision
            if decision.verdict is Verdict.DENY:  # another replica took what was left
                self._tell_operator(call, decision)
                raise denial(decision)
        await self._check_consent(call)
        if decision.verdict is not Verdict.ALLOW:
            await self._approve(call, decision)
        result = await self._receive(call, await self._call(call))
        call.answered(result)
        if result.raw is not None:
            call.take_in()
        return result.error

    def _name_span(self, call: CallState) -> None:
        if call.span is not None:
            names = (self._redactor.text(storable(name), Tally()) for name in (call.spec.server_id, call.spec.tool))
            call.span.resolved(*names)

    def _not_admitted(self, call: CallState) -> ToolCallOutcome:
        """Check the limits of the execution, before the first stage."""
        counters, limits = call.context.counters, call.context.grant.limits
        if counters.ended:
            kind = CallErrorType.EXECUTION_ENDED
            problem = f"the execution that called {call.name} is over; await every call before the code ends"
        else:
            kind = CallErrorType.RATE_LIMIT
            problem = f"an execution may make at most {limits.calls_max} tool calls; split the work"
        error = CallError(type=kind, message=problem)
        counters.refused += 1
        if not counters.refusals.has_own_record():
            return self._count(call, error)
        error = self._shown(call, error)
        self._record_without_waiting(call, error)
        return _outcome(call, error, None)

    def _tell_operator(self, call: CallState, decision: Decision) -> None:
        """Tell what would allow a call that policy denies, once per tool and rule of an execution."""
        if decision.room_in_s is not None or not call.context.counters.refusals.is_news(call.name, decision.rule_id):
            return
        spec, trust = call.spec, call.trust
        reason, tool = (self._redactor.text(storable(text), Tally()) for text in (decision.reason, spec.tool))
        remedy = operators_remedy(decision.remedy, spec.server_id, tool, trust.config_file)
        _log.warning("%s", on_one_line(f"{reason}; to allow it: {remedy}"))

    async def _approve(self, call: CallState, decision: Decision) -> None:
        context, counters = call.context, call.context.counters
        request = await shown(call, partial(question_about, decision), self._redactor)
        call.approval = ApprovalState.PENDING
        counters.pending += 1
        asked = perf_counter()
        try:
            async with context.turns:
                answer = await context.grant.approvals.settle(request, call.facts)
        finally:
            counters.pending -= 1
            call.asked_ms = round((perf_counter() - asked) * 1000, 3)
        call.approval, call.approver = answer.state, answer.approver
        counters.settle(answer.state)
        if answer.state is not ApprovalState.APPROVED:
            expired = answer.state is ApprovalState.EXPIRED
            kind = CallErrorType.APPROVAL_EXPIRED if expired else CallErrorType.APPROVAL_REJECTED
            raise Refusal(kind, f"{call.name} was not approved{': ' if answer.note else ''}{answer.note}")

    async def _call(self, call: CallState) -> JsonObject:
        spec, context = call.spec, call.context
        upstream = self._upstreams.get(spec.server_id)
        if upstream is None:
            problem = f"server {spec.server_id!r} is not connected any more; start a new session"
            raise Refusal(CallErrorType.UPSTREAM_ERROR, problem)
        timeout_s = call.trust.timeout_s or context.grant.limits.timeout_s
        async with context.slots:
            await self._check_consent(call)  # it may have been withdrawn meanwhile
            self._may_still_leave(call)
            if not call.hints.read_only or self._unrecorded:  # then reading calls wait for the journal too
                await self._record_intent(call)
                self._may_still_leave(call)  # the disk took a while, too
            context.counters.note_sent(SentCall(spec.run_id, call.name, changes=not call.only_reads))
            if call.reservation is not None:  # what it takes is spent, whatever comes of it
                call.reservation.keep()
                call.shared_taken = None
            left, at_server = perf_counter(), OpenCall(context, call.name, call.span)
            try:
                async with asyncio.timeout(timeout_s + _TIMEOUT_GRACE_S) as guard:
                    with (
                        calling_as(context.identity.session_id or context.identity.run_id),
                        open_call_of(at_server, guard),
                    ):
                        return await upstream.call_tool(spec.tool, spec.arguments, timeout_s=timeout_s)
            except UpstreamError as exc:
                # The operator's copy; the guest's leaves parts out.
                told = self._redactor.text(storable(f"{call.name}: {exc}"), Tally())
                _log.warning("%s", printable(told).replace("\n", " "))
                failure = upstream_failure(exc, repeatable=call.repeatable)
            except TimeoutError:
                problem = f"did not answer {spec.tool!r} within {timeout_s:g} s"
                late = UpstreamCallTimeoutError(spec.server_id, problem, for_guest=problem)
                failure = upstream_failure(late, repeatable=call.repeatable)
            finally:
                call.upstream_ms = round((perf_counter() - left) * 1000, 3)
                call.task_id = at_server.task_id
        if failure.type not in PASSING_CAUSES:  # the message may contain the server's words
            call.take_in()
        raise Refusal(failure.type, failure.message, retryable=failure.retryable, rpc=failure.rpc)

    @staticmethod
    async def _check_consent(call: CallState) -> None:
        """SECURITY: a login of ours serves only clients whose user agreed to that (confused deputy). Raises Refusal."""
        consent, server_id = call.context.grant.consent, call.spec.server_id
        if consent is None or not call.trust.may_log_in:
            return
        try:
            if await consent.holds(server_id, call.trust.digest):
                return
        except MoonpoolError as exc:
            _log.error("a tool call was refused, because consents cannot be read: %s", exc)
            problem = f"{call.name} was not called, because it cannot be checked now who may use its server"
            raise Refusal(CallErrorType.INTERNAL, f"{problem}; the operator sees why", retryable=True) from exc
        counters = call.context.counters
        if counters.refusals.is_news(call.name, "consent"):
            told = f"{call.name} needs the user's consent; to give it: {consent.remedy(server_id)}"
            _log.warning("%s", on_one_line(told))
        problem = f"{call.name} was not called, because the user has not agreed that this client uses its server"
        raise Refusal(CallErrorType.POLICY_DENIED, f"{problem}; the operator is told what would allow it")

    @staticmethod
    def _may_still_leave(call: CallState) -> None:
        """Check that nothing forbade the call while it waited for an answer or its turn. Raises Refusal."""
        spec, context = call.spec, call.context
        if context.counters.ended:
            problem = f"the execution that called {call.name} is over; the call was not made"
            raise Refusal(CallErrorType.EXECUTION_ENDED, problem)
        if (paused := context.manifest().held.get((spec.server_id, spec.tool))) is not None:
            raise Refusal(CallErrorType.TOOL_PAUSED, paused)
        if context.grant.trust.get(spec.server_id, UNKNOWN_SERVER).digest != call.trust.digest:
            problem = f"server {spec.server_id!r} is another one by now; the call was meant for the one before"
            raise Refusal(CallErrorType.UPSTREAM_ERROR, problem)
        for stage in context.stages:
            stage.before_sending(call)

    async def _record_intent(self, call: CallState) -> None:
        try:
            await self._recorder.intent(call)
            self._unrecorded = False
        except JournalError as exc:
            self._unrecorded = True
            _log.error("a tool call was refused: %s", exc)
            problem = f"{call.name} was not called, because the audit trail cannot be written"
            raise Refusal(CallErrorType.INTERNAL, f"{problem}; the operator sees why") from exc

    async def _receive(self, call: CallState, raw: JsonObject) -> CallResult:
        """Normalise and redact."""
        tool, grant = call.resolved, call.context.grant
        size_max = grant.limits.result_bytes_max
        try:
            encoded = msgspec.json.encode(raw)
        except (ValueError, TypeError, RecursionError) as exc:
            problem = f"server {tool.server_id!r} answered {tool.name!r} with a value that is not JSON"
            raise Refusal(CallErrorType.UPSTREAM_ERROR, problem) from exc
        if len(encoded) > size_max:
            problem = f"the result of {call.name} is {len(encoded)} bytes and at most {size_max} are taken"
            raise Refusal(CallErrorType.OUTPUT_TOO_LARGE, f"{problem}; ask the tool for less at a time")
        if grant.policy.budgets:
            await shared_budgets.let_in(call, len(encoded))
        check = self._checks.result(tool)
        if len(encoded) < LARGE_BYTES:
            return receive_result(tool, raw, encoded, check=check, redactor=self._redactor)
        return await anyio.to_thread.run_sync(
            lambda: receive_result(tool, raw, encoded, check=check, redactor=self._redactor)
        )

    async def _record(self, call: CallState, error: CallError | None) -> ToolCallOutcome:
        """The last stage: commit the outcome, then give it to the caller."""
        counters, result = call.context.counters, call.result
        if error is not None:
            error = self._shown(call, error)
            counters.failed += 1
        counters.redactions += call.tally.total()
        counters.result_bytes += result.size_bytes if result else 0
        try:
            await self._recorder.outcome(call, error)
        except JournalError as exc:
            self._unrecorded = True
            _log.error("the outcome of a tool call was withheld: %s", exc)
            problem = f"the outcome of {call.name} is withheld, because the audit trail cannot be written"
            message = f"{problem}; the operator sees why"
            return _outcome(call, CallError(type=CallErrorType.INTERNAL, message=message), None)
        if self._observer is not None and error is None:
            tell(self._observer, call)
        return _outcome(call, error, result)

    def _count(self, call: CallState, error: CallError) -> ToolCallOutcome:
        """Answer one of many refused calls: it is counted, not recorded, and waits for no disk."""
        counters, error = call.context.counters, self._shown(call, error)
        counters.failed += 1
        counters.redactions += call.tally.total()
        try:
            self._recorder.count_refused(call, error)
        except JournalError as exc:  # nothing was called, and the end of the execution cannot be recorded either
            _log.error("the record of refused tool calls is lost: %s", exc)
        return _outcome(call, error, None)

    def _record_without_waiting(self, call: CallState, error: CallError | None, *, error_type: str = "") -> None:
        """Hand the record over: a cancelled or late call does not wait for the disk."""
        if call.recorded:
            return
        try:
            self._recorder.outcome(call, error, error_type=error_type)
        except Exception as exc:  # noqa: BLE001  nobody is left to tell but the operator
            _log.error("the record of a tool call is lost: %s: %s", type(exc).__name__, storable(str(exc)))

    def _broken(self, call: CallState, exc: Exception) -> ToolCallOutcome:
        """A bug of ours. The exception's text may hold arguments or results, so only its type is told."""
        frames = exc.__traceback__
        while frames is not None and frames.tb_next is not None:
            frames = frames.tb_next
        where = f"{frames.tb_frame.f_code.co_qualname}:{frames.tb_lineno}" if frames else "?"
        _log.error("a tool call failed inside the broker: %s in %s", type(exc).__name__, where)
        problem = f"the broker failed on {call.name} ({type(exc).__name__}); this is a bug in Moonpool"
        error = self._shown(call, CallError(type=CallErrorType.INTERNAL, message=problem))
        call.context.counters.failed += 1
        self._record_without_waiting(call, error)
        return _outcome(call, error, None)

    def _shown(self, call: CallState, error: CallError) -> CallError:
        """`error` as the guest may see it."""
        message = self._redactor.text(storable(error.message), call.tally)
        return CallError(type=error.type, message=message, retryable=error.retryable, rpc=self._shown_rpc(call, error))

    def _shown_rpc(self, call: CallState, error: CallError) -> RpcError | None:
        """The server's own error for a client that called it; its data only if it is small."""
        if error.rpc is None or call.context.client is None:
            return None
        if error.rpc.code == URL_ELICITATION_REQUIRED and not may_name_addresses(call.context, call.spec.server_id):
            return RpcError(code=INTERNAL)
        try:
            data = error.rpc.data if len(msgspec.json.encode(error.rpc.data)) <= _RPC_DATA_BYTES_MAX else None
        except (ValueError, TypeError, RecursionError):
            data = None
        return RpcError(code=error.rpc.code, data=self._redactor.json(data, call.tally))


def _outcome(call: CallState, error: CallError | None, result: CallResult | None) -> ToolCallOutcome:
    return ToolCallOutcome(
        error=error,
        raw=result.raw if result else None,
        data_from=result.data_from if result and error is None else None,
        approval=call.approval,
        refused=error is not None and call.stopped_early,
        duration_ms=call.duration_ms,
        redactions=call.tally.total(),
        warnings=tuple(call.warnings),
    )
