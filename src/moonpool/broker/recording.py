"""Writes a call's intent and outcome to the audit journal.

INVARIANT: a call has at most one outcome record; `outcome` hands it to the journal before it returns, so that a call
that is being cancelled is recorded without waiting for the disk.
SECURITY: records hold digests, sizes and names. Names come from guests and servers, so they are redacted and cut.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from moonpool.broker.phrases import storable
from moonpool.broker.redaction import Tally
from moonpool.core.audit_records import CallIntentRecord, CallOutcomeRecord, CallsRefusedRecord, time_stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from moonpool.broker.call_context import CallContext
    from moonpool.broker.call_state import CallState
    from moonpool.broker.redaction import Redactor
    from moonpool.core.audit import Journal
    from moonpool.core.calls import CallError

CANCELLED: Final = "Cancelled"
NAME_LENGTH_MAX: Final = 256


class CallRecorder:
    """Turns passages into records."""

    def __init__(self, journal: Journal, redactor: Redactor) -> None:
        self._journal = journal
        self._redactor = redactor

    def intent(self, passage: CallState) -> Awaitable[None]:
        """Record that the call is about to leave; await it before it does."""
        spec, session, decision = passage.spec, passage.session, passage.decision
        record = CallIntentRecord(
            run_id=session.run_id,
            trace_id=session.trace_id,
            call_id=spec.call_id,
            at=time_stamp(datetime.now(UTC)),
            code_digest=session.code_digest,
            server_id=self._name(spec.server_id),
            tool_name=self._name(spec.tool),
            tool_digest=passage.tool_digest,
            arguments_digest=passage.arguments_digest,
            verdict=decision.verdict if decision else "",
            rule_id=storable(decision.rule_id) if decision else "",
            approval=passage.approval,
            approver=storable(passage.approver),
        )
        return self._journal.record(record)

    def outcome(self, passage: CallState, error: CallError | None, *, error_type: str = "") -> Awaitable[None]:
        """Record what the call came to; `error_type` replaces the type of `error`."""
        assert not passage.recorded, "a call is recorded once"
        passage.recorded = True
        spec, session, decision, arrival = passage.spec, passage.session, passage.decision, passage.arrival
        task_id = self._name(passage.task_id)
        session.note_task(task_id)
        record = CallOutcomeRecord(
            run_id=session.run_id,
            trace_id=session.trace_id,
            call_id=spec.call_id,
            at=time_stamp(datetime.now(UTC)),
            principal=storable(session.principal),
            session_id=session.session_id,
            code_digest=session.code_digest,
            server_id=self._name(spec.server_id),
            tool_name=self._name(spec.tool),
            tool_digest=passage.tool_digest,
            arguments_digest=passage.arguments_digest,
            verdict=decision.verdict if decision else "",
            rule_id=storable(decision.rule_id) if decision else "",
            approval=passage.approval,
            approver=storable(passage.approver),
            duration_ms=passage.duration_ms,
            result_bytes=arrival.size_bytes if arrival else 0,
            result_digest=arrival.digest if arrival else "",
            error_type=error_type or (error.type if error else ""),
            retryable=error.retryable if error else False,
            redactions=passage.tally,
            warnings=tuple(self._name(warning) for warning in passage.all_warnings),
            taken_in=passage.taken_in,
            rehearsed=passage.rehearsed,
            task_id=task_id,
            upstream_ms=passage.upstream_ms,
            asked_ms=passage.asked_ms,
        )
        return self._journal.record(record)

    def count_refused(self, passage: CallState, error: CallError) -> None:
        """Count a refused call that has no record of its own, and put counts on record when they are many."""
        assert not passage.recorded, "a call is recorded once"
        passage.recorded = True
        session = passage.session
        session.refusals.count(error.type, self._name(passage.name) if passage.tool is not None else "")
        if session.refusals.is_due:
            self._journal.record(refused_record(session))

    def _name(self, text: str) -> str:
        return self._redactor.text(storable(text), Tally())[:NAME_LENGTH_MAX]


def refused_record(session: CallContext) -> CallsRefusedRecord:
    """What was counted of the execution's refused calls since this was last asked."""
    return CallsRefusedRecord(
        run_id=session.run_id,
        trace_id=session.trace_id,
        at=time_stamp(datetime.now(UTC)),
        principal=storable(session.principal),
        session_id=session.session_id,
        code_digest=session.code_digest,
        refused=session.refusals.take(),
    )
