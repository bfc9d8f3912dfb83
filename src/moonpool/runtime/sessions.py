"""Sessions: a principal's handle on a kernel, and the one way in which code is run.

`Runtime.run` runs one piece of code in a sandbox of its own; `Runtime.session` keeps the sandbox, and with it variables
and files, between executions. Either way: the start is on record before the code starts, the envelope is made whatever
happens, the end is on record before the envelope is handed out.

A session whose kernel died starts afresh at its next execution; the envelope of the execution that killed it says so.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import moonpool
from moonpool.core.audit import ExecutionEndRecord, ExecutionStartRecord
from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.core.errors import InputError, MoonpoolError
from moonpool.core.json import JsonValue, canonical_json, digest_bytes, digest_json
from moonpool.runtime import report
from moonpool.runtime.execution import Execution, ExecutionSpec
from moonpool.runtime.output import StreamKeeper
from moonpool.runtime.tools import Toolbox, ToolSnapshot, show
from moonpool.sandboxes.base import SandboxSpec, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from moonpool.broker.context import CallContext
    from moonpool.broker.redaction import Redactor
    from moonpool.core.audit import Journal
    from moonpool.core.calls import ToolCallOutcome, ToolCallSpec
    from moonpool.runtime.deadline import Deadline
    from moonpool.runtime.execution import ExecutionOutcome
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.pool import SandboxPool
    from moonpool.settings import Settings

    Observer = Callable[[Stream, bytes], None]

_RUNNER = "moonpool.python"


class Road(Protocol):
    """The broker's road (`moonpool.broker.road`)."""

    async def pass_call(self, spec: ToolCallSpec, context: CallContext, /) -> ToolCallOutcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRequest:
    """What a caller asks to run."""

    code: bytes
    timeout_s: float | None = None
    name: str = "<code>"
    observer: Observer | None = None  # hears redacted output as it comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Who runs code here, and how their calls are judged: what a context is made of for each execution."""

    principal: str
    make_context: Callable[[str, str, str, str, Callable[[], ToolSnapshot], Deadline], CallContext]
    """run id, trace id, session id, code digest, current snapshot, the execution's clock -> the road's context."""


