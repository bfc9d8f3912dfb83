"""What the engine says, in the types that go over the wire: lines and answers."""

from __future__ import annotations

import json
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from moonpool.core.calls import CallProgress, CallStarted
from moonpool.core.phrases import on_one_line
from moonpool.engine.envelope_line import envelope_line
from moonpool.server.http.sessions import lines, messages

if TYPE_CHECKING:
    from moonpool.core.calls import CallEnded
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.engine.branches import Checkpoint, Undone
    from moonpool.engine.sessions import Session
    from moonpool.features.approvals.model import ApprovalRequest

RICHEST_FIRST: Final = ("text/html", "image/svg+xml", "text/markdown", "text/latex", "application/json")


def new_id() -> str:
    """An id that nobody guesses."""
    return token_hex(16)


def call_line(event: CallStarted | CallEnded | CallProgress, seq: int) -> lines.Line:
    """An event of a call."""
    if isinstance(event, CallStarted):
        return lines.CallStartedLine(seq=seq, call_id=event.call_id, tool=event.tool)
    if isinstance(event, CallProgress):
        return lines.ProgressLine(
            seq=seq, tool=event.tool, progress=event.progress, total=event.total, message=event.message
        )
    return lines.CallEndedLine(
        seq=seq,
        call_id=event.call_id,
        tool=event.tool,
        error_type=None if event.error_type is None else str(event.error_type),
        message=event.message,
        approval=str(event.approval),
        duration_ms=event.duration_ms,
    )


def approval_body(request: ApprovalRequest) -> messages.ApprovalBody:
    """A question about a call.

    SECURITY: the command and the file by which its server is reached are the operator's, and not for callers.
    """
    return messages.ApprovalBody(
        request_id=request.request_id,
        run_id=request.run_id,
        server=request.server_id,
        tool=request.tool_name,
        arguments=_parsed(request.whole if request.cut else request.arguments),
        shown=request.arguments,
        reason=on_one_line(request.reason),
        human_only=request.human_only,
        listing=tuple(request.arguments.split("\n")) if request.is_plan else (),
        expires_s=request.expires_s,
    )


def approval_line(request: ApprovalRequest, seq: int, *, whole: bool) -> lines.ApprovalLine:
    """The line of a question; `whole`: for a terminal, whose approver shows all of it."""
    shown = msgspec.to_builtins(request) if whole else None
    return lines.ApprovalLine(seq=seq, request=approval_body(request), whole=shown)


def printed_line(envelope: Envelope, seq: int) -> lines.PrintedLine:
    """What an execution came to, as `moonpool run` prints it."""
    answer = envelope_line(envelope)
    return lines.PrintedLine(seq=seq, line=answer.line.decode(), ok=answer.ok)


def _parsed(text: str) -> JsonObject | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", found) if isinstance(found, dict) else None


def checkpoint_ref(checkpoint: Checkpoint) -> messages.CheckpointRef:
    """A checkpoint."""
    return messages.CheckpointRef(
        number=checkpoint.number,
        name=checkpoint.name,
        execution=checkpoint.execution,
        sandbox_id=checkpoint.sandbox_id,
    )


def undone_body(undone: Undone) -> messages.UndoneBody:
    """What going back came to."""
    return messages.UndoneBody(
        checkpoint=checkpoint_ref(undone.checkpoint),
        run_ids=undone.runs,
        calls=tuple(
            messages.UndoneCallRef(tool=call.tool, run_id=call.run_id, may_have_changed=call.changes)
            for call in undone.calls
        ),
        lost_files=undone.lost,
    )


def session_state(session: Session, *, checkpoints: bool, network: bool) -> messages.SessionState:
    """What changes of a session."""
    kept = tuple(map(checkpoint_ref, session.checkpoints.kept)) if checkpoints else None
    reach: messages.NetworkState | None = None
    if network:
        guest = session.network
        reach = messages.NetworkState(allowed=tuple(map(str, guest.rules.domains)), refused=guest.refusals())
    return messages.SessionState(checkpoints=kept, network=reach)


def usage_with(usage: messages.UsageState, envelope: Envelope) -> messages.UsageState:
    """With one more execution."""

    def count(name: str) -> int:
        value = envelope.metrics.get(name)
        return value if isinstance(value, int) else 0

    return messages.UsageState(
        executions=usage.executions + 1,
        tool_calls=usage.tool_calls + count("tool_calls"),
        duration_ms=usage.duration_ms + envelope.duration_ms,
        stdout_bytes=usage.stdout_bytes + count("stdout_bytes"),
        stderr_bytes=usage.stderr_bytes + count("stderr_bytes"),
    )


def result_line(
    envelope: Envelope, seq: int, state: messages.SessionState, recovered: Undone | None
) -> lines.ResultLine:
    """What an execution came to."""
    return lines.ResultLine(
        seq=seq,
        run_id=envelope.run_id,
        envelope=cast("dict[str, Any]", envelope.to_json()),
        text=next((one.forms.get("text/plain", "") for one in envelope.displays if one.is_result), ""),
        displays=_displays(envelope),
        files=tuple(
            lines.MadeFileBody(name=one.name, size=one.size, mime=one.mime, path=one.path)
            for one in envelope.made.files
        ),
        failed_by=envelope.failed_by,
        state_after=envelope.state,
        recovered=None if recovered is None else undone_body(recovered),
        state=state,
    )


def _displays(envelope: Envelope) -> tuple[lines.DisplayBody, ...]:
    shown = [lines.DisplayBody(mime=one.mime, data=one.data, name=one.name) for one in envelope.pictures]
    for one in envelope.displays:
        mime = next((mime for mime in RICHEST_FIRST if mime in one.forms), "text/plain")
        if mime != "text/plain":
            shown.append(lines.DisplayBody(mime=mime, data=one.forms[mime].encode(), forms=dict(one.forms)))
    return tuple(shown)
