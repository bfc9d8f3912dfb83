"""From the end of a run's code to its envelope: what it handed over or why it failed, files it made, plan of a dry run.

`engine.runs` says when, `engine.envelopes` what an outcome means, `run_records` puts the envelope together.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.core.created_files import NO_FILES
from moonpool.core.envelope import ExecutionError
from moonpool.core.phrases import printable, storable
from moonpool.engine import envelopes as report
from moonpool.engine.envelope_line import with_files_that_fit
from moonpool.engine.error_hints import ErrorContext, remark_on, with_hint
from moonpool.engine.files.created_files import in_sandbox, kept
from moonpool.engine.files.records import TransferRecorder
from moonpool.engine.stored_files.run_storage import NO_STORAGE_NEWS
from moonpool.features.plans.planning import plan_json, plan_metrics, plan_of
from moonpool.features.plans.service import keep_plan
from moonpool.redaction.redactor import Tally
from moonpool.sandboxes.base import Stream
from moonpool.sandboxes.host_folders import NO_NEWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.created_files import MadeFiles, RichDisplay
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonValue
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.execution_spec import ExecutionOutcome, ExecutionSpec
    from moonpool.engine.network import GuestNetwork
    from moonpool.engine.output import StreamKeeper
    from moonpool.engine.run_records import RunRecords
    from moonpool.engine.run_services import RunServices
    from moonpool.engine.stored_files.run_storage import StorageNews
    from moonpool.features.plans.model import Plan
    from moonpool.pipeline.call_state import CallContext
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.pipeline.dry_run import Rehearsal
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.host_folders import FolderNews
    from moonpool.tools.snapshot import ToolSnapshot


class RunEnding:
    """Makes the envelope of one run whose code has ended."""

    def __init__(  # noqa: PLR0913  what stood around the code
        self,
        runtime: RunServices,
        caller_grant: CallerGrant,
        request: CodeRequest,
        records: RunRecords,
        *,
        context: CallContext,
        rehearsal: Rehearsal | None,
        tools: ToolSnapshot,
        spec: ExecutionSpec,
        keepers: Mapping[Stream, StreamKeeper],
        network: GuestNetwork | None,
    ) -> None:
        self._runtime, self._caller_grant, self._request, self._records = runtime, caller_grant, request, records
        self._context, self._rehearsal = context, rehearsal
        self._tools, self._spec, self._network = tools, spec, network
        self._stdout, self._stderr = keepers[Stream.STDOUT], keepers[Stream.STDERR]
        self.plan: Plan | None = None  # that was kept of a dry run

    @property
    def output_bytes(self) -> int:
        """How much the code printed."""
        return self._stdout.total_bytes + self._stderr.total_bytes

    def _redacted(self, display: RichDisplay) -> RichDisplay:
        redact, tally = self._runtime.redactor.text, self._records.tally
        return replace(display, forms={mime: redact(storable(text), tally) for mime, text in display.forms.items()})

    async def envelope(
        self,
        outcome: ExecutionOutcome,
        sandbox: Sandbox,
        *,
        exceeded: str,
        folders: FolderNews = NO_NEWS,
        stored: StorageNews = NO_STORAGE_NEWS,
    ) -> Envelope:
        """The envelope as it is handed out. `exceeded`: the call that the run's plan does not have; `folders`: what is
        to be said of host folders, `stored` of stored trees.

        A plan that it tells of is kept by then. Raises JournalError, PlanStoreError.
        """
        made = await self._files_made(outcome, sandbox)
        data: JsonValue = None
        note = ""
        error = report.error_of(outcome, self._spec, exceeded)
        if error is None:
            found = report.data_of(outcome, self._spec, self._stdout)
            error, data = (found, None) if isinstance(found, ExecutionError) else (None, found)
        failed_by = "" if error is None else report.failed_by(outcome)
        if folders.failure:
            failed_by = "moonpool"
            error, data = report.with_folder_failure(error, folders.failure), None
        if stored.failure is not None:
            failed_by = "moonpool"
            error, data = report.with_storage_failure(error, stored.failure), None
        redactor, tally = self._runtime.redactor, self._records.tally
        if error is None:
            data = redactor.json(data, tally)
            if data is None and outcome.done is not None:
                note = printable(storable(redactor.text(outcome.done.note, tally))) or remark_on(self._error_context())
        else:
            context = self._error_context()
            error = (
                await asyncio.to_thread(with_hint, error, context) if context.is_large else with_hint(error, context)
            )
            kind, message = (redactor.text(text, tally) for text in (error.type, error.message))
            error = ExecutionError(type=kind, message=message, retryable=error.retryable)
        for remark in filter(None, (folders.remark, stored.remark)):
            note = "; ".join(filter(None, (note, redactor.text(remark, tally))))
        if (self._spec.final and made.files) or self._stdout.exceeds or self._stderr.exceeds:
            await self._runtime.artifacts.make_room()
        tokens = await self._runtime.tokens.figures(self._tools, self._request.connection)

        displays = tuple(self._redacted(display) for display in outcome.claims.displays)

        def envelope_with(plan: Plan | None) -> Envelope:
            envelope = self._records.envelope(
                error,
                extras={
                    **({"plan": plan_json(plan, self._blanked)} if plan is not None else {}),
                    "stdout": self._stdout.text(),
                    "stderr": self._stderr.text(),
                    "exit_code": report.exit_code_of(outcome),
                    "signal": report.signal_of(outcome),
                },
                metrics={
                    "stdout_bytes": self._stdout.total_bytes,
                    "stderr_bytes": self._stderr.total_bytes,
                    "parked_ms": round(outcome.parked_s * 1000),
                    **({"limits_hit": [str(one) for one in sorted(outcome.limits_hit)]} if outcome.limits_hit else {}),
                    **plan_metrics(plan),
                },
                tokens=tokens,
            )
            return replace(
                envelope,
                data=data,
                note=note,
                made=made,
                pictures=tuple(outcome.claims.pictures),
                displays=displays,
                failed_by=failed_by,
                state=report.state_after(outcome),
            )

        plan = self._planned(error)
        if plan is not None:
            envelope_with(plan).to_json()  # what cannot be told shows before there is a plan that could be approved
            plan = self.plan = await keep_plan(self._runtime.plans, plan)
        return with_files_that_fit(envelope_with(plan))

    async def _files_made(self, outcome: ExecutionOutcome, sandbox: Sandbox) -> MadeFiles:
        """What the code left in `/workspace`, as long as that is there."""
        if not outcome.claims.count or sandbox.has_ended or outcome.recovered is not None:
            return NO_FILES
        if not self._spec.final:
            return in_sandbox(outcome.claims, self._blanked)
        run_id, session_id = self._records.identity.run_id, self._records.identity.session_id
        recorder = TransferRecorder(
            journal=self._runtime.journal,
            redactor=self._runtime.redactor,
            principal=self._caller_grant.principal,
            session_id=session_id,
        )
        try:
            room = self._runtime.artifacts.of_run(run_id, session_id)
            return await kept(outcome.claims, sandbox, room, recorder, self._blanked)
        finally:
            self._runtime.artifacts.close(run_id)

    def _blanked(self, text: str) -> str:
        return self._runtime.redactor.text(text, Tally())

    def _error_context(self) -> ErrorContext:
        return ErrorContext(
            language=self._request.language,
            environment=self._runtime.sandbox_spec.image.name,
            manifest=self._tools.manifest,
            code=self._request.code.decode(errors="replace"),
            stderr=self._stderr.text(),
            may_install=self._runtime.settings.may_install,
            ipython=self._request.ipython,
            refusals=None if self._network is None else self._network.refusals(self._spec.run_id),
            has_folders=self._spec.has_folders,
        )

    def _planned(self, error: ExecutionError | None) -> Plan | None:
        """What a dry run found; not kept yet."""
        if self._rehearsal is None:
            return None
        return plan_of(self._rehearsal, self._context, policy_digest=self._caller_grant.policy_digest, error=error)
