"""`Probe`: sits on a sandbox, sends it code and collects what comes back, in order."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from moonpool.sandboxes.base import ExitOutcome, Stream
from moonpool.sandboxes.messages import Done, Execute, NondeterminismLog, RecordedNondeterminism, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.messages import GuestMessage, HostMessage

    Broker = Callable[[ToolCall, object], object]

DEADLINE_S = 60.0

Heard = tuple[Stream, bytes] | tuple["GuestMessage", bytes] | tuple["HostMessage", None] | tuple[ExitOutcome, None]


def echo(call: ToolCall, arguments: object) -> object:
    """A broker that returns what it was given."""
    content = {"server": call.server, "tool": call.tool, "arguments": arguments}
    return {"ok": True, "data_from": "structured", "raw": {"structuredContent": content}}


@dataclass
class Run:
    """What one execution gave."""

    stdout: str = ""
    stderr: str = ""
    done: Done | None = None
    body: bytes = b""
    exit: ExitOutcome | None = None
    calls: list[ToolCall] = field(default_factory=list)
    refused: list[HostMessage] = field(default_factory=list)
    tapes: list[bytes] = field(default_factory=list)
    divergence: str = ""

    @property
    def result(self) -> object:
        """The value handed over. Fails if there is none."""
        assert self.done is not None, self
        assert self.done.error is None, (self.done.error, self.stderr)
        assert self.done.has_result, self
        return json.loads(self.body)

    @property
    def error(self) -> tuple[str, str]:
        assert self.done is not None, self
        assert self.done.error is not None, self
        return self.done.error.type, self.done.error.message


class Probe:
    """A `GuestSink` with a memory. `broker` answers tool calls; None leaves them open."""

    def __init__(self, sandbox: Sandbox, broker: Broker | None = echo) -> None:
        self.sandbox = sandbox
        self.broker = broker
        self.heard: list[Heard] = []
        self._news = asyncio.Event()
        self._taken = 0
        self._runs = 0
        sandbox.attach(self)

    # --- GuestSink

    def on_output(self, stream: Stream, data: bytes) -> None:
        self._hear((stream, data))

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        self._hear((message, body))
        if isinstance(message, ToolCall) and self.broker is not None:
            self.answer(message, self.broker(message, json.loads(body)))

    def on_refused(self, message: HostMessage) -> None:
        self._hear((message, None))

    def on_exit(self, outcome: ExitOutcome) -> None:
        self._hear((outcome, None))

    def _hear(self, item: Heard) -> None:
        self.heard.append(item)
        self._news.set()

    # --- driving

    def answer(self, call: ToolCall, reply: object) -> None:
        self.sandbox.send(ToolResult(id=call.id), json.dumps(reply).encode())

    def start(
        self,
        code: str | bytes,
        *,
        final: bool = False,
        result_bytes_max: int = 1 << 20,
        record: bool = False,
        tape: bytes | None = None,
    ) -> None:
        """Send code without waiting."""
        self._runs += 1
        order = Execute(
            run=str(self._runs),
            name="<code>",
            manifest="",
            final=final,
            result_bytes_max=result_bytes_max,
            record=record,
        )
        if tape is not None:
            self.sandbox.send(NondeterminismLog(run=order.run), tape)
        self.sandbox.send(order, code.encode() if isinstance(code, str) else code)

    async def until(self, wanted: Callable[[Run], object]) -> Run:
        """Wait until what came since the last wait satisfies `wanted`."""
        with anyio.fail_after(DEADLINE_S):
            while True:
                run = self._collect()
                if wanted(run):
                    self._taken = len(self.heard)
                    return run
                assert run.exit is None, f"the sandbox ended: {run}"
                self._news.clear()
                await self._news.wait()

    async def said(self, text: str) -> None:
        """Wait until stdout holds `text`; nothing is taken."""
        taken = self._taken
        await self.until(lambda run: text in run.stdout)
        self._taken = taken

    async def finish(self) -> Run:
        """Wait for the end of the execution that was started."""
        return await self.until(lambda run: run.done is not None)

    async def run(self, code: str | bytes, *, final: bool = False, result_bytes_max: int = 1 << 20) -> Run:
        """Run code to its end."""
        self.start(code, final=final, result_bytes_max=result_bytes_max)
        return await self.finish()

    async def record(self, code: str) -> Run:
        """Run code to its end and record a nondeterminism log."""
        self.start(code, record=True)
        return await self.finish()

    async def replay(self, code: str, tape: bytes) -> Run:
        """Run code to its end with a nondeterminism log that is replayed."""
        self.start(code, tape=tape)
        return await self.finish()

    async def run_to_exit(self, code: str) -> Run:
        """Run code that ends the sandbox."""
        self.start(code)
        return await self.exited()

    async def exited(self) -> Run:
        return await self.until(lambda run: run.exit is not None)

    def _collect(self) -> Run:
        run = Run()
        out: dict[Stream, list[bytes]] = {Stream.STDOUT: [], Stream.STDERR: []}
        for item, body in self.heard[self._taken :]:
            if isinstance(item, Stream):
                out[item].append(body or b"")
            elif isinstance(item, Done):
                run.done, run.body = item, body or b""
            elif isinstance(item, RecordedNondeterminism):
                run.tapes.append(body or b"")
                run.divergence = item.divergence
            elif isinstance(item, ExitOutcome):
                run.exit = item
            elif isinstance(item, ToolCall):
                run.calls.append(item)
            elif body is None:
                run.refused.append(item)  # pyright: ignore[reportArgumentType]
        run.stdout = b"".join(out[Stream.STDOUT]).decode(errors="replace")
        run.stderr = b"".join(out[Stream.STDERR]).decode(errors="replace")
        return run


def open_fds() -> set[str]:
    """What this process has open: descriptor and what it points at."""
    found: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {os.readlink(entry)}")  # noqa: PTH115
        except OSError:
            continue  # the listing's own
    return found
