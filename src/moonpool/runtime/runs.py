"""One run: an execution with its identity, its records in the journal and its envelope.

`Run` is what stands around an `Execution`: it has the start recorded, gives the execution its keepers and its context
in the pipeline, and has the end recorded before it hands the envelope out; `run_records` writes all three.

INVARIANT: every start on record gets an end on record, also when the run is cancelled and when Moonpool itself fails;
and every run that is not cancelled gets its envelope, even where nothing can be recorded any more.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, cast

from moonpool.broker.phrases import printable, storable
from moonpool.broker.redaction import Tally
from moonpool.broker.rehearsal import Rehearsal
from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.core.errors import InputError
from moonpool.core.json import JsonValue
from moonpool.core.languages import PYTHON
from moonpool.core.made_files import MadeFiles
from moonpool.core.manifest import Manifest
from moonpool.runtime import report
from moonpool.runtime.call_progress import ProgressOfCalls
from moonpool.runtime.caller_grant import RunFacts
from moonpool.runtime.envelope_line import with_files_that_fit
from moonpool.runtime.error_hints import Scene, remark_on, with_hint
from moonpool.runtime.execution import Execution
from moonpool.runtime.execution_spec import ExecutionSpec
from moonpool.runtime.file_records import TransferRecorder
from moonpool.runtime.made_files import in_sandbox, kept
from moonpool.runtime.output import StreamKeeper
from moonpool.runtime.planning import keep_plan, plan_json, plan_metrics, plan_of
from moonpool.runtime.recording import RunStart
from moonpool.runtime.run_records import RunRecords
from moonpool.sandboxes.base import Stream
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from moonpool.broker.call_state import CallContext
    from moonpool.broker.planned import PlanWatch
    from moonpool.broker.server_requests import RequestResponder
    from moonpool.broker.spending import SessionMemory
    from moonpool.core.calls import CallErrorType, CallProgress, ToolCallOutcome, ToolCallSpec
    from moonpool.core.plans import Plan
    from moonpool.core.recordings import RecordedInput
    from moonpool.runtime.artifacts import ArtifactsOfRun
    from moonpool.runtime.caller_grant import CallerGrant
    from moonpool.runtime.disclosure import Disclosure
    from moonpool.runtime.execution_spec import ExecutionOutcome
    from moonpool.runtime.recording import RunRecording
    from moonpool.runtime.run_services import RunServices
    from moonpool.runtime.tool_snapshot import ToolSnapshot
    from moonpool.sandboxes.base import Sandbox

    Observer = Callable[[Stream, bytes], None]

_log = logging.getLogger(__name__)
NAME_CHARS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRequest:
    """What a caller asks to run. Raises InputError for code that is a text without a form in UTF-8, or no text."""

    code: bytes  # a text is taken, too, and kept as its UTF-8
    timeout_s: float | None = None
    name: str = "<code>"  # what tracebacks call it; made printable, and cut to its last `NAME_CHARS_MAX` characters
    language: str = PYTHON  # one of `core.languages.LANGUAGES`
    typescript: bool = False  # it is said to be Node's TypeScript, which may need tools first
    observer: Observer | None = None  # hears redacted output as it comes
    progress: Callable[[CallProgress], None] | None = None  # hears how calls get on, where their servers say so
    begun: Callable[[str], None] | None = None  # hears the run id, before anybody is asked and anything is called
    responder: RequestResponder | None = None  # whom servers may ask meanwhile, instead of the caller grant's
    replay_of: str = ""  # an execution that this one replays
    tape: bytes | None = None  # to be played
    dry_run: bool = False  # calls that may change something are not made, but listed in a plan
    placeholders: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])  # `server.tool` glob -> answer
    plan: str | None = None  # the id of the approved plan to run under
    connection: Disclosure | None = None  # of the model that asks; None: no model was shown anything of the tools

    def __post_init__(self) -> None:
        code = cast("object", self.code)
        try:
            given = code.encode() if isinstance(code, str) else code
        except UnicodeEncodeError:
            raise InputError("the code holds half a surrogate pair, which UTF-8 cannot carry; remove it") from None
        if not isinstance(given, bytes):
            raise InputError(f"the code is {type(code).__name__}; give it as text or bytes")
        object.__setattr__(self, "code", given)


CANCELLED = ExecutionError(type="Cancelled", message="the execution was cancelled")
CANCELLED_EARLY = ExecutionError(type="Cancelled", message="the execution was cancelled before its code started")


class InterruptedRunError(Exception):
    """The execution was interrupted before its code started."""


class Run:
    """One execution's identity, records and envelope."""

    def __init__(
        self, runtime: RunServices, ticket: CallerGrant, session_id: str, request: CodeRequest, memory: SessionMemory
    ) -> None:
        self._runtime, self._ticket, self._request = runtime, ticket, request
        self._memory = memory
        self._records = RunRecords(runtime, ticket, session_id, request)
        self.run_id = self._records.identity.run_id
        self._context: CallContext | None = None  # of its calls, once its code can make some
        self._rehearsal = Rehearsal(declared=request.placeholders) if request.dry_run else None
        self._execution: Execution | None = None
        self._opening: asyncio.Future[tuple[Sandbox, ToolSnapshot]] | None = None
        self._interrupted = False
        self._recording: RunRecording | None = None
        self.outcome: ExecutionOutcome | None = None
        self._watch: PlanWatch | None = None
        self._plan: Plan | None = None  # that was kept of a dry run
        self._tools: ToolSnapshot | None = None  # that it ran with
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

    async def opening(
        self, ready: Coroutine[object, object, tuple[Sandbox, ToolSnapshot]]
    ) -> tuple[Sandbox, ToolSnapshot]:
        """Wait until the sandbox is ready; raises InterruptedRunError when `interrupt` is called meanwhile."""
        self._opening = asyncio.ensure_future(ready)
        try:
            ready_now = await self._opening
        except asyncio.CancelledError:
            if self._interrupted:
                raise InterruptedRunError from None
            raise
        if self._interrupted:  # in the moment between the end of the opening and this line
            raise InterruptedRunError
        return ready_now

    def interrupt(self, *, at_once: bool) -> None:
        """End this run early, wherever it is."""
        self._interrupted = True
        if self._execution is None:
            if self._opening is not None:
                self._opening.cancel()
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
        position: int = 0,
        inputs: tuple[RecordedInput, ...] = (),
    ) -> Envelope:
        """Run on `sandbox`, record start and end, return the envelope. Raises nothing but CancelledError.

        `position` and `inputs` are for the recording: which execution of this sandbox it is, which files were put
        before it.
        """
        try:
            return await self._on(sandbox, snapshot, final=final, position=position, inputs=inputs)
        except Exception as failure:  # noqa: BLE001  the last resort: whatever it is, the caller gets an envelope
            return await finish(self._broken(failure))

    async def _on(
        self,
        sandbox: Sandbox,
        snapshot: Callable[[], ToolSnapshot | None],
        *,
        final: bool,
        position: int,
        inputs: tuple[RecordedInput, ...],
    ) -> Envelope:
        tools = snapshot()
        assert tools is not None
        self._tools = tools
        self._runtime.tokens.now(tools)  # what is new is counted while the code runs
        recorded = self._records.start(tools, plan_id=self._plan_id)
        settings, identity = self._runtime.settings, self._records.identity
        spec = ExecutionSpec(
            run_id=self.run_id,
            code=self._request.code,
            name=self._name,
            language=self._request.language,
            manifest_digest=tools.digest,
            final=final,
            timeout_s=self._request.timeout_s or settings.timeout_s,
            result_bytes_max=settings.result_bytes_max,
            limits=self._runtime.sandbox_spec.limits,
            record_tape=self._runtime.recorder is not None and self._request.language == PYTHON,
            tape=self._request.tape,
        )
        room = self._runtime.artifacts.of_run(self.run_id, identity.session_id)
        keepers = {stream: self._keeper(stream, room) for stream in Stream}
        execution = self._execution = Execution(sandbox, spec, self, keepers)
        self._records.failed_calls = execution.failed_calls
        progress = self._progress_of_calls()
        context = self._context = self._ticket.make_context(
            RunFacts(
                identity=identity,
                snapshot=lambda: snapshot() or tools,
                deadline=execution.deadline,
                counters=self._records.counters,
                memory=self._memory,
                responder=self._request.responder,
                progress=None if progress is None else progress.hear,
                rehearsal=self._rehearsal,
                plan=self._watch,
            )
        )
        if self._watch is not None:
            self._watch.begin(context.counters, end=lambda: execution.force_end("plan"))
        if (recorder := self._runtime.recorder) is not None:
            start = RunStart(
                run_id=self.run_id,
                session_id=identity.session_id,
                sandbox_id=sandbox.sandbox_id,
                position=position,
                hash_seed=sandbox.hash_seed,
                language=self._request.language,
                name=self._name,
                code=self._request.code,
                code_digest=identity.code_digest,
                environment_id=self._records.image,
                final=final,
                timeout_s=spec.timeout_s,
                tools=tools,
                context=context,
                inputs=inputs,
            )
            self._recording = recorder.begin(start)
        # The journal keeps order: whatever the code causes is recorded after its start. Without a journal it must
        # not run.
        recorded.add_done_callback(lambda done: execution.force_end("journal") if done.exception() else None)
        self._records.code_begins()
        try:
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
        return await finish(self._finish(outcome, spec, keepers, recorded, sandbox))

    async def call_tool(self, spec: ToolCallSpec) -> ToolCallOutcome:
        """The pipeline, bound to this execution."""
        context = self._context
        assert context is not None
        if self._recording is None:
            return await self._runtime.pipeline.run(spec, context)
        seq = self._recording.asked(spec)
        outcome = await self._runtime.pipeline.run(spec, context)
        self._recording.answered(seq, outcome)
        return outcome

    def turn_away(self, kind: CallErrorType) -> None:
        """Count a call that did not enter the pipeline."""
        self._records.counters.turn_away(kind)

    async def failed_to_start(self, error: ExecutionError, tools: ToolSnapshot | None) -> Envelope:
        """An execution whose sandbox did not come up ends in an envelope like any other."""
        self._tools = tools
        await self._safely(self._recorded_start(tools))
        return await self._ended_early(error)

    async def _recorded_start(self, tools: ToolSnapshot | None) -> None:
        await self._records.start(tools, plan_id=self._plan_id)

    async def _ended_early(self, error: ExecutionError) -> Envelope:
        try:
            tokens = await self._runtime.tokens.figures(self._tools, self._request.connection, wait=False)
            envelope = self._records.envelope(error=error, tokens=tokens)
            self._keep_recording(envelope, forced="cancelled")
            await self._records.end(envelope, output_bytes=0)
        except Exception as failure:  # noqa: BLE001  the last resort
            return await self._broken(failure, error)
        return envelope

    async def _broken(self, failure: Exception, error: ExecutionError | None = None) -> Envelope:
        """Moonpool failed: end the code, keep no plan, record what can be recorded, make an envelope (of `error`)."""
        problem = report.internal_error(failure)
        _log.error("%s: %s", self.run_id, problem.message, exc_info=_log.isEnabledFor(logging.DEBUG))
        self._records.code_ends()
        if self.outcome is None and self._execution is not None:
            await self._safely(self._execution.abandon())
        if self._plan is not None and self._runtime.plans is not None:
            await self._safely(self._runtime.plans.withdraw(self._plan))
        envelope = self._records.envelope_of_failure(error or problem)
        self._keep_recording(envelope, forced="cancelled")
        await self._safely(self._records.end(envelope, output_bytes=0))
        return envelope

    async def _safely(self, step: Coroutine[object, object, object]) -> None:
        try:
            await step
        except Exception as failure:  # noqa: BLE001  the envelope is owed all the same
            _log.error("%s: %s", self.run_id, report.internal_error(failure).message)

    def _keep_recording(self, envelope: Envelope, *, forced: str, tape: bytes = b"") -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.ended(envelope, forced=forced, tape=tape)

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
            artifact=room.path(stream.name.lower()),
            artifact_bytes_max=settings.artifact_bytes_max,
            room=room,
            observer=None if observer is None else lambda data: observer(stream, data),
        )

    async def _finish(
        self,
        outcome: ExecutionOutcome,
        spec: ExecutionSpec,
        keepers: dict[Stream, StreamKeeper],
        recorded: asyncio.Future[None],
        sandbox: Sandbox,
    ) -> Envelope:
        """Make the envelope once the start is on record, and record the end."""
        await recorded
        made = await self._files_made(outcome, spec, sandbox)
        data: JsonValue = None
        note = ""
        error = report.error_of(outcome, spec, self._watch.problem if self._watch is not None else "")
        if error is None:
            found = report.data_of(outcome, spec, keepers[Stream.STDOUT])
            error, data = (found, None) if isinstance(found, ExecutionError) else (None, found)
        if error is not None:
            scene = self._scene(keepers)
            error = await asyncio.to_thread(with_hint, error, scene) if scene.is_large else with_hint(error, scene)
        redactor, tally = self._runtime.redactor, self._records.tally
        if error is None:
            data = redactor.json(data, tally)
            if data is None and outcome.done is not None:
                note = printable(storable(redactor.text(outcome.done.note, tally))) or remark_on(self._scene(keepers))
        else:
            kind, message = (redactor.text(text, tally) for text in (error.type, error.message))
            error = ExecutionError(type=kind, message=message, retryable=error.retryable)
        if (spec.final and made.files) or any(keeper.exceeds for keeper in keepers.values()):
            await self._runtime.artifacts.make_room()
        tokens = await self._runtime.tokens.figures(self._tools, self._request.connection)

        def blanked(text: str) -> str:
            return redactor.text(text, Tally())

        def envelope_with(plan: Plan | None) -> Envelope:
            envelope = self._records.envelope(
                data=data,
                error=error,
                extras={
                    **({"plan": plan_json(plan, blanked)} if plan is not None else {}),
                    "stdout": keepers[Stream.STDOUT].text(),
                    "stderr": keepers[Stream.STDERR].text(),
                    "exit_code": report.exit_code_of(outcome),
                    "signal": report.signal_of(outcome),
                },
                metrics={
                    "stdout_bytes": keepers[Stream.STDOUT].total_bytes,
                    "stderr_bytes": keepers[Stream.STDERR].total_bytes,
                    "parked_ms": round(outcome.parked_s * 1000),
                    **({"limits_hit": [str(one) for one in sorted(outcome.limits_hit)]} if outcome.limits_hit else {}),
                    **plan_metrics(plan),
                },
                tokens=tokens,
            )
            return replace(envelope, note=note, made=made, pictures=tuple(outcome.claims.pictures))

        plan = self._planned(error)
        if plan is not None:
            envelope_with(plan).to_json()  # what cannot be told shows before there is a plan that could be approved
            plan = self._plan = await keep_plan(self._runtime.plans, plan)
        envelope = with_files_that_fit(envelope_with(plan))
        self._keep_recording(envelope, forced=outcome.forced or "", tape=outcome.tape)
        await self._records.end(envelope, output_bytes=sum(keeper.total_bytes for keeper in keepers.values()))
        return envelope

    async def _files_made(self, outcome: ExecutionOutcome, spec: ExecutionSpec, sandbox: Sandbox) -> MadeFiles:
        """What the code left in `/workspace`, as long as its sandbox is there."""
        if not outcome.claims.count or sandbox.has_ended:
            return MadeFiles()

        def blanked(text: str) -> str:
            return self._runtime.redactor.text(text, Tally())

        if not spec.final:
            return in_sandbox(outcome.claims, blanked)
        session_id = self._records.identity.session_id
        recorder = TransferRecorder(
            journal=self._runtime.journal,
            redactor=self._runtime.redactor,
            principal=self._ticket.principal,
            session_id=session_id,
        )
        try:
            room = self._runtime.artifacts.of_run(self.run_id, session_id)
            return await kept(outcome.claims, sandbox, room, recorder, blanked)
        finally:
            self._runtime.artifacts.close(self.run_id)

    def _scene(self, keepers: Mapping[Stream, StreamKeeper]) -> Scene:
        return Scene(
            language=self._request.language,
            environment=self._runtime.sandbox_spec.image.name,
            manifest=self._tools.manifest if self._tools is not None else Manifest(),
            code=self._request.code.decode(errors="replace"),
            stderr=keepers[Stream.STDERR].text(),
        )

    def _planned(self, error: ExecutionError | None) -> Plan | None:
        """What a dry run found; not kept yet."""
        if self._rehearsal is None:
            return None
        assert self._context is not None
        return plan_of(self._rehearsal, self._context, policy_digest=self._ticket.policy_digest, error=error)
