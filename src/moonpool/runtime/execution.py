"""One execution: code goes in, exactly one outcome comes out, whatever happens.

An `Execution` is attached to a sandbox while its code runs. It answers the code's tool calls through the broker's road,
keeps its output, and ends on the first of: the kernel says `done`, the sandbox ends, or the clock or a limit forces the
end (interrupt, grace, kill). `moonpool.runtime.report` makes the envelope of what is collected here.

INVARIANT: `run` returns exactly once, with every call settled or cancelled; nothing of this execution goes on
afterwards.
SECURITY: calls are answered by the id the host remembers; a reply is sent once per id, to the sandbox that asked.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from moonpool.core.calls import CallError, CallErrorType, ToolCallOutcome, ToolCallSpec
from moonpool.core.languages import PYTHON
from moonpool.runtime.deadline import Deadline
from moonpool.sandboxes.base import ExitOutcome, LimitKind, SandboxClosedError, SandboxLimits, Stream
from moonpool.sandboxes.messages import (
    Display,
    Done,
    Execute,
    GuestMessage,
    HostMessage,
    Output,
    RecordedTape,
    Tape,
    ToolCall,
    ToolResult,
)
from moonpool.sandboxes.shielding import finish
from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import CALL_BYTES_IN_FLIGHT_MAX, CALLS_IN_FLIGHT_MAX, TAPE_BYTES_MAX, VALUES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject
    from moonpool.runtime.output import StreamKeeper
    from moonpool.sandboxes.base import Sandbox

GRACE_S = 1.0
_PARSE_ON_LOOP_BYTES_MAX = 256 * 1024
_encode = msgspec.json.Encoder().encode


class ToolCalls(Protocol):
    """The broker's road, bound to one execution."""

    async def pass_call(self, spec: ToolCallSpec) -> ToolCallOutcome:
        """Take one call down the road. Never raises for a failing tool."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSpec:
    """What to run and within which bounds."""

    run_id: str
    code: bytes  # UTF-8
    name: str = "<code>"  # what tracebacks call it
    language: str = PYTHON
    manifest_digest: str = ""
    final: bool = True
    timeout_s: float = 60.0
    result_bytes_max: int = 60 * 1024
    limits: SandboxLimits = field(default_factory=SandboxLimits)  # of the sandbox it runs in
    record_tape: bool = False  # what Python code reads of clock and randomness
    tape: bytes | None = None  # one to play to it

    def __post_init__(self) -> None:
        if self.tape is not None and len(self.tape) > TAPE_BYTES_MAX:
            raise ValueError(f"a tape holds at most {TAPE_BYTES_MAX:,} bytes, not {len(self.tape):,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOutcome:
    """How it ended. Exactly one of `done` and `exit` is set."""

    done: Done | None = None
    result: bytes = b""
    exit: ExitOutcome | None = None
    forced: str | None = None  # why the host ended it: `timeout`, `cancelled`, `output`, `journal`, `plan`
    limits_hit: frozenset[LimitKind] | None = None  # None: nobody counts here
    parked_s: float = 0.0
    duplicate_calls: int = 0
    displays: int = 0
    tape: bytes = b""  # what was recorded; empty when the execution ended before it could hand it over
    tape_divergence: str = ""  # where the code first left the tape that was played


class RecentIds:
    """Tells call ids apart that were seen before. They come nearly in order: a small call overtakes a large one.

    An id that lies further behind the highest than calls can be in flight counts as seen, so little is remembered.
    """

    _SPAN = 16 * CALLS_IN_FLIGHT_MAX

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._highest = 0

    def take(self, call_id: int) -> bool:
        """Whether `call_id` is new; from now on it is not."""
        if call_id in self._seen or call_id <= self._highest - self._SPAN:
            return False
        self._highest = max(self._highest, call_id)
        self._seen.add(call_id)
        if len(self._seen) > 2 * self._SPAN:
            self._seen = {one for one in self._seen if one > self._highest - self._SPAN}
        return True


class Execution:
    """Runs one piece of code on one sandbox; a `GuestSink` for as long."""

    def __init__(
        self, sandbox: Sandbox, spec: ExecutionSpec, calls: ToolCalls, keepers: Mapping[Stream, StreamKeeper]
    ) -> None:
        self._sandbox, self._spec, self._road = sandbox, spec, calls
        self._keepers = keepers
        self._ended: asyncio.Future[ExecutionOutcome] = asyncio.get_running_loop().create_future()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._ordered = False  # whether the code was sent
        self._call_bytes = 0  # arguments of the calls in flight
        self._ids = RecentIds()
        self._duplicates = self._displays = 0
        self._tape: tuple[bytes, str] | None = None  # and where it was left
        self._forced: str | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self.deadline = Deadline(spec.timeout_s, lambda: self.force_end("timeout"))

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
            record=spec.record_tape,
        )
        try:
            self._sandbox.attach(self)
            self._sandbox.limits_hit()  # what was hit before is not this execution's
            self._ordered = True
            try:
                if spec.tape is not None:
                    self._sandbox.send(Tape(run=spec.run_id), spec.tape)
                self._sandbox.send(order, spec.code)
            except SandboxClosedError:
                await self._sandbox.wait_exited()
            return await self._ended
        except asyncio.CancelledError:
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

    async def _settle(self) -> None:
        self.deadline.cancel()
        for timer in (self._grace, self._again):
            if timer is not None:
                timer.cancel()
        tasks = list(self._calls.values())
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await finish(_ended(tasks))
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
        if isinstance(message, ToolCall):
            self._start_call(message, body)
        elif isinstance(message, RecordedTape):
            self._take_tape(message, body)
        elif isinstance(message, Done):
            if message.run == self._spec.run_id:
                self._finish(done=message, result=body)
        elif isinstance(message, Output):
            self.on_output(Stream(message.stream), body)
        elif isinstance(message, Display):
            self._displays += 1

    def _take_tape(self, message: RecordedTape, body: bytes) -> None:
        """SECURITY: the guest's own words about its run: kept, the first one, where one was asked for; never read."""
        wanted = self._spec.record_tape or self._spec.tape is not None
        if wanted and self._tape is None and message.run == self._spec.run_id:
            self._tape = (body if self._spec.record_tape else b"", message.divergence)

    def on_refused(self, message: HostMessage) -> None:
        """The guest could not take a body: a reply that is too large becomes an error; code cannot be that large."""
        if isinstance(message, ToolResult):
            error = CallError(
                type=CallErrorType.OUTPUT_TOO_LARGE,
                message="the tool's result is larger than a sandbox accepts; ask the tool for less",
            )
            self._reply(message.id, _encode(reply_of(ToolCallOutcome(error=error))))

    def on_exit(self, outcome: ExitOutcome) -> None:
        """The sandbox ended before the code said that it was done."""
        self._finish(exit_=outcome)

    def _finish(self, *, done: Done | None = None, result: bytes = b"", exit_: ExitOutcome | None = None) -> None:
        if not self._ended.done():
            tape, divergence = self._tape or (b"", "")
            self._ended.set_result(
                ExecutionOutcome(
                    done=done,
                    result=result,
                    exit=exit_,
                    forced=self._forced,
                    limits_hit=self._sandbox.limits_hit(),
                    parked_s=self.deadline.parked_s,
                    duplicate_calls=self._duplicates,
                    displays=self._displays,
                    tape=tape,
                    tape_divergence=divergence,
                )
            )

    # --- tool calls

    def _start_call(self, message: ToolCall, body: bytes) -> None:
        if not self._ids.take(message.id):
            self._duplicates += 1  # forged or replayed; answering twice could confuse an honest waiter
            return
        if (error := self._call_refusal(len(body))) is not None:
            self._reply(message.id, _encode(reply_of(ToolCallOutcome(error=error))))
            return
        task = asyncio.create_task(self._call(message, body))
        self._calls[message.id] = task
        self._call_bytes += len(body)
        task.add_done_callback(lambda _: self._end_call(message.id, len(body)))

    def _call_refusal(self, body_bytes: int) -> CallError | None:
        """Why a call does not even enter the road. INVARIANT: none does outside its execution."""
        if self._ended.done() or not self._ordered:  # what comes before the code was sent by code that is over
            return CallError(type=CallErrorType.EXECUTION_ENDED, message="the execution that made this call is over")
        if len(self._calls) >= CALLS_IN_FLIGHT_MAX:
            problem = f"{CALLS_IN_FLIGHT_MAX} tool calls are waiting already; await some before making more"
        elif self._call_bytes and self._call_bytes + body_bytes > CALL_BYTES_IN_FLIGHT_MAX:
            problem = (
                f"the arguments of the waiting tool calls are {self._call_bytes:,} bytes already; "
                "await some before making more"
            )
        else:
            return None
        return CallError(type=CallErrorType.RATE_LIMIT, message=problem, retryable=True)

    def _end_call(self, call_id: int, body_bytes: int) -> None:
        self._call_bytes -= body_bytes
        self._calls.pop(call_id, None)

    async def _call(self, message: ToolCall, body: bytes) -> None:
        if len(body) > _PARSE_ON_LOOP_BYTES_MAX:
            arguments = await asyncio.to_thread(_parse_arguments, body)
        else:
            arguments = _parse_arguments(body)
        if isinstance(arguments, str):
            error = CallError(type=CallErrorType.VALIDATION_ERROR, message=arguments)
            outcome = ToolCallOutcome(error=error)
        else:
            spec = ToolCallSpec(
                run_id=self._spec.run_id,
                call_id=message.id,
                server_id=message.server,
                tool=message.tool,
                arguments=arguments,
            )
            outcome = await self._road.pass_call(spec)
        self._reply(message.id, _encode(reply_of(outcome)))

    def _reply(self, call_id: int, body: bytes) -> None:
        try:
            self._sandbox.send(ToolResult(id=call_id), body)
        except SandboxClosedError:
            pass  # nobody is there to hear it; the call itself is on record


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def reply_of(outcome: ToolCallOutcome) -> JsonObject:
    """The reply object that the guest gets (`docs/reference/wire.md`)."""
    if outcome.error is not None:
        reply: JsonObject = {"ok": False, "error": outcome.error.to_json()}
    else:
        reply = {"ok": True, "data_from": outcome.data_from}
    if outcome.raw is not None:
        reply["raw"] = outcome.raw
    return reply


def parse_json(text: bytes) -> object:
    """Decode JSON from a guest. Raises ValueError; NaN, infinities, too deep and too many values are refused."""
    if (bound := exceeded_bound(text, values_max=VALUES_MAX)) is not None:
        raise ValueError(f"it has {bound}")
    return json.loads(text, parse_constant=_refuse_constant)


def _parse_arguments(body: bytes) -> JsonObject | str:
    """The arguments object, or a sentence that says why there is none."""
    try:
        arguments = parse_json(body)
    except (ValueError, RecursionError) as error:
        return f"the arguments are not usable JSON: {error}"
    if not isinstance(arguments, dict):
        return f"the arguments must be a JSON object, not {type(arguments).__name__}"
    return arguments  # pyright: ignore[reportUnknownVariableType]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
