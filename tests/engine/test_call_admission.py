"""Which tool calls of an execution enter the calls at all, without a sandbox: whatever a guest sends is untrusted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.core.calls import ToolCallOutcome, ToolCallSpec
from moonpool.engine.execution import Execution
from moonpool.engine.execution_spec import ExecutionSpec
from moonpool.engine.tool_calls import RecentIds
from moonpool.sandboxes.messages import Done, Execute, ToolCall, ToolResult
from moonpool_wire.limits import CALL_BYTES_IN_FLIGHT_MAX, CALLS_IN_FLIGHT_MAX

if TYPE_CHECKING:
    from moonpool.sandboxes.messages import HostMessage

pytestmark = pytest.mark.anyio
LARGE = b'{"a": "' + b"x" * (CALL_BYTES_IN_FLIGHT_MAX // 4) + b'"}'


class Guest:
    """A sandbox that a test plays; remembers the replies to its calls."""

    def __init__(self, *early: int) -> None:
        self.started = anyio.Event()
        self.backlog = [call(number) for number in early]
        self.replies: dict[int, dict[str, Any]] = {}
        self.refused = 0
        self.detached = False

    def detach(self) -> None:
        self.detached = True

    def count_refused_call(self, size: int) -> None:
        assert size >= 0
        self.refused += 1

    def attach(self, sink: Execution) -> None:
        for message in self.backlog:
            sink.on_message(message, b"{}")

    def limits_hit(self) -> None:
        return None

    def send(self, message: HostMessage, body: bytes = b"") -> None:
        if isinstance(message, Execute):
            self.started.set()
        elif isinstance(message, ToolResult):
            self.replies[message.id] = json.loads(body)

    def error_of(self, call_id: int) -> str:
        return self.replies[call_id]["error"]["type"]


class Calls:
    """Answers when it is opened, and not at once when it is cancelled."""

    def __init__(self) -> None:
        self.entered: list[int] = []
        self.turned_away: list[str] = []
        self.open = anyio.Event()

    def turn_away(self, kind: str) -> None:
        self.turned_away.append(kind)

    async def call_tool(self, spec: ToolCallSpec) -> ToolCallOutcome:
        self.entered.append(spec.call_id)
        try:
            await self.open.wait()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
        return ToolCallOutcome(raw={"content": []}, data_from="content")


def call(call_id: int) -> ToolCall:
    return ToolCall(id=call_id, server="s", tool="t")


async def settled() -> None:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


@pytest.mark.req("P-013")
async def test_no_call_enters_the_pipeline_once_the_end_is_known() -> None:
    guest, calls = Guest(), Calls()
    execution = Execution(guest, ExecutionSpec(run_id="r", code=b""), calls, {})  # pyright: ignore[reportArgumentType]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(execution.run)
            await guest.started.wait()
            execution.on_message(call(1), b"{}")
            await settled()
            execution.on_message(Done(run="r", status="ok"), b"")
            await settled()  # the first call is being cancelled, which takes a while
            execution.on_message(call(2), b"{}")
    assert calls.entered == [1]
    assert guest.error_of(2) == "ExecutionEnded"
    assert guest.detached


async def test_a_call_that_came_between_two_executions_is_not_the_next_ones() -> None:
    guest, calls = Guest(1), Calls()
    execution = Execution(guest, ExecutionSpec(run_id="r", code=b""), calls, {})  # pyright: ignore[reportArgumentType]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(execution.run)
            await guest.started.wait()
            execution.on_message(Done(run="r", status="ok"), b"")
    assert calls.entered == []
    assert guest.error_of(1) == "ExecutionEnded"


async def test_arguments_that_wait_are_bounded_in_all() -> None:
    guest, calls = Guest(), Calls()
    execution = Execution(guest, ExecutionSpec(run_id="r", code=b""), calls, {})  # pyright: ignore[reportArgumentType]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(execution.run)
            await guest.started.wait()
            for number in range(1, 5):
                execution.on_message(call(number), LARGE)
            assert guest.error_of(4) == "RateLimit"
            assert guest.replies[4]["error"]["retryable"] is True
            calls.open.set()
            while len(guest.replies) < 4:
                await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()  # what a call held is given back in the turn after its reply
            await anyio.lowlevel.checkpoint()
            execution.on_message(call(5), LARGE)  # the bytes of the first three were given back
            while len(guest.replies) < 5:
                await anyio.lowlevel.checkpoint()
            execution.on_message(Done(run="r", status="ok"), b"")
    assert sorted(calls.entered) == [1, 2, 3, 5]
    assert guest.replies[5]["ok"] is True


async def test_every_call_that_does_not_enter_the_pipeline_is_counted_there_and_at_its_sandbox() -> None:
    guest, calls = Guest(), Calls()
    execution = Execution(guest, ExecutionSpec(run_id="r", code=b""), calls, {})  # pyright: ignore[reportArgumentType]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(execution.run)
            await guest.started.wait()
            execution.on_message(call(1), b"no json")
            for number in range(2, CALLS_IN_FLIGHT_MAX + 3):
                execution.on_message(call(number), b"{}")
            await settled()
            execution.on_message(Done(run="r", status="ok"), b"")
    assert sorted(calls.turned_away) == ["RateLimit", "RateLimit", "ValidationError"]
    assert len(calls.entered) + len(calls.turned_away) == CALLS_IN_FLIGHT_MAX + 2
    assert guest.refused == 3


def test_ids_out_of_order_are_new_and_repeated_or_ancient_ones_are_not() -> None:
    ids = RecentIds()
    assert [ids.take(one) for one in (2, 1, 3, 2, 1)] == [True, True, True, False, False]
    assert all(ids.take(one) for one in range(10, 20_000))
    assert [ids.take(one) for one in (4, 19_999, 20_000)] == [False, False, True]
