"""One execution by one call in memory: its lines as they come, for any number of readers, and its result.

Its code does not wait for its readers. What is kept for those that are slow or come again is bounded (`kept_lines`):
the oldest output goes first, and the result has what is kept of all of it.

INVARIANT: the last line is `result`, whatever happens.
"""

from __future__ import annotations

import asyncio
import codecs
from contextlib import suppress
from typing import TYPE_CHECKING

from moonpool.engine.sandbox_runs.base import RunEvent
from moonpool.engine.sandbox_runs.results import result_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from moonpool.core.json import JsonObject
    from moonpool.engine.sandbox_runs.base import RunResult
    from moonpool.engine.sandbox_runs.kept_lines import KeptLines
    from moonpool.engine.sandbox_runs.sandboxes import RunSandbox
    from moonpool.sandboxes.base import Stream

KEEPALIVE_S: float = 15.0
"""A stream without news says so after so long."""


def status_line(trace_id: str, seq: int) -> RunEvent:
    """The first of every stream."""
    return _event(seq, "status", {"trace_id": trace_id, "status": "running"})


def output_line(stream: str, text: str, seq: int) -> RunEvent:
    return _event(seq, "output", {"stream": stream, "data": text})


def keepalive_line(seq: int) -> RunEvent:
    return _event(seq, "keepalive", {})


def result_line(trace_id: str, result: RunResult, seq: int) -> RunEvent:
    """The last of every stream."""
    members: JsonObject = {
        "trace_id": trace_id,
        "status": result.status,
        "result": result_body(result),
        "output_truncated": result.output_truncated,
    }
    return _event(seq, "result", members)


class RunningOrder:
    """A `SandboxRun`. Made and fed by `runs.OrganisationRuns`."""

    def __init__(self, trace_id: str, principal: str, lines: KeptLines | None) -> None:
        """`lines` None: nobody can ask for them."""
        loop = asyncio.get_running_loop()
        self._trace_id, self.principal, self.lines = trace_id, principal, lines
        self.has_started = False  # its code was sent to a sandbox
        self.is_cancelled = self._is_closing = False
        self._known: asyncio.Future[None] = loop.create_future()  # once it has started or ended, or why it did neither
        self._over: asyncio.Future[RunResult] = loop.create_future()
        self._sandbox: RunSandbox | None = None
        self._texts = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self.seq = 0  # of the newest line
        self._changed = asyncio.Event()
        self._when_over: list[Callable[[], None]] = []

    # --- for whoever asked for it

    @property
    def trace_id(self) -> str:
        return self._trace_id

    @property
    def is_over(self) -> bool:
        return self._over.done()

    async def result(self) -> RunResult:
        return await asyncio.shield(self._over)

    def cancel(self) -> None:
        self.is_cancelled = True
        if self._sandbox is not None:
            self._sandbox.interrupt()

    def when_over(self, call: Callable[[], None]) -> None:
        if self._over.done():
            call()
        else:
            self._when_over.append(call)

    async def events(self, after_seq: int = 0) -> AsyncIterator[RunEvent]:
        lines = self.lines
        assert lines is not None, "nobody has its id while it runs"
        while True:
            changed = self._changed
            while (event := lines.after(after_seq)) is not None:
                after_seq = event.seq
                yield event
            if self._over.done() and after_seq >= self.seq:
                return
            is_silent = changed is self._changed and not await _heard(changed) and changed is self._changed
            if is_silent and not self._is_closing:
                self._tell(keepalive_line(self.seq + 1))

    # --- for who carries it out

    async def known(self) -> None:
        """Return when it has started or ended. Raises why it could not be started."""
        await asyncio.shield(self._known)

    def runs_in(self, sandbox: RunSandbox) -> None:
        self._sandbox = sandbox

    def start(self) -> None:
        """Its code is sent."""
        self.has_started = True
        self._tell(status_line(self._trace_id, self.seq + 1))
        self._be_known()

    def hear(self, stream: Stream, data: bytes) -> None:
        """Output, redacted."""
        name = stream.name.lower()
        if text := self._texts[name].decode(data):
            self._tell(output_line(name, text, self.seq + 1))

    def refuse(self, error: Exception) -> None:
        """It was not started, and there is no result."""
        if not self._known.done():
            self._known.set_exception(error)
            self._known.exception()  # seen, where nobody waits
        self._over.cancel()
        self._end()

    def close_lines(self) -> int:
        """Its code has ended, and nothing but its result is still to come; which number that line will have."""
        self._is_closing = True
        if not self.seq:  # it never started
            self._tell(status_line(self._trace_id, 1))
        for name, decoder in self._texts.items():
            if text := decoder.decode(b"", final=True):
                self._tell(output_line(name, text, self.seq + 1))
        return self.seq + 1

    def end(self, result: RunResult) -> None:
        """It is over, and on record."""
        self._tell(result_line(self._trace_id, result, self.close_lines()))
        if not self._over.done():
            self._over.set_result(result)
        self._be_known()
        self._end()

    def _be_known(self) -> None:
        if not self._known.done():
            self._known.set_result(None)

    def _end(self) -> None:
        self._sandbox = None
        calls, self._when_over = self._when_over, []
        for call in calls:
            call()
        self._wake()

    def _tell(self, event: RunEvent) -> None:
        self.seq = event.seq
        if self.lines is not None:
            self.lines.add(event)
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _event(seq: int, kind: str, members: JsonObject) -> RunEvent:
    body: JsonObject = {"type": kind, **members, "seq": seq}
    return RunEvent(seq=seq, kind=kind, body=body)  # pyright: ignore[reportArgumentType]  one of four words above


async def _heard(changed: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(KEEPALIVE_S):
            await changed.wait()
        return True
    return False
