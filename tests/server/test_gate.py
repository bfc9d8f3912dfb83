"""The gate between a client's lines and the SDK's server, here a fake one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from moonpool.server.mcp.protocol_gate import IN_FLIGHT_MAX, Gate

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


class Fake:
    """A gate with a server that answers when it is told to, and everything the client got."""

    def __init__(self) -> None:
        self.asked: list[JSONRPCRequest] = []
        self.cancelled: list[Any] = []
        self.sent: list[Any] = []
        self.gate = Gate(to_server=self._take, to_client=self._hear, serves=lambda method: method == "tools/list")

    async def _take(self, message: SessionMessage) -> None:
        match message.message:
            case JSONRPCRequest() as request:
                self.asked.append(request)
            case JSONRPCNotification(method="notifications/cancelled", params=params):
                self.cancelled.append((params or {})["requestId"])
            case _:
                pass

    async def _hear(self, line: bytes) -> None:
        self.sent.append(json.loads(line))

    async def say(self, message: Any) -> None:
        await self.gate.take_line(json.dumps(message).encode())

    async def ask(self, request_id: Any, method: str = "tools/list", **params: Any) -> None:
        await self.say({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    async def cancel(self, request_id: Any) -> None:
        await self.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})

    async def reply(self, number: Any, **result: Any) -> None:
        await self.gate.pass_out(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result=result)))

    async def handshake(self, version: str) -> None:
        await self.ask("init", "initialize", protocolVersion=version)
        await self.reply(self.asked.pop().id, protocolVersion=version)
        self.sent.clear()


async def opened(version: str = "2025-03-26") -> Fake:
    fake = Fake()
    await fake.handshake(version)
    return fake


@pytest.mark.req("A-005", "A-074")
@given(st.lists(st.tuples(st.sampled_from(["ask", "cancel", "reply"]), st.integers(0, 5)), max_size=40))
async def test_whoever_wins_every_request_has_at_most_one_outcome(steps: Sequence[tuple[str, int]]) -> None:
    fake = await opened()
    ids: list[Any] = [1, "1", 2, "2", "x", -1]
    open_ids: dict[Any, Any] = {}
    expected: list[Any] = []
    for step, which in steps:
        request_id = ids[which]
        key = (type(request_id), request_id)
        if step == "ask":
            await fake.ask(request_id)
            if key in open_ids:
                expected.append((request_id, "error"))
            else:
                open_ids[key] = fake.asked[-1].id
        elif step == "cancel":
            await fake.cancel(request_id)
            if (number := open_ids.pop(key, None)) is not None:
                assert fake.cancelled[-1] == number
        elif (number := open_ids.pop(key, None)) is not None:
            await fake.reply(number)
            expected.append((request_id, "result"))
    for request in fake.asked:  # the server says more than it should: late answers, second answers
        if request.id not in open_ids.values():
            await fake.reply(request.id)

    assert [(one["id"], "error" if "error" in one else "result") for one in fake.sent] == expected
    assert fake.gate.idle.is_set() is not bool(open_ids)


@pytest.mark.req("A-012", "A-015")
async def test_answers_of_a_batch_leave_together_without_the_cancelled() -> None:
    fake = await opened()
    await fake.say([{"jsonrpc": "2.0", "id": i, "method": "tools/list"} for i in (1, 2, 3)])
    await fake.cancel(2)
    await fake.reply(fake.asked[2].id, third=True)
    await fake.reply(fake.asked[1].id, late=True)
    assert fake.sent == []
    await fake.reply(fake.asked[0].id, first=True)

    assert [[one["id"] for one in batch] for batch in fake.sent] == [[3, 1]]


@pytest.mark.req("A-010", "A-012")
@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([{"jsonrpc": "2.0", "method": "notifications/initialized"}], id="notifications only"),
        pytest.param([{"jsonrpc": "2.0", "id": 1, "result": {}}], id="responses only"),
    ],
)
async def test_a_batch_without_requests_is_not_answered(batch: list[Any]) -> None:
    fake = await opened()
    await fake.say(batch)

    assert fake.sent == []


@pytest.mark.req("A-012")
async def test_a_batch_whose_requests_are_all_cancelled_is_not_answered() -> None:
    fake = await opened()
    await fake.say([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}])
    await fake.cancel(1)

    assert fake.sent == []
    assert fake.gate.idle.is_set()


@pytest.mark.req("A-015")
@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([], id="empty"),
        pytest.param([{"jsonrpc": "2.0", "method": "ping", "id": 1}] * 101, id="too many"),
        pytest.param(
            [{"jsonrpc": "2.0", "method": "ping", "id": 1}, {"jsonrpc": "2.0", "id": 2, "result": {}}], id="mixed"
        ),
    ],
)
async def test_a_batch_that_is_none_costs_one_error(batch: list[Any]) -> None:
    fake = await opened()
    await fake.say(batch)

    assert [(one["id"], one["error"]["code"]) for one in fake.sent] == [(None, -32600)]


@pytest.mark.req("A-016")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_batches_are_refused_in_every_other_session(version: str) -> None:
    fake = await opened(version)
    await fake.say([{"jsonrpc": "2.0", "method": "ping", "id": 1}])

    assert [(one["id"], one["error"]["code"]) for one in fake.sent] == [(None, -32600)]


@pytest.mark.req("A-029")
async def test_a_second_handshake_changes_nothing() -> None:
    fake = await opened("2025-06-18")
    await fake.ask(1, "initialize", protocolVersion="2025-03-26")

    assert (fake.sent[0]["error"]["code"], fake.gate.version, fake.asked) == (-32600, "2025-06-18", [])


@pytest.mark.req("A-017", "A-021")
async def test_too_many_requests_in_flight_are_refused_and_ping_is_not() -> None:
    fake = await opened()
    for number in range(IN_FLIGHT_MAX + 1):
        await fake.ask(number)
    await fake.ask("p", "ping")

    assert [(one["id"], "error" in one) for one in fake.sent] == [(IN_FLIGHT_MAX, True), ("p", False)]


@pytest.mark.req("A-062", "A-017")
async def test_an_answer_that_cannot_be_encoded_becomes_an_error() -> None:
    fake = await opened()
    await fake.ask(1)
    await fake.reply(fake.asked[0].id, x=float("nan"))

    assert fake.sent[0]["error"]["code"] == -32603
