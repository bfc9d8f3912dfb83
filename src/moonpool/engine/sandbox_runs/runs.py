"""Executions by one call of one organisation: begun, found, followed, cancelled; each leaves a record.

What begins one waits until its code starts, so whatever keeps it from starting is an error that may be tried again, and
no record of it is left. Whoever waits for the result of an inline one gets it after its record is written; the others
are on record before their ids are given out, and are never run again.

INVARIANT: a thread is let go before the result is given out, so the next execution of it finds it free.
SECURITY: what is found by an id is of its principal, or of the organisation for an administrator; another's is unknown.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError, MoonpoolError
from moonpool.engine.code_request import CodeRequest, new_run_id
from moonpool.engine.kept_executions import ExecutionUnknownError
from moonpool.engine.sandbox_runs import kept_lines
from moonpool.engine.sandbox_runs.errors import (
    BackgroundRunsError,
    CapacityError,
    ExecutionOverError,
    SandboxUnfitError,
)
from moonpool.engine.sandbox_runs.following import RecordedRun
from moonpool.engine.sandbox_runs.kept_lines import KeptLines, Room, order_bytes
from moonpool.engine.sandbox_runs.orders import check, variables_of
from moonpool.engine.sandbox_runs.results import INTERNAL, not_run, result_of
from moonpool.engine.sandbox_runs.running import RunningOrder
from moonpool.engine.sandbox_runs.sandboxes import storage_of_run
from moonpool.features.execution_records.model import TRACE_ID, ExecutionRecord, new_trace_id
from moonpool.features.storage.model import TreeFullError
from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.envelope import Envelope
    from moonpool.engine.sandbox_runs.base import RunOwner, RunResult, SandboxOrder, SandboxRun
    from moonpool.engine.sandbox_runs.following import RunSignals
    from moonpool.engine.sandbox_runs.sandboxes import RunSandbox, SandboxSource, StorageOfRun
    from moonpool.features.execution_records.model import RunPage, RunQuery
    from moonpool.features.execution_records.service import ExecutionRecords
    from moonpool.features.storage.base import OrganisationTrees

BACKGROUND_MAX: Final = 100
"""Streaming and asynchronous executions of one organisation that run at the same time in one process."""
REMEMBERED_S: Final = 60.0
"""How long the lines of one that is over can be read again as they were; later they are made from its record."""
REMEMBERED_MAX: Final = 32
_AGAIN_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""After how long the end of an execution is written again, where the database is away; from then on after the last."""
_TOLD_AFTER: Final = 4
"""Attempts that the result waits for."""
_DISCARD_S: Final = 0.05
"""A sandbox is ended, and the next one made ready, when the result is given out; where that takes longer, by then."""
_CODE_NAME: Final = "<stdin>"
_log = logging.getLogger(__name__)


