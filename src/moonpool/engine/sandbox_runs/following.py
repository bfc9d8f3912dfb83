"""The lines of an execution that is not in this process's memory: made from its record, once it is over.

Who was given nothing but the first line gets the whole output in one line for each stream; who was given more gets the
result alone, which has all that is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.engine.sandbox_runs import running
from moonpool.engine.sandbox_runs.base import RunResult
from moonpool.engine.sandbox_runs.running import keepalive_line, output_line, result_line, status_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractContextManager

    from moonpool.engine.sandbox_runs.base import RunEvent
    from moonpool.features.execution_records.model import ExecutionRecord

LOOK_S: Final = 2.0
"""How often the record of one that runs elsewhere is looked at, where no signal comes."""


class Listening(Protocol):
    """See `moonpool.store.signals.Listening`."""

    async def wait(self) -> None: ...


class RunSignals(Protocol):
    """Those of replicas (`moonpool.store.signals.Signals`)."""

    def listening(self, topic: str) -> AbstractContextManager[Listening]: ...


class RecordedRun:
    """A `SandboxRun` of a record."""

    def __init__(
        self,
        record: ExecutionRecord,
        look: Callable[[], Awaitable[ExecutionRecord]],
        cancel: Callable[[], None],
        signals: RunSignals | None,
    ) -> None:
        """`look` reads the record anew, `cancel` has it cancelled where it runs."""
        self._record, self._look, self._cancel, self._signals = record, look, cancel, signals

    @property
    def trace_id(self) -> str:
        return self._record.trace_id

    async def result(self) -> RunResult:
        async for _ in self.events():
            pass
        return result_on_record(self._record)

    def cancel(self) -> None:
        self._cancel()

    def when_over(self, call: Callable[[], None]) -> None:
        raise NotImplementedError  # of executions that begin here

    async def events(self, after_seq: int = 0) -> AsyncIterator[RunEvent]:
        has_output = after_seq > 1
        seq = after_seq
        if not after_seq:
            yield status_line(self.trace_id, seq := 1)
        while not self._record.is_over:
            if not await self._ended_within(running.KEEPALIVE_S):
                yield keepalive_line(seq := seq + 1)
        record = self._record
        if after_seq >= record.last_seq > 0:
            return
        for name, text in (("stdout", record.stdout), ("stderr", record.stderr)):
            if text and not has_output:
                yield output_line(name, text, seq := seq + 1)
        yield result_line(self.trace_id, result_on_record(record), max(seq + 1, record.last_seq))

    async def _ended_within(self, within_s: float) -> bool:
        listening = None if self._signals is None else self._signals.listening(f"sandbox-run/{self.trace_id}")
        with nullcontext() if listening is None else listening as changed, suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    self._record = await self._look()
                    if self._record.is_over:
                        return True
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_S):
                            await (asyncio.sleep(LOOK_S) if changed is None else changed.wait())
        return False


def result_on_record(record: ExecutionRecord) -> RunResult:
    """What an execution that is over came to."""
    return RunResult(
        status=record.status,
        success=record.status == "success",
        stdout=record.stdout or "",
        stderr=record.stderr or "",
        exit_code=-1 if record.exit_code is None else record.exit_code,
        error=record.error,
        output_truncated=record.output_truncated,
    )
