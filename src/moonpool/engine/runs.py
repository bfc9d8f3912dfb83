"""One run: an execution with its identity, its records in the journal and its envelope.

`Run` is what stands around an `Execution`: it has the start recorded, gives the execution its keepers and its context
in the pipeline, and has the end recorded before it hands the envelope out. `run_ending` makes the envelope of a run
that came to its end, `run_records` writes both records.

INVARIANT: every start on record gets an end on record, also when the run is cancelled and when Moonpool itself fails;
and every run that is not cancelled gets its envelope, even where nothing can be recorded any more.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.core.languages import PYTHON
from moonpool.core.phrases import printable, storable
from moonpool.engine import envelopes as report
from moonpool.engine.call_progress import ProgressOfCalls, told_call
from moonpool.engine.execution import Execution
from moonpool.engine.execution_spec import ExecutionSpec, SandboxHistory
from moonpool.engine.output import StreamKeeper
from moonpool.engine.run_ending import RunEnding
from moonpool.engine.run_records import RunRecords
from moonpool.engine.stored_files.run_storage import NO_STORAGE_NEWS
from moonpool.features.recordings.recorder import RunStart
from moonpool.pipeline.caller_grant import RunFacts
from moonpool.pipeline.dry_run import Rehearsal
from moonpool.redaction.redactor import Tally
from moonpool.sandboxes.base import Stream
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from moonpool.core.calls import CallErrorType, ToolCallOutcome, ToolCallSpec
    from moonpool.core.envelope import StateAfter
    from moonpool.engine.artifacts import ArtifactsOfRun
    from moonpool.engine.branches import Undone
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.execution_spec import ExecutionOutcome
    from moonpool.engine.packages.requests import InstallAnswer, Installs
    from moonpool.engine.run_services import RunServices
    from moonpool.engine.stored_files.run_storage import RunStorage
    from moonpool.features.recordings.recorder import RunRecording
    from moonpool.pipeline.budgets import SessionMemory
    from moonpool.pipeline.call_counters import SentCall
    from moonpool.pipeline.call_state import CallContext
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.pipeline.planned_run import PlanWatch
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.tools.snapshot import ToolSnapshot

    Recover = Callable[["Run"], Awaitable[Undone | None]]


_T = TypeVar("_T")
_log = logging.getLogger(__name__)
NAME_CHARS_MAX: Final = 1000
_FRESH: Final = SandboxHistory()


CANCELLED = ExecutionError(type="Cancelled", message="the execution was cancelled")
CANCELLED_EARLY = ExecutionError(type="Cancelled", message="the execution was cancelled before its code started")


class InterruptedRunError(Exception):
    """The execution was interrupted before its code started."""


class Run:
    """One execution's identity, records and envelope."""

    def __init__(
        self,
        runtime: RunServices,
        caller_grant: CallerGrant,
        session_id: str,
        request: CodeRequest,
        memory: SessionMemory,
        install: Installs | None = None,
        folders: HostFolders | None = None,
    ) -> None:
        """`install` answers code that asks for packages; None: it may not. `folders` are in its sandbox."""
        self._runtime, self._caller_grant, self._request = runtime, caller_grant, request
        self._memory, self._install = memory, install
        self._records = RunRecords(runtime, caller_grant, session_id, request, folders)
        self.run_id = self._records.identity.run_id
        self._context: CallContext | None = None  # of its calls, once its code can make some
        self._rehearsal = Rehearsal(declared=request.placeholders) if request.dry_run else None
        self._execution: Execution | None = None
        self._opening: asyncio.Task[object] | None = None  # whose code waits in `opening`
        self._interrupted = False
        self._recording: RunRecording | None = None
        self._start_recorded: asyncio.Future[None] | None = None  # before its first call leaves
        self.outcome: ExecutionOutcome | None = None
        self._watch: PlanWatch | None = None
        self._ending: RunEnding | None = None
        self._tools: ToolSnapshot | None = None  # that it ran with
        self._storage: RunStorage | None = None
        self.folder_remark = ""  # of before its code started
        if request.begun is not None:
            request.begun(self.run_id)

    def under(self, watch: PlanWatch) -> None:
        """Run under an approved plan. Its approval may have taken a while that does not count."""
        self._watch = watch
        self._records.restart_clock()

    @property
    def _name(self) -> str:
        return printable(storable(self._request.name[-NAME_CHARS_MAX:]))[-NAME_CHARS_MAX:]

    @property
    def _plan_id(self) -> str:
        return self._watch.plan.plan_id if self._watch is not None else ""

    async def opening(self, ready: Coroutine[object, object, _T]) -> _T:
        """Wait until all is ready for the code; raises InterruptedRunError when `interrupt` is called meanwhile."""
        self._opening = task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        try:
            ready_now = await ready
        except asyncio.CancelledError:
            if self._opening is None and task.cancelling() == before + 1:  # by `interrupt`, and by nobody else
                raise InterruptedRunError from None
            raise
        finally:
            if self._opening is None:
                task.uncancel()
            self._opening = None
        self.check_wanted()  # `interrupt` may have come before there was anything to wait for
        return ready_now

    def check_wanted(self) -> None:
        """Raises InterruptedRunError if `interrupt` was called while its code was made ready."""
        if self._interrupted:
            raise InterruptedRunError

    def interrupt(self, *, at_once: bool) -> None:
        """End this run early, wherever it is."""
        self._interrupted = True
        if self._execution is None:
            if self._opening is not None:
                self._opening.cancel()
                self._opening = None
        elif at_once:
            self._execution.kill("cancelled")
        else:
            self._execution.force_end("cancelled")

    async def on(
        self,
        sandbox: Sandbox,
        snapshot: Callable[[], ToolSnapshot | None],
        *,
        final: bool,
        history: SandboxHistory = _FRESH,
        recover: Recover | None = None,
        storage: RunStorage | None = None,
    ) -> Envelope:
        """Run on `sandbox`, record start and end, return the envelope. Raises nothing but CancelledError.

        `recover` is called when the code's process ended and its sandbox did not.
        """
        self._storage = storage
        try:
            return await self._on(sandbox, snapshot, history, recover, final=final)
        except Exception as failure:  # noqa: BLE001  the last resort: whatever it is, the caller gets an envelope
            return await finish(self._broken(failure))

    async def _on(
        self,
        sandbox: Sandbox,
        snapshot: Callable[[], ToolSnapshot | None],
        history: SandboxHistory,
        recover: Recover | None,
        *,
        final: bool,
    ) -> Envelope:
        tools = snapshot()
        assert tools is not None
        self._tools = tools
        self._runtime.tokens.now(tools)  # what is new is counted while the code runs
        recorded = self._start_recorded = self._records.start(tools, plan_id=self._plan_id)
        settings, identity = self._runtime.settings, self._records.identity
        spec = ExecutionSpec(
            run_id=self.run_id,
            code=self._request.code,
            name=self._name,
            language=self._request.language,
            ipython=self._request.ipython,
            manifest_digest=tools.digest,
            final=final,
            has_checkpoints=history.has_checkpoints,
            has_folders=history.has_folders,
            timeout_s=self._request.timeout_s or settings.timeout_s,
            result_bytes_max=settings.result_bytes_max,
            limits=self._runtime.sandbox_spec.limits,
            variables=self._request.variables,
            home="" if self._storage is None else self._storage.home,
            record_nondeterminism=self._runtime.recorder is not None and self._request.language == PYTHON,
            nondeterminism_log=self._request.nondeterminism_log,
        )
        room = self._runtime.artifacts.of_run(self.run_id, identity.session_id)
        keepers = {stream: self._keeper(stream, room) for stream in Stream}
        install = None if self._install is None else self._installed
        execution = self._execution = Execution(sandbox, spec, self, keepers, install)
        self._records.failed_calls = execution.failed_calls
        progress = self._progress_of_calls()
        context = self._context = self._caller_grant.make_context(
            RunFacts(
                identity=identity,
                snapshot=lambda: snapshot() or tools,
                deadline=execution.deadline,
                counters=self._records.counters,
                span=self._records.span,
                memory=self._memory,
                responder=self._request.responder,
                progress=None if progress is None else progress.hear,
                rehearsal=self._rehearsal,
                plan=self._watch,
            )
        )
        ending = self._ending = RunEnding(
            self._runtime,
            self._caller_grant,
            self._request,
            self._records,
            context=context,
            rehearsal=self._rehearsal,
            tools=tools,
            spec=spec,
            keepers=keepers,
            network=history.network,
        )
        if self._watch is not None:
            self._watch.begin(context.counters)
        if (recorder := self._runtime.recorder) is not None:
            start = RunStart(
                sandbox_id=sandbox.sandbox_id,
                position=history.position,
                hash_seed=sandbox.hash_seed,
                name=self._name,
                code=self._request.code,
                environment_id=self._records.image,
                final=final,
                ipython=spec.ipython,
                timeout_s=spec.timeout_s,
                tools=tools,
                context=context,
                inputs=history.inputs,
                was_put_back=history.was_put_back,
                has_network=sandbox.listener is not None,
                has_folders=history.has_folders,
                packages=history.packages,
            )
            self._recording = recorder.begin(start)
        # The journal keeps order: whatever the code causes is recorded after its start. Without a journal it must
        # not run.
        if not recorded.done() or recorded.exception():
            recorded.add_done_callback(lambda done: execution.force_end("journal") if done.exception() else None)
        self._records.code_begins()
        if self._request.started is not None:
            self._request.started()
        network = history.network
        taking = nullcontext() if network is None else network.executing(identity.session_id, self.run_id)
        try:
            with taking:
                outcome = self.outcome = await execution.run()
        except asyncio.CancelledError:
            self._records.code_ends()
            context.end()  # before its last record: what comes later is none of this execution's
            await finish(self._ended_early(CANCELLED))
            raise
        finally:
            context.end()
            if progress is not None:
                progress.over()
            self._runtime.artifacts.close(self.run_id)
        self._records.code_ends()
        return await finish(self._finish(outcome, ending, recorded, sandbox, recover))

    @property
    def sent_calls(self) -> Sequence[SentCall]:
        """Its calls that reached a server."""
        return self._records.counters.sent

    async def call_tool(self, spec: ToolCallSpec) -> ToolCallOutcome:
        """The pipeline, bound to this execution.

        SECURITY: a call that only reads waits for no record of its own before it leaves; so it waits for the start.
        """
        context, recorded = self._context, self._start_recorded
        assert context is not None
        assert recorded is not None
        if not recorded.done():
            await asyncio.wait([recorded])
        if recorded.exception():
            context.end()
        seq = self._recording.asked(spec) if self._recording is not None else 0
        if self._request.calls is None:
            outcome = await self._runtime.pipeline.run(spec, context)
        else:
            outcome = await told_call(
                spec, self._runtime.pipeline.run(spec, context), self._request.calls, self._runtime.redactor
            )
        if self._recording is not None:
            self._recording.answered(seq, outcome)
        if self._watch is not None and self._watch.problem and self._execution is not None:
            self._execution.force_end("plan")  # now that the call which the plan does not have is recorded
        return outcome

    async def _installed(self, text: str) -> InstallAnswer:
        """What came of an installation that the code asked for."""
        assert self._install is not None
        answer = await self._install(text)
        if self._recording is not None:
            self._recording.installed(text, answer.reply, answer.packages)
        return answer

    def turn_away(self, kind: CallErrorType) -> None:
        """Count a call that did not enter the pipeline."""
        self._records.counters.turn_away(kind)

    async def failed_to_start(self, error: ExecutionError, tools: ToolSnapshot | None) -> Envelope:
        """An execution whose sandbox did not come up ends in an envelope like any other."""
        self._tools = tools
        return await finish(self._start_and_end(error, tools))

    async def _start_and_end(self, error: ExecutionError, tools: ToolSnapshot | None) -> Envelope:
        await self._safely(self._recorded_start(tools))
        return await self._ended_early(error)

    async def _recorded_start(self, tools: ToolSnapshot | None) -> None:
        await self._records.start(tools, plan_id=self._plan_id)

    async def _ended_early(self, error: ExecutionError) -> Envelope:
        try:
            tokens = await self._runtime.tokens.figures(self._tools, self._request.connection, wait=False)
            envelope = replace(self._records.envelope(error, tokens=tokens), state=self._state_after(error))
            self._keep_recording(envelope, forced="cancelled")
            await self._records.end(envelope, output_bytes=0)
        except Exception as failure:  # noqa: BLE001  the last resort
            return await self._broken(failure, error)
        return envelope

    async def _broken(self, failure: Exception, error: ExecutionError | None = None) -> Envelope:
        """Moonpool failed: end the code, keep no plan, record what can be recorded, make an envelope (of `error`)."""
        whole = report.internal_error(failure)
        _log.error("%s: %s", self.run_id, whole.message, exc_info=_log.isEnabledFor(logging.DEBUG))
        problem = report.internal_error(failure, hides_host=self._caller_grant.hides_host)
        self._records.code_ends()
        if self.outcome is None and self._execution is not None:
            await self._safely(self._execution.abandon())
        plan = self._ending.plan if self._ending is not None else None
        if plan is not None and self._runtime.plans is not None:
            await self._safely(self._runtime.plans.withdraw(plan))
        envelope = replace(
            self._records.envelope_of_failure(error or problem), state=self._state_after(error or problem)
        )
        self._keep_recording(envelope, forced="cancelled")
        await self._safely(self._records.end(envelope, output_bytes=0))
        return envelope

    def _state_after(self, error: ExecutionError) -> StateAfter:
        """What is left of the session when it was not the code's end that was reported."""
        if self.outcome is not None:
            return report.state_after(self.outcome)
        return "lost" if self._execution is not None or error.type == "SandboxError" else "kept"

    async def _safely(self, step: Coroutine[object, object, object]) -> None:
        try:
            await step
        except Exception as failure:  # noqa: BLE001  the envelope is owed all the same
            _log.error("%s: %s", self.run_id, report.internal_error(failure).message)

    def _keep_recording(self, envelope: Envelope, *, forced: str, nondeterminism_log: bytes = b"") -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.ended(envelope, forced=forced, nondeterminism_log=nondeterminism_log)

    def _progress_of_calls(self) -> ProgressOfCalls | None:
        if (listener := self._request.progress) is None:
            return None
        return ProgressOfCalls(listener, lambda text: self._runtime.redactor.text(text, Tally()))

    def _keeper(self, stream: Stream, room: ArtifactsOfRun) -> StreamKeeper:
        settings, observer = self._runtime.settings, self._request.observer
        kept = settings.stdout_bytes_max if stream is Stream.STDOUT else settings.stderr_bytes_max
        return StreamKeeper(
            self._runtime.redactor.stream(),
            kept_bytes_max=kept,
            name=stream.name.lower(),
            artifact_bytes_max=settings.artifact_bytes_max,
            room=room,
            names_artifact=not self._caller_grant.hides_host,
            observer=None if observer is None else lambda data: observer(stream, data),
        )

    async def _finish(
        self,
        outcome: ExecutionOutcome,
        ending: RunEnding,
        recorded: asyncio.Future[None],
        sandbox: Sandbox,
        recover: Recover | None,
    ) -> Envelope:
        """Make the envelope once the start is on record, and record the end."""
        await recorded
        if outcome.process_only and recover is not None:
            outcome = self.outcome = replace(outcome, recovered=await recover(self))
        exceeded = self._watch.problem if self._watch is not None else ""
        news = await sandbox.synchronise_folders()
        if self.folder_remark:
            news = replace(news, remark="; ".join(filter(None, (self.folder_remark, news.remark))))
        stored = NO_STORAGE_NEWS
        if self._storage is not None:
            stored = await self._storage.keep(
                sandbox,
                self._runtime.sandbox_spec.limits,
                is_over=outcome.done is not None and outcome.forced != "journal" and not sandbox.has_ended,
                hides_host=self._caller_grant.hides_host,
            )
        envelope = await ending.envelope(outcome, sandbox, exceeded=exceeded, folders=news, stored=stored)
        self._keep_recording(envelope, forced=outcome.forced or "", nondeterminism_log=outcome.nondeterminism_log)
        await self._records.end(envelope, output_bytes=ending.output_bytes)
        return envelope