@dataclass(kw_only=True)
class Runtime:
    """What every execution of a process shares. Made by `moonpool.bootstrap`."""

    settings: Settings
    pool: SandboxPool
    toolbox: Toolbox
    road: Road
    journal: Journal
    redactor: Redactor
    artifacts: Path
    sandbox_spec: SandboxSpec
    _sessions: set[Session] = field(default_factory=set["Session"], init=False)
    _closing: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"], init=False)

    async def run(self, request: CodeRequest, ticket: Ticket) -> Envelope:
        """Run code in a sandbox of its own and return its envelope. Raises InputError for code that cannot be run."""
        session = Session(self, ticket, final=True)
        try:
            return await session.execute(request)
        finally:
            self._close_soon(session)

    def session(self, ticket: Ticket, session_id: str | None = None, *, final: bool = False) -> Session:
        """A session; its sandbox opens at the first execution. Close it. `final`: it runs one execution only."""
        session = Session(self, ticket, session_id=session_id, final=final)
        self._sessions.add(session)
        return session

    def forget(self, session: Session) -> None:
        """Drop a closed session."""
        self._sessions.discard(session)

    def _close_soon(self, session: Session) -> None:
        """Discard a sandbox without letting the caller wait for its end."""
        closing = asyncio.ensure_future(session.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close every session and wait for those that are closing."""
        for session in tuple(self._sessions):
            await session.close()
        await asyncio.gather(*self._closing)


class Session:
    """One kernel and its state. Executions run one after the other."""

    def __init__(self, runtime: Runtime, ticket: Ticket, *, session_id: str | None = None, final: bool = False) -> None:
        self.session_id = session_id or uuid.uuid4().hex
        self._runtime, self._ticket, self._final = runtime, ticket, final
        self._sandbox: Sandbox | None = None
        self._snapshot: ToolSnapshot | None = None
        self._showing: set[asyncio.Future[None]] = set()
        self._turn = asyncio.Lock()
        self._unfollow = runtime.toolbox.follow(self._on_new_tools)
        self._executions = 0
        self._run: _Run | None = None

    async def execute(self, request: CodeRequest) -> Envelope:
        """Run code with the variables and files of earlier executions. Waits for its turn. Raises InputError."""
        self._check(request)
        async with self._turn:
            try:
                return await self._execute(request)
            finally:
                self._run = None

    def interrupt(self, *, at_once: bool = False) -> None:
        """End what runs now as `Cancelled`: interrupt, grace, kill; `at_once` kills. Its envelope is made as ever."""
        if self._run is not None:
            self._run.interrupt(at_once=at_once)

    def _check(self, request: CodeRequest) -> None:
        settings = self._runtime.settings
        if len(request.code) > settings.code_bytes_max:
            raise InputError(
                f"the code is {len(request.code):,} bytes, but at most {settings.code_bytes_max:,} are accepted; "
                "move data into files or fetch it through a tool"
            )
        try:
            text = request.code.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"the code is not UTF-8 (byte {error.start}); save it as UTF-8") from None
        if not text.strip():
            raise InputError("there is no code to run; give a file, -c CODE, or code on standard input")
        if "\0" in text:
            raise InputError("the code holds a NUL character, which Python cannot compile; remove it")
        if request.timeout_s is not None and not 0 < request.timeout_s <= settings.timeout_s_max:
            raise InputError(f"the timeout must be above 0 and at most {settings.timeout_s_max:g} s")

    async def _execute(self, request: CodeRequest) -> Envelope:
        run = self._run = _Run(self._runtime, self._ticket, self.session_id, request, self._runtime.sandbox_spec)
        snapshot: ToolSnapshot | None = None
        try:
            sandbox, snapshot = await run.opening(self._ready_sandbox())
        except _InterruptedError:
            return await run.failed_to_start(_CANCELLED, snapshot)
        except MoonpoolError as error:
            failure = ExecutionError(type="SandboxError", message=str(error), retryable=error.retryable)
            return await run.failed_to_start(failure, snapshot)
        self._executions += 1
        envelope = await run.on(sandbox, lambda: self._snapshot or snapshot, final=self._final)
        if sandbox.has_ended:
            self._sandbox = None
        else:
            sandbox.detach()
        return envelope

    async def _ready_sandbox(self) -> tuple[Sandbox, ToolSnapshot]:
        if self._sandbox is not None and self._sandbox.has_ended:
            self._sandbox = None
        if self._sandbox is None:
            acquiring = asyncio.ensure_future(self._runtime.pool.acquire(self._runtime.sandbox_spec))
            try:
                self._snapshot = await self._runtime.toolbox.snapshot()
            except BaseException:
                acquiring.cancel()
                raise
            self._sandbox = await acquiring
        assert self._snapshot is not None
        await show(self._sandbox, self._snapshot)
        return self._sandbox, self._snapshot

    def _on_new_tools(self, snapshot: ToolSnapshot) -> None:
        self._snapshot = snapshot
        if self._sandbox is not None and not self._sandbox.has_ended:
            showing = asyncio.ensure_future(show(self._sandbox, snapshot))
            self._showing.add(showing)
            showing.add_done_callback(self._showing.discard)

    async def close(self) -> None:
        """End the kernel. Idempotent."""
        self._unfollow()
        self._runtime.forget(self)
        if self._sandbox is not None:
            await self._sandbox.close()
            self._sandbox = None


_CANCELLED = ExecutionError(type="Cancelled", message="the execution was cancelled before its code started")


class _InterruptedError(Exception):
    """The execution was interrupted before its code started."""


class _Run:
    """One execution's identity, records and envelope."""

    def __init__(
        self, runtime: Runtime, ticket: Ticket, session_id: str, request: CodeRequest, sandbox_spec: SandboxSpec
    ) -> None:
        self._runtime, self._ticket, self._session_id, self._request = runtime, ticket, session_id, request
        self._image = f"{sandbox_spec.image.name}@{sandbox_spec.image.digest}"
        self.run_id = f"run_{uuid.uuid4().hex}"
        self.trace_id = uuid.uuid4().hex
        self._digest = digest_bytes(request.code)
        self._started = asyncio.get_running_loop().time()
        self._tally: Counter[str] = Counter()
        self._context: CallContext | None = None
        self._execution: Execution | None = None
        self._opening: asyncio.Future[tuple[Sandbox, ToolSnapshot]] | None = None
        self._interrupted = False

    async def opening(
        self, ready: Coroutine[object, object, tuple[Sandbox, ToolSnapshot]]
    ) -> tuple[Sandbox, ToolSnapshot]:
        """Wait until the sandbox is ready; raises _InterruptedError when `interrupt` is called meanwhile."""
        self._opening = asyncio.ensure_future(ready)
        try:
            return await self._opening
        except asyncio.CancelledError:
            if self._interrupted:
                raise _InterruptedError from None
            raise

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

    async def on(self, sandbox: Sandbox, snapshot: Callable[[], ToolSnapshot | None], *, final: bool) -> Envelope:
        """Run on `sandbox`, record start and end, return the envelope."""
        tools = snapshot()
        assert tools is not None
        recorded = self._record_start(tools)
        settings = self._runtime.settings
        spec = ExecutionSpec(
            run_id=self.run_id,
            code=self._request.code,
            name=self._request.name,
            manifest_digest=tools.digest,
            final=final,
            timeout_s=self._request.timeout_s or settings.timeout_s,
            result_bytes_max=settings.result_bytes_max,
        )
        keepers = {stream: self._keeper(stream) for stream in Stream}
        execution = self._execution = Execution(sandbox, spec, self, keepers)
        self._context = self._ticket.make_context(
            self.run_id, self.trace_id, self._session_id, self._digest, lambda: snapshot() or tools, execution.deadline
        )
        # The journal keeps order: whatever the code causes is recorded after its start. Without a journal it must
        # not run.
        recorded.add_done_callback(lambda done: execution.force_end("journal") if done.exception() else None)
        try:
            outcome = await execution.run()
        finally:
            self._context.end()
        await recorded
        return await self._finish(outcome, spec, keepers)

    async def pass_call(self, spec: ToolCallSpec) -> ToolCallOutcome:
        """The road, bound to this execution."""
        assert self._context is not None
        return await self._runtime.road.pass_call(spec, self._context)

    async def failed_to_start(self, error: ExecutionError, tools: ToolSnapshot | None) -> Envelope:
        """An execution whose sandbox did not come up ends in an envelope like any other."""
        await self._record_start(tools)
        return await self._ended_early(error)

    async def _ended_early(self, error: ExecutionError) -> Envelope:
        envelope = self._envelope(error=error)
        await self._record_end(envelope, output_bytes=0)
        return envelope

    def _keeper(self, stream: Stream) -> StreamKeeper:
        settings, observer = self._runtime.settings, self._request.observer
        kept = settings.stdout_bytes_max if stream is Stream.STDOUT else settings.stderr_bytes_max
        return StreamKeeper(
            self._runtime.redactor.stream(),
            kept_bytes_max=kept,
            artifact=self._runtime.artifacts / self.run_id / stream.name.lower(),
            artifact_bytes_max=settings.artifact_bytes_max,
            observer=None if observer is None else lambda data: observer(stream, data),
        )

    async def _finish(
        self, outcome: ExecutionOutcome, spec: ExecutionSpec, keepers: dict[Stream, StreamKeeper]
    ) -> Envelope:
        data: JsonValue = None
        error = report.error_of(outcome, spec)
        if error is None:
            found = report.data_of(outcome, spec, keepers[Stream.STDOUT])
            error, data = (found, None) if isinstance(found, ExecutionError) else (None, found)
        if error is None:
            data = self._runtime.redactor.json(data, self._tally)
            if (size := len(canonical_json(data))) > spec.result_bytes_max and not outcome.result:
                error, data = report.too_large(size, spec.result_bytes_max), None
        else:
            message = self._runtime.redactor.text(error.message, self._tally)
            error = ExecutionError(type=error.type, message=message, retryable=error.retryable)
        envelope = self._envelope(
            data=data,
            error=error,
            extras={
                "stdout": keepers[Stream.STDOUT].text(),
                "stderr": keepers[Stream.STDERR].text(),
                "exit_code": report.exit_code_of(outcome),
            },
            metrics={
                "stdout_bytes": keepers[Stream.STDOUT].total_bytes,
                "stderr_bytes": keepers[Stream.STDERR].total_bytes,
                "parked_ms": round(outcome.parked_s * 1000),
            },
        )
        await self._record_end(envelope, output_bytes=sum(keeper.total_bytes for keeper in keepers.values()))
        return envelope

    def _envelope(
        self,
        *,
        error: ExecutionError | None,
        data: JsonValue = None,
        extras: dict[str, JsonValue] | None = None,
        metrics: dict[str, JsonValue] | None = None,
    ) -> Envelope:
        context = self._context
        calls: dict[str, JsonValue] = {"tool_calls": context.calls if context else 0}
        return Envelope(
            run_id=self.run_id,
            trace_id=self.trace_id,
            tool_name=_RUNNER,
            tool_version=moonpool.__version__,
            input_digest=self._digest,
            sandbox_image=self._image,
            duration_ms=round((asyncio.get_running_loop().time() - self._started) * 1000),
            **({"approval_state": context.approval_state} if context else {}),
            data=data,
            error=error,
            metrics={**calls, **(metrics or {})},
            extras=extras or {"stdout": "", "stderr": "", "exit_code": 1},
        )

    def _record_start(self, tools: ToolSnapshot | None) -> asyncio.Future[None]:
        return asyncio.ensure_future(
            self._runtime.journal.record(
                ExecutionStartRecord(
                    run_id=self.run_id,
                    trace_id=self.trace_id,
                    at=_now(),
                    principal=self._ticket.principal,
                    session_id=self._session_id,
                    language="python",
                    code_digest=self._digest,
                    environment_id=self._image,
                    manifest_digest=tools.manifest.digest if tools else "",
                )
            )
        )

    async def _record_end(self, envelope: Envelope, *, output_bytes: int) -> None:
        context = self._context
        await self._runtime.journal.record(
            ExecutionEndRecord(
                run_id=self.run_id,
                trace_id=self.trace_id,
                at=_now(),
                code_digest=self._digest,
                duration_ms=envelope.duration_ms,
                calls=context.calls if context else 0,
                calls_refused=context.refused if context else 0,
                approval=str(envelope.approval_state),
                error_type=envelope.error.type if envelope.error else "",
                output_digest=digest_json(envelope.data if envelope.error is None else envelope.error.to_json()),
                output_bytes=output_bytes,
                redactions=dict(self._tally),
            )
        )


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
