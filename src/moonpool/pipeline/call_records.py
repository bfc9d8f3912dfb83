"""Writes a call's intent and outcome to the audit journal.

INVARIANT: a call has at most one outcome record; `outcome` hands it to the journal before it returns, so that a call
that is being cancelled is recorded without waiting for the disk.
SECURITY: records hold digests, sizes and names. Names come from guests and servers, so they are redacted and cut.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from moonpool.core.audit_records import CallIntentRecord, CallOutcomeRecord, CallsRefusedRecord, time_stamp
from moonpool.core.phrases import storable
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from moonpool.core.audit import Journal
    from moonpool.core.calls import CallError
    from moonpool.pipeline.call_counters import CallCounters
    from moonpool.pipeline.call_state import CallState
    from moonpool.pipeline.execution_grant import CallIdentity
    from moonpool.redaction.redactor import Redactor

CANCELLED: Final = "Cancelled"
NAME_LENGTH_MAX: Final = 256


class CallRecorder:
    """Turns calls into records."""

    def __init__(self, journal: Journal, redactor: Redactor) -> None:
        self._journal = journal
        self._redactor = redactor

    def intent(self, call: CallState) -> Awaitable[None]:
        """Record that the call is about to be sent; await this before sending."""
        spec, identity, decision = call.spec, call.context.identity, call.decision
        record = CallIntentRecord(
            run_id=identity.run_id,
            trace_id=identity.trace_id,
            call_id=spec.call_id,
            at=time_stamp(datetime.now(UTC)),
            code_digest=identity.code_digest,
            server_id=self._name(spec.server_id),
            tool_name=self._name(spec.tool),
            tool_digest=call.tool_digest,
            arguments_digest=call.arguments_digest,
            verdict=decision.verdict if decision else "",
            rule_id=storable(decision.rule_id) if decision else "",
            approval=call.approval,
            approver=storable(call.approver),
        )
        return self._journal.record(record)

    def outcome(self, call: CallState, error: CallError | None, *, error_type: str = "") -> Awaitable[None]:
        """Record the outcome of the call; `error_type` replaces the type of `error`."""
        assert not call.recorded, "a call is recorded once"
        call.recorded = True
        spec, context, decision, result = call.spec, call.context, call.decision, call.result
        identity = context.identity
        task_id = self._name(call.task_id) if call.task_id else ""
        if task_id:
            context.counters.note_task(task_id)
        record = CallOutcomeRecord(
            run_id=identity.run_id,
            trace_id=identity.trace_id,
            call_id=spec.call_id,
            at=time_stamp(datetime.now(UTC)),
            principal=storable(identity.principal),
            session_id=identity.session_id,
            code_digest=identity.code_digest,
            server_id=self._name(spec.server_id),
            tool_name=self._name(spec.tool),
            tool_digest=call.tool_digest,
            arguments_digest=call.arguments_digest,
            verdict=decision.verdict if decision else "",
            rule_id=storable(decision.rule_id) if decision else "",
            approval=call.approval,
            approver=storable(call.approver),
            duration_ms=call.duration_ms,
            result_bytes=result.size_bytes if result else 0,
            result_digest=result.digest if result else "",
            error_type=error_type or (error.type if error else ""),
            retryable=error.retryable if error else False,
            redactions=call.tally,
            warnings=tuple(self._name(warning) for warning in call.warnings),
            taken_in=call.taken_in,
            rehearsed=call.rehearsed,
            task_id=task_id,
            upstream_ms=call.upstream_ms,
            asked_ms=call.asked_ms,
        )
        return self._journal.record(record)

    def count_refused(self, call: CallState, error: CallError) -> None:
        """Count a refused call that has no record of its own, and put counts on record when they are many."""
        assert not call.recorded, "a call is recorded once"
        call.recorded = True
        counters = call.context.counters
        counters.refusals.count(error.type, self._name(call.name) if call.tool is not None else "")
        if counters.refusals.is_due:
            self._journal.record(refused_record(call.context.identity, counters))

    def _name(self, text: str) -> str:
        return self._redactor.text(storable(text), Tally())[:NAME_LENGTH_MAX]


def refused_record(identity: CallIdentity, counters: CallCounters) -> CallsRefusedRecord:
    """The refused calls of the execution that were counted since this was last called."""
    return CallsRefusedRecord(
        run_id=identity.run_id,
        trace_id=identity.trace_id,
        at=time_stamp(datetime.now(UTC)),
        principal=storable(identity.principal),
        session_id=identity.session_id,
        code_digest=identity.code_digest,
        refused=counters.refusals.take(),
    )
