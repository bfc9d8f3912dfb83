"""The tool calls of one execution: taken off the channel, bounded, passed down the call pipeline, answered once.

INVARIANT: no call enters the pipeline before the code was sent or after the execution ended, and `settle` leaves none.
SECURITY: calls are answered by the id the host remembers; a reply is sent once per id, to the sandbox that asked. A
call that is refused costs the host more than the guest, so the sandbox is told of each (`count_refused_call`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

import msgspec

from moonpool.core.calls import CallError, CallErrorType, ToolCallOutcome, ToolCallSpec
from moonpool.engine.envelopes import internal_error
from moonpool.engine.failed_calls import FailedCalls
from moonpool.pipeline.guest_json import parse_arguments, reply_of
from moonpool.sandboxes.base import SandboxClosedError
from moonpool.sandboxes.messages import ToolResult
from moonpool.sandboxes.shielding import finish
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_GUEST, CALL_BYTES_IN_FLIGHT_MAX, CALLS_IN_FLIGHT_MAX

if TYPE_CHECKING:
    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.messages import CallRefused, ToolCall

_log = logging.getLogger(__name__)
_PARSE_ON_LOOP_BYTES_MAX = 256 * 1024
_UNANSWERED = "the code ended before this call was answered, so what it did is not known; await it"
_encode = msgspec.json.Encoder().encode


class ToolCalls(Protocol):
    """The call pipeline, bound to one execution."""

    async def call_tool(self, spec: ToolCallSpec) -> ToolCallOutcome:
        """Take one call through the pipeline. Never raises for a failing tool."""
        ...

    def turn_away(self, kind: CallErrorType) -> None:
        """Count a call that was refused before it entered the pipeline."""
        ...


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


class CallsOfExecution:
    """Answers the calls of one execution; `open` from the moment its code is sent until it ended."""

    def __init__(self, sandbox: Sandbox, run_id: str, run: ToolCalls) -> None:
        self._sandbox, self._run_id, self._run = sandbox, run_id, run
        self._calls: dict[int, tuple[asyncio.Task[None], str]] = {}  # and the tool
        self._bytes = 0  # arguments of the calls in flight
        self._ids = RecentIds()
        self._too_large: dict[int, str] = {}  # tools whose replies a sandbox does not take
        self.open = False
        self.duplicates = 0
        self.failed = FailedCalls()

    async def settle(self) -> None:
        """Cancel what is under way, and wait for it. What was not answered by now has failed."""
        self.open = False
        calls = list(self._calls.values())
        for task, _ in calls:
            task.cancel()
        if calls:
            await finish(_ended([task for task, _ in calls]))
        for task, tool in calls:
            if task.cancelled():
                self.failed.note(tool, CallError(type=CallErrorType.EXECUTION_ENDED, message=_UNANSWERED))

    def answer_too_large(self, call_id: int) -> None:
        """The guest could not take the reply."""
        problem = "the tool's result is larger than a sandbox accepts; ask the tool for less"
        error = CallError(type=CallErrorType.OUTPUT_TOO_LARGE, message=problem)
        self._note(self._too_large.pop(call_id, ""), error)
        self._answer(call_id, ToolCallOutcome(error=error))

    def note_refused(self, message: CallRefused) -> None:
        """The guest refused a call itself."""
        if self.open:
            error = CallError(type=CallErrorType.VALIDATION_ERROR, message=message.message)
            self.failed.note(_name(message), error, claimed=True)

    def start(self, message: ToolCall, body: bytes) -> None:
        """Take up a call that came over the channel."""
        if not self._ids.take(message.id):
            self.duplicates += 1  # forged or replayed; answering twice could confuse an honest waiter
            return
        if (error := self._refusal(len(body))) is not None:
            self._note(_name(message), error)
            self._refuse(message.id, error)
            return
        task = asyncio.create_task(self._call(message, body))
        self._calls[message.id] = task, _name(message)
        self._bytes += len(body)
        task.add_done_callback(lambda _: self._end(message.id, len(body)))

    def _refusal(self, body_bytes: int) -> CallError | None:
        """Why a call does not even enter the pipeline. INVARIANT: none does outside its execution."""
        if not self.open:  # what comes before the code was sent by code that is over
            return CallError(type=CallErrorType.EXECUTION_ENDED, message="the execution that made this call is over")
        if len(self._calls) >= CALLS_IN_FLIGHT_MAX:
            problem = f"{CALLS_IN_FLIGHT_MAX} tool calls are waiting already; await some before making more"
        elif self._bytes and self._bytes + body_bytes > CALL_BYTES_IN_FLIGHT_MAX:
            problem = (
                f"the arguments of the waiting tool calls are {self._bytes:,} bytes already; "
                "await some before making more"
            )
        else:
            return None
        return CallError(type=CallErrorType.RATE_LIMIT, message=problem, retryable=True)

    def _end(self, call_id: int, body_bytes: int) -> None:
        self._bytes -= body_bytes
        self._calls.pop(call_id, None)

    async def _call(self, message: ToolCall, body: bytes) -> None:
        try:
            outcome = await self._outcome(message, body)
            reply = _encode(reply_of(outcome))
        except Exception as failure:  # noqa: BLE001  the last resort: the code waits for an answer
            _log.error("a tool call failed: %s", internal_error(failure).message)
            told = internal_error(failure, hides_host=True)  # SECURITY: it goes into the sandbox
            error = CallError(type=CallErrorType.INTERNAL, message=told.message)
            outcome = ToolCallOutcome(error=error)
            reply = _encode(reply_of(outcome))
        if outcome.error is not None:  # also when the code has ended meanwhile: it was called before
            self.failed.note(_name(message), outcome.error)
        elif len(reply) > BLOB_BYTES_MAX_TO_GUEST:
            self._too_large[message.id] = _name(message)
        self._reply(message.id, reply)

    def _note(self, tool: str, error: CallError) -> None:
        if self.open:  # what code that is over still calls is no failure of this execution
            self.failed.note(tool, error)

    async def _outcome(self, message: ToolCall, body: bytes) -> ToolCallOutcome:
        if len(body) > _PARSE_ON_LOOP_BYTES_MAX:
            arguments = await asyncio.to_thread(parse_arguments, body)
        else:
            arguments = parse_arguments(body)
        if isinstance(arguments, str):
            return self._turn_away(CallError(type=CallErrorType.VALIDATION_ERROR, message=arguments), len(body))
        spec = ToolCallSpec(
            run_id=self._run_id,
            call_id=message.id,
            server_id=message.server,
            tool=message.tool,
            arguments=arguments,
            code_line=message.line,
        )
        outcome = await self._run.call_tool(spec)
        if outcome.refused:
            self._sandbox.count_refused_call(len(body))
        return outcome

    def _reply(self, call_id: int, body: bytes) -> None:
        try:
            self._sandbox.send(ToolResult(id=call_id), body)
        except SandboxClosedError:
            pass  # nobody is there to hear it; the call itself is on record

    def _refuse(self, call_id: int, error: CallError) -> None:
        self._answer(call_id, self._turn_away(error))

    def _turn_away(self, error: CallError, bytes_read: int = 0) -> ToolCallOutcome:
        """Of a call that does not enter the pipeline: count it, and have its sandbox slow down if there are many."""
        self._run.turn_away(error.type)
        self._sandbox.count_refused_call(bytes_read)
        return ToolCallOutcome(error=error)

    def _answer(self, call_id: int, outcome: ToolCallOutcome) -> None:
        self._reply(call_id, _encode(reply_of(outcome)))


def _name(message: ToolCall | CallRefused) -> str:
    return f"{message.server}.{message.tool}"


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
