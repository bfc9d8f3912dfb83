"""One execution: code goes in, exactly one outcome comes out, whatever happens.

An `Execution` is attached to a sandbox while its code runs. It answers the code's tool calls through the call pipeline,
keeps its output, and ends on the first of: the kernel says `done`, the sandbox ends, or the clock or a limit forces the
end (interrupt, grace, kill). `moonpool.engine.envelopes` makes the envelope of what is collected here.

Neighbours: `execution_spec` is what goes in and comes out, `tool_calls` answers its tool calls.

INVARIANT: `run` returns exactly once, with every call settled or cancelled; nothing of this execution goes on
afterwards. From the moment it has ended it hears nothing: what code that is left says then is kept for the next one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from moonpool.engine.execution_spec import ExecutionOutcome
from moonpool.engine.files.created_files import Claims
from moonpool.engine.packages.requests import InstallsOfExecution
from moonpool.engine.tool_calls import CallsOfExecution
from moonpool.pipeline.deadline import Deadline
from moonpool.sandboxes.base import SandboxClosedError, Stream
from moonpool.sandboxes.link import outcome_of
from moonpool.sandboxes.messages import (
    Bundle,
    CallRefused,
    Display,
    Done,
    Execute,
    GuestMessage,
    HostMessage,
    InstallPackages,
    KernelEnded,
    Made,
    NondeterminismLog,
    Output,
    RecordedNondeterminism,
    ToolCall,
    ToolResult,
    Variables,
)
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.engine.execution_spec import ExecutionSpec
    from moonpool.engine.failed_calls import FailedCalls
    from moonpool.engine.output import StreamKeeper
    from moonpool.engine.packages.requests import Installs
    from moonpool.engine.tool_calls import ToolCalls
    from moonpool.sandboxes.base import ExitOutcome, Sandbox

GRACE_S = 1.0
_encode = msgspec.json.Encoder().encode


class Execution:
    """Runs one piece of code on one sandbox; a `GuestSink` for as long."""

    def __init__(
        self,
        sandbox: Sandbox,
        spec: ExecutionSpec,
        calls: ToolCalls,
        keepers: Mapping[Stream, StreamKeeper],
        install: Installs | None = None,
    ) -> None:
        """`install` answers code that asks for packages; None: it may not."""
        self._sandbox, self._spec = sandbox, spec
        self._keepers = keepers
        self._ended: asyncio.Future[ExecutionOutcome] = asyncio.get_running_loop().create_future()
        self._calls = CallsOfExecution(sandbox, spec.run_id, calls)
        self._installs = InstallsOfExecution(sandbox, install)
        self._claims = Claims()
        self._nondeterminism: tuple[bytes, str] | None = None  # and where it was left
        self._forced: str | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self.deadline = Deadline(spec.timeout_s, lambda: self.force_end("timeout"))

    @property
    def failed_calls(self) -> FailedCalls:
        """The calls that failed so far."""
        return self._calls.failed

    async def run(self) -> ExecutionOutcome:
        """Send the code and wait for the end. A cancelled wait kills the sandbox before it lets go."""
        spec = self._spec
        order = Execute(
            run=spec.run_id,
            name=spec.name,
            manifest=spec.manifest_digest,
            final=spec.final,
            result_bytes_max=spec.result_bytes_max,
            language=spec.language,
            record=spec.record_nondeterminism,
            ipython=spec.ipython,
        )
        try:
            self._sandbox.attach(self)
            self._sandbox.limits_hit()  # what was hit before is not this execution's
            self._calls.open = True  # what comes before the code was sent by code that is over
            try:
                if spec.nondeterminism_log is not None:
                    self._sandbox.send(NondeterminismLog(run=spec.run_id), spec.nondeterminism_log)
                if spec.variables or spec.home:
                    self._sandbox.send(Variables(run=spec.run_id, home=spec.home), _encode(spec.variables))
                self._sandbox.send(order, spec.code)
            except SandboxClosedError:
                await self._sandbox.wait_exited()
            return await self._ended
        except asyncio.CancelledError:
            self._calls.open = False
            self._forced = "cancelled"
            await finish(self._close())
            raise
        finally:
            await self._settle()

    def force_end(self, reason: str) -> None:
        """Interrupt the code; kill the sandbox when that does not end it within the grace. The first reason counts."""
        if self._ended.done() or self._forced is not None:
            return
        self._forced = reason
        self._sandbox.interrupt()
        loop = asyncio.get_running_loop()
        # Once more: an interrupt that arrives before the kernel has read its order means nothing to it.
        self._again = loop.call_later(GRACE_S / 2, self._sandbox.interrupt)
        self._grace = loop.call_later(GRACE_S, self._sandbox.kill)

    def kill(self, reason: str) -> None:
        """End the code now, without interrupt and grace."""
        if not self._ended.done():
            self._forced = self._forced or reason
            self._sandbox.kill()

    async def abandon(self) -> None:
        """End whatever may still run of it: the host failed, and does not know."""
        await self._close()

    async def _settle(self) -> None:
        self.deadline.cancel()
        for timer in (self._grace, self._again):
            if timer is not None:
                timer.cancel()
        try:
            await self._installs.settle()
            await self._calls.settle()
        finally:
            for keeper in self._keepers.values():
                keeper.finish()

    async def _close(self) -> None:
        await self._sandbox.close()

    # --- what the guest says

    def on_output(self, stream: Stream, data: bytes) -> None:
        """Keep it; end the execution when it is more than any stream may be."""
        keeper = self._keepers[stream]
        keeper.feed(data)
        if keeper.overflowed and self._forced is None:
            self._forced = "output"
            self._sandbox.kill()  # whoever floods does not get a grace

    def on_message(self, message: GuestMessage, body: bytes) -> None:
        """Act on one message."""
        if isinstance(message, ToolCall | CallRefused | InstallPackages):
            self._on_request(message, body)
        elif isinstance(message, RecordedNondeterminism):
            self._take_nondeterminism_log(message, body)
        elif isinstance(message, Done):
            if message.run == self._spec.run_id:
                self._finish(done=message, result=body)
        elif isinstance(message, Output):
            self.on_output(Stream(message.stream), body)
        elif isinstance(message, Display | Bundle | Made):
            self._claim(message, body)
        elif isinstance(message, KernelEnded):
            self._finish(exit_=outcome_of(message.status << 8, killed=False, violation=None), process_only=True)

    def _claim(self, message: Display | Bundle | Made, body: bytes) -> None:
        if isinstance(message, Display):
            self._claims.take_picture(message, body)
        elif isinstance(message, Bundle):
            self._claims.take_bundle(message, body)
        elif message.run == self._spec.run_id:
            self._claims.take_files(message, body)

    def _on_request(self, message: ToolCall | CallRefused | InstallPackages, body: bytes) -> None:
        if isinstance(message, ToolCall):
            self._calls.start(message, body)
        elif isinstance(message, CallRefused):
            self._calls.note_refused(message)
        else:
            self._installs.start(message, body, is_open=self._calls.open)

    def _take_nondeterminism_log(self, message: RecordedNondeterminism, body: bytes) -> None:
        """SECURITY: the guest's own words about its run: kept, the first one, where one was asked for; never read."""
        wanted = self._spec.record_nondeterminism or self._spec.nondeterminism_log is not None
        if wanted and self._nondeterminism is None and message.run == self._spec.run_id:
            self._nondeterminism = (body if self._spec.record_nondeterminism else b"", message.divergence)

    def on_refused(self, message: HostMessage) -> None:
        """The guest could not take a body: a reply that is too large becomes an error; code cannot be that large."""
        if isinstance(message, ToolResult):
            self._calls.answer_too_large(message.id)

    def on_exit(self, outcome: ExitOutcome) -> None:
        """The sandbox ended before the code said that it was done."""
        self._finish(exit_=outcome)

    def _finish(
        self,
        *,
        done: Done | None = None,
        result: bytes = b"",
        exit_: ExitOutcome | None = None,
        process_only: bool = False,
    ) -> None:
        if not self._ended.done():
            self._calls.open = False
            nondeterminism_log, divergence = self._nondeterminism or (b"", "")
            self._ended.set_result(
                ExecutionOutcome(
                    done=done,
                    result=result,
                    exit=exit_,
                    process_only=process_only,
                    forced=self._forced,
                    limits_hit=self._sandbox.limits_hit(),
                    parked_s=self.deadline.paused_s,
                    duplicate_calls=self._calls.duplicates,
                    claims=self._claims,
                    nondeterminism_log=nondeterminism_log,
                    nondeterminism_divergence=divergence,
                )
            )
            self._sandbox.detach()
