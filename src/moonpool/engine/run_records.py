"""What stays of a run: its start and end in the journal, and the envelope that goes to the caller.

`moonpool.engine.runs` says when; what ended up in the envelope is made by `moonpool.engine.envelopes`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING

from moonpool.core.audit_records import ExecutionEndRecord, ExecutionStartRecord, time_stamp
from moonpool.core.envelope import Envelope
from moonpool.core.json import digest_bytes, digest_json
from moonpool.core.version import VERSION
from moonpool.engine.code_request import new_run_id
from moonpool.engine.failed_calls import FailedCalls
from moonpool.features.usage.model import TokenFigures
from moonpool.pipeline.call_counters import CallCounters
from moonpool.pipeline.call_records import refused_record
from moonpool.pipeline.execution_grant import CallIdentity
from moonpool.tracing.spans import current_span

if TYPE_CHECKING:
    from moonpool.core.envelope import ExecutionError
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.run_services import RunServices
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.tools.snapshot import ToolSnapshot
    from moonpool.tracing.spans import Span


class RunRecords:
    """One run's identity, and what is written in its name."""

    def __init__(
        self,
        runtime: RunServices,
        caller_grant: CallerGrant,
        session_id: str,
        request: CodeRequest,
        folders: HostFolders | None = None,
    ) -> None:
        """`folders` of the host are in its sandbox."""
        self._runtime, self._caller_grant, self._request = runtime, caller_grant, request
        self.span = self._begun_span()
        self.identity = CallIdentity(
            run_id=request.run_id or new_run_id(),
            trace_id=token_hex(16) if self.span is None else self.span.place.trace_id,
            principal=caller_grant.principal,
            session_id=session_id,
            code_digest=digest_bytes(request.code),
            language=request.language,
        )
        shown = () if folders is None else folders.shown
        self._folders = tuple(f"{'rw' if one.writable else 'ro'} {one.path}" for one in shown)
        image = runtime.sandbox_spec.image
        self.image = f"{image.name}@{image.digest}"
        self.tally: Counter[str] = Counter()  # of what was redacted in the result
        self.counters = CallCounters()  # of its calls: they go into the envelope
        self.failed_calls = FailedCalls()  # the execution's, once there is one
        self._code_began = self._code_ended = 0.0
        if self.span is not None:
            self.span.put("moonpool.run_id", self.identity.run_id)
        self.restart_clock()

    def _begun_span(self) -> Span | None:
        """Of this run, in the request that it is for or in the application's; None: there are no spans."""
        language, tracing = self._request.language, self._runtime.tracing
        name = f"execution {language}" if self._request.code else "direct call"
        if (around := current_span()) is not None:
            span: Span | None = around.child(name)
        else:
            span = None if tracing is None else tracing.begin(name)
        if span is not None and self._request.code:
            span.put("moonpool.language", language)
        return span

    def restart_clock(self) -> None:
        """What came before does not count into the duration."""
        self._started = asyncio.get_running_loop().time()

    def code_begins(self) -> None:
        """The sandbox is there; the code is sent now."""
        self._code_began = asyncio.get_running_loop().time()

    def code_ends(self) -> None:
        """The execution is over; what is left is to report it."""
        self._code_ended = asyncio.get_running_loop().time()

    def envelope(
        self,
        error: ExecutionError | None,
        *,
        extras: dict[str, JsonValue] | None = None,
        metrics: dict[str, JsonValue] | None = None,
        tokens: TokenFigures,
    ) -> Envelope:
        """The envelope as of now, without what the code handed over."""
        counters = self.counters
        calls: dict[str, JsonValue] = {"tool_calls": counters.calls}
        if counters.low_budgets:
            calls["budgets_low"] = list(counters.low_budgets)
        if counters.changing:
            calls["changing_calls"] = counters.changing
        if counters.task_ids:
            calls["task_ids"] = list(counters.task_ids)
        metrics = {**calls, **(metrics or {}), "tokens": tokens.to_json()}
        failed = self.failed_calls.to_json(self._blanked) if self.failed_calls.count else None
        return self._envelope(error, metrics=metrics, extras=extras, failed_calls=failed)

    def _blanked(self, text: str) -> str:
        return self._runtime.redactor.text(text, Counter())

    def envelope_of_failure(self, error: ExecutionError) -> Envelope:
        """For a run in which Moonpool failed: nothing stands in it but what is made here."""
        count = self.failed_calls.count
        return self._envelope(
            error,
            metrics={"tool_calls": self.counters.calls, "tokens": TokenFigures().to_json()},
            failed_calls={"count": count, "first": []} if count else None,
        )

    def _envelope(
        self,
        error: ExecutionError | None,
        *,
        metrics: dict[str, JsonValue],
        failed_calls: JsonObject | None,
        extras: dict[str, JsonValue] | None = None,
    ) -> Envelope:
        identity = self.identity
        return Envelope(
            run_id=identity.run_id,
            trace_id=identity.trace_id,
            tool_name=f"moonpool.{self._request.language}",
            tool_version=VERSION,
            input_digest=identity.code_digest,
            sandbox_image=self.image,
            duration_ms=round((asyncio.get_running_loop().time() - self._started) * 1000),
            approval_state=self.counters.approval_state,
            error=error,
            failed_by="" if error is None else "moonpool",
            failed_calls=failed_calls,
            metrics=metrics,
            extras=extras or {"stdout": "", "stderr": "", "exit_code": 1, "signal": None},
        )

    def start(self, tools: ToolSnapshot | None, *, plan_id: str) -> asyncio.Future[None]:
        """Begin to record the start; whoever awaits it knows that it is on disk."""
        identity = self.identity
        return asyncio.ensure_future(
            self._runtime.journal.record(
                ExecutionStartRecord(
                    run_id=identity.run_id,
                    trace_id=identity.trace_id,
                    at=time_stamp(datetime.now(UTC)),
                    principal=identity.principal,
                    session_id=identity.session_id,
                    language=identity.language,
                    code_digest=identity.code_digest,
                    environment_id=self.image,
                    manifest_digest=tools.manifest.digest if tools else "",
                    policy_digest=self._caller_grant.policy_digest,
                    tree_digest=tools.digest if tools else "",
                    backend=self._runtime.settings.backend,
                    version=VERSION,
                    replay_of=self._request.replay_of,
                    dry_run=self._request.dry_run,
                    plan_id=plan_id,
                    process=self._runtime.process,
                    folders=self._folders,
                    variables=tuple(self._request.variables),
                    execution_id=self._request.execution_id,
                    metadata=self._request.metadata,
                )
            )
        )

    async def end(self, envelope: Envelope, *, output_bytes: int) -> None:
        """Record the end, and before it how many calls were refused that have no record of their own."""
        if self.span is not None:
            # SECURITY: the type of an error that code raised is a name that code chose.
            error = envelope.error
            self.span.end("" if error is None else error.type if envelope.failed_by == "moonpool" else "code")
        identity, counters = self.identity, self.counters
        if counters.refusals.is_open:
            await self._runtime.journal.record(refused_record(identity, counters))
        members = envelope.to_json(extras=False)
        await self._runtime.journal.record(
            ExecutionEndRecord(
                run_id=identity.run_id,
                trace_id=identity.trace_id,
                at=time_stamp(datetime.now(UTC)),
                code_digest=identity.code_digest,
                duration_ms=envelope.duration_ms,
                calls=counters.calls,
                calls_refused=counters.refused,
                approval=str(envelope.approval_state),
                error_type=envelope.error.type if envelope.error else "",
                output_digest=str(members["output_digest"]),
                output_bytes=output_bytes,
                envelope_digest=digest_json(members),
                redactions=dict(self.tally),
                start_ms=_ms(self._code_began - self._started) if self._code_began else 0.0,
                code_ms=_ms(self._code_ended - self._code_began) if self._code_ended else 0.0,
            )
        )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