class OrganisationRuns:
    """A `SandboxRuns`. Used on one event loop."""

    def __init__(
        self,
        organisation: str,
        records: ExecutionRecords,
        sandboxes: Callable[[], Awaitable[SandboxSource]],
        trees: OrganisationTrees | None = None,
        signals: RunSignals | None = None,
        on_owed: Callable[[], None] = lambda: None,
    ) -> None:
        """`sandboxes` gives those of its tenant, opened if need be; `trees` None: nothing is stored here; `on_owed`
        hears that a webhook is to be delivered.
        """
        self._organisation, self._records, self._sandboxes = organisation, records, sandboxes
        self._trees, self._signals, self._on_owed = trees, signals, on_owed
        self._running: dict[str, RunningOrder] = {}
        self._over: OrderedDict[str, RunningOrder] = OrderedDict()
        self._room, self._closing = Room(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_running(self) -> bool:
        return bool(self._tasks)

    @property
    def principals(self) -> set[str]:
        """Of whom something runs."""
        return {one.principal for one in self._running.values()}

    def end_principal(self, principal: str) -> None:
        """Cancel what runs of this one, whose credential counts no more."""
        for run in tuple(self._running.values()):
            if run.principal == principal and not run.is_cancelled:
                run.cancel()

    # --- running

    async def begin(self, owner: RunOwner, order: SandboxOrder) -> SandboxRun:
        """See `SandboxRuns`. Who gives up waiting ends it."""
        source = await self._sandboxes()
        check(order, owner, timeout_s_max=source.timeout_s_max, private_hosts=source.private_hosts)
        lines = None if order.delivery_mode == "inline" else self._lines_for(order)
        run = RunningOrder(new_trace_id(), owner.principal, lines)
        self._running[run.trace_id] = run
        task = asyncio.create_task(self._carried_out(run, owner, order, source))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await run.known()
        except asyncio.CancelledError:
            run.cancel()
            raise
        return run

    def _lines_for(self, order: SandboxOrder) -> KeptLines:
        """Have its order counted. Raises BackgroundRunsError."""
        if sum(one.lines is not None for one in self._running.values()) >= BACKGROUND_MAX:
            raise BackgroundRunsError.of_count(BACKGROUND_MAX)
        needed = order_bytes(order)
        while self._over and not self._room.has(needed):
            self._forget(next(iter(self._over)))
        if not self._room.has(needed):
            raise BackgroundRunsError.of_bytes(kept_lines.ROOM_BYTES)
        self._room.used += needed
        return KeptLines(self._room)

    async def _carried_out(
        self, run: RunningOrder, owner: RunOwner, order: SandboxOrder, source: SandboxSource
    ) -> None:
        record = _record(run, owner, order, source)
        try:
            carrying = _Carrying(self._organisation, self._records, self._trees, source, self._closing)
            await carrying.out(run, owner, order, record)
        finally:
            del self._running[run.trace_id]
            if record.webhook_url is not None:
                self._on_owed()
            if run.lines is not None:
                self._room.used -= order_bytes(order)
                if run.is_over and run.seq:
                    self._remember(run)

    def _remember(self, run: RunningOrder) -> None:
        self._over[run.trace_id] = run
        asyncio.get_running_loop().call_later(REMEMBERED_S, self._forget, run.trace_id)
        while len(self._over) > REMEMBERED_MAX or (self._over and not self._room.has(0)):
            self._forget(next(iter(self._over)))

    def _forget(self, trace_id: str) -> None:
        if (run := self._over.pop(trace_id, None)) is not None and run.lines is not None:
            run.lines.forget()

    # --- finding

    async def find(self, owner: RunOwner, trace_id: str) -> ExecutionRecord:
        return (await self._find(owner, trace_id))[0]

    async def _find(self, owner: RunOwner, trace_id: str) -> tuple[ExecutionRecord, bool]:
        found = None
        if TRACE_ID.fullmatch(trace_id) is not None:
            found = await self._records.find(self._organisation, trace_id, _whose(owner))
        if found is None:
            raise ExecutionUnknownError(trace_id)
        return found

    async def follow(self, owner: RunOwner, trace_id: str) -> SandboxRun:
        run = self._running.get(trace_id) or self._over.get(trace_id)
        if run is not None and run.lines is not None and (owner.sees_all or run.principal == owner.principal):
            return run
        record = await self.find(owner, trace_id)

        def cancel() -> None:
            raise NotImplementedError  # of executions that begin here

        return RecordedRun(record, lambda: self.find(owner, trace_id), cancel, self._signals)

    async def list(self, owner: RunOwner, query: RunQuery) -> RunPage:
        return await self._records.page(self._organisation, _whose(owner), query)

    async def cancel(self, owner: RunOwner, trace_id: str) -> None:
        record, is_ours = await self._find(owner, trace_id)
        run = self._running.get(trace_id)
        if run is not None and not run.is_over:
            run.cancel()
        elif record.is_over or is_ours:
            raise ExecutionOverError(trace_id)
        else:
            await self._records.ask_cancel(self._organisation, trace_id)

    def cancel_here(self, trace_id: str) -> None:
        """It was cancelled at another replica."""
        if (run := self._running.get(trace_id)) is not None:
            run.cancel()

    async def close(self) -> None:
        """End what runs; all of it is on record when this returns, unless the database is away."""
        self._closing.set()
        for run in tuple(self._running.values()):
            run.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))


class _Carrying:
    """Carries out one order."""

    def __init__(
        self,
        organisation: str,
        records: ExecutionRecords,
        trees: OrganisationTrees | None,
        source: SandboxSource,
        closing: asyncio.Event,
    ) -> None:
        self._organisation, self._records, self._trees, self._source = organisation, records, trees, source
        self._closing, self._is_on_record = closing, False
        self._sandbox: RunSandbox | None = None

    async def out(self, run: RunningOrder, owner: RunOwner, order: SandboxOrder, record: ExecutionRecord) -> None:
        """Run it, keep its record and settle `run`, with a result or with why there is none."""
        try:
            await self._out(run, owner, order, record)
        finally:
            self._discard()

    async def _out(self, run: RunningOrder, owner: RunOwner, order: SandboxOrder, record: ExecutionRecord) -> None:
        began = time.monotonic()
        try:
            async with storage_of_run(self._trees, owner, order, run.trace_id) as storage:
                result = await self._result(run, owner, order, record, storage)
        except Exception as error:  # noqa: BLE001  whatever it is, whoever waits hears of it
            if not run.has_started:
                await self._refuse(run, error)
                return
            _log.exception("the execution %s failed", run.trace_id)
            result = replace(not_run("failed", INTERNAL), exit_code=1)
        record = replace(
            record,
            status=result.status,
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            output_truncated=result.output_truncated,
            error=result.error,
            duration_ms=round((time.monotonic() - began) * 1000),
            completed_at=time.time(),
            last_seq=run.close_lines(),
        )
        if self._is_on_record:
            await self._end_on_record(record, lambda: run.end(result))
        else:
            await self._keep(record)
        if not run.is_over:
            run.end(result)

    async def _result(
        self, run: RunningOrder, owner: RunOwner, order: SandboxOrder, record: ExecutionRecord, storage: StorageOfRun
    ) -> RunResult:
        if order.delivery_mode != "inline":
            await self._records.add(self._organisation, record)
            self._is_on_record = True
        sandbox = self._sandbox = await self._source.open(owner, storage)
        try:
            run.runs_in(sandbox)
            if run.is_cancelled:
                return not_run("cancelled", "cancelled")
            envelope = await sandbox.execute(_request(run, owner, order, record, self._source.timeout_s_max))
            if not run.has_started and not run.is_cancelled:
                raise _why_not_started(envelope)
            return self._told(run, sandbox, envelope)
        finally:
            asyncio.get_running_loop().call_later(_DISCARD_S, self._discard)

    def _discard(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close_soon()

    def _told(self, run: RunningOrder, sandbox: RunSandbox, envelope: Envelope) -> RunResult:
        return result_of(
            envelope,
            started=run.has_started,
            was_blocked=sandbox.was_blocked,
            stream_bytes_max=self._source.stream_bytes_max,
        )

    async def _refuse(self, run: RunningOrder, error: Exception) -> None:
        if self._is_on_record:
            try:
                await self._records.remove(self._organisation, run.trace_id)
            except DatabaseError as failure:  # it is taken for lost, once this process has ended
                _log.warning("the record of %s, which never began, cannot be removed: %s", run.trace_id, failure)
        run.refuse(error)

    async def _keep(self, record: ExecutionRecord) -> None:
        """Of an inline one, whose result is given out in any case: its code has run."""
        try:
            await self._records.add(self._organisation, record, durable=False)
        except DatabaseError as error:
            _log.error("the record of %s could not be kept: %s", record.trace_id, error)

    async def _end_on_record(self, record: ExecutionRecord, tell: Callable[[], None]) -> None:
        """Of one that is on record as running: until it is written, or the service ends and it is taken for lost.
        `tell` gives the result out where that takes long.
        """
        for attempt in count(1):
            is_last = self._closing.is_set()
            try:
                if not await self._records.end(self._organisation, record):
                    _log.error("%s is on record as lost already", record.trace_id)
                return
            except DatabaseError as error:
                _log.warning("the end of %s could not be put on record: %s", record.trace_id, error)
            if is_last:
                return
            if attempt == _TOLD_AFTER:
                tell()
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S[min(attempt, len(_AGAIN_S)) - 1]):
                    await self._closing.wait()


def _record(run: RunningOrder, owner: RunOwner, order: SandboxOrder, source: SandboxSource) -> ExecutionRecord:
    return ExecutionRecord(
        trace_id=run.trace_id,
        principal=owner.principal,
        run_id=new_run_id(),
        language=order.language or owner.configuration.language,
        delivery_mode=order.delivery_mode,
        thread_id=order.thread_id,
        metadata=source.redacted(order.metadata),
        created_at=time.time(),
        webhook_url=order.webhook_url,
        webhook_status=None if order.webhook_url is None else "pending",
    )


def _request(
    run: RunningOrder, owner: RunOwner, order: SandboxOrder, record: ExecutionRecord, timeout_s_max: float
) -> CodeRequest:
    return CodeRequest(
        code=order.code.encode(),
        language=record.language,
        timeout_s=float(order.timeout_s or min(owner.configuration.timeout_s, timeout_s_max)),
        name=_CODE_NAME,
        run_id=record.run_id,
        execution_id=run.trace_id,
        metadata=json.dumps(dict(record.metadata)) if record.metadata else "",
        started=run.start,
        variables=variables_of(order, owner),
        observer=None if run.lines is None else run.hear,
    )


def _why_not_started(envelope: Envelope) -> MoonpoolError:
    """SECURITY: an envelope's words about a sandbox may name this machine; the log has them."""
    error = envelope.error
    if error is not None and error.type == "LanguageUnavailable":
        return InputError(f"Language not available in this image: {error.message}")
    if error is not None and error.type == "StorageFull":  # its caller's own tree
        return TreeFullError(error.message)
    if error is not None:
        _log.warning("an execution by one call could not start: %s: %s", error.type, error.message)
    return CapacityError() if error is None or error.retryable else SandboxUnfitError()


def _whose(owner: RunOwner) -> str | None:
    return None if owner.sees_all else owner.principal
