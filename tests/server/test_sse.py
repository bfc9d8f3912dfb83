"""`GET /sse` and `POST /message`, the transport of 2024-11-05, byte by byte: how a stream begins, goes on, and ends."""

from __future__ import annotations

import json
import logging
import re
import uuid
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.server.http import sse_connection
from server.services import caller, execute, handshake, notification, request, serving, streaming
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from server.services import OpenService

pytestmark = pytest.mark.anyio
ACCEPT = {"accept": "text/event-stream"}


@pytest.fixture(scope="module")
async def service() -> AsyncGenerator[OpenService]:
    async with serving() as one:
        yield one


async def address_of(events: AsyncIterator[dict[str, Any]]) -> str:
    """Where messages go, as the first event says."""
    first = await anext(events)
    assert first["event"] == "endpoint"
    return first["text"]


@pytest.mark.req("B-016", "B-017", "B-028", "B-029", "K-001", "K-005")
async def test_a_stream_begins_with_the_address_for_messages(
    service: OpenService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ids = list[str]()
    for _ in range(2):
        async with service.http.stream("GET", "/sse", headers=ACCEPT) as response:
            first = await anext(response.aiter_raw())
        found = re.fullmatch(rb"event: endpoint\ndata: /message\?sessionId=([0-9a-f-]{36})\n\n", first)
        assert found is not None, first
        ids.append(found[1].decode())
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert [uuid.UUID(one).version for one in ids] == [4, 4]
    assert ids[0] != ids[1]
    assert "HTTP+SSE, which is deprecated; its successor is /mcp" in caplog.text
    elsewhere = await service.http.get("/events", headers=ACCEPT)
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (404, "not_found")


@pytest.mark.req("B-019", "B-024", "K-002", "K-003", "K-004", "X-08", "G-009")
async def test_answers_come_on_the_stream_and_nothing_on_the_post(service: OpenService) -> None:
    async with streaming(service, "GET", "/sse", headers=ACCEPT) as (_, events):
        address = await address_of(events)

        async def posted(message: Any) -> None:
            answer = await service.post(message, path=address)
            assert (answer.status_code, answer.content) == (202, b"")

        async def told() -> Any:
            event = await anext(events)
            assert event["event"] == "message"
            return event["data"]

        with anyio.fail_after(60):
            await posted(handshake("2024-11-05"))
            greeting = (await told())["result"]
            await posted(notification("notifications/initialized"))
            await posted(request("ping", id="next"))
            assert await told() == {"jsonrpc": "2.0", "id": "next", "result": {}}  # and nothing before it
            await posted(request("tools/list", id=2))
            tools = (await told())["result"]["tools"]
            await posted(execute("result = 6 * 7", id=3))
            ran = await told()
        guessed = await service.post(request("ping"), path=f"/message?sessionId={uuid.uuid4()}")
        missing = await service.post(request("ping"), path="/message")

    assert greeting["protocolVersion"] == "2024-11-05"
    assert set(greeting["serverInfo"]) == {"name", "version"}
    assert greeting["capabilities"]["tools"] == {"listChanged": False}  # which is true: they never change
    assert [set(tool) for tool in tools] == [{"name", "description", "inputSchema"}] * 4
    assert (ran["id"], ran["result"]["content"][0]["text"]) == (3, '{"ok":true,"data":42}')
    assert (guessed.status_code, guessed.json()["error"]["code"]) == (404, -32600)
    assert (missing.status_code, missing.json()["error"]["code"]) == (400, -32600)


@pytest.mark.req("A-003", "A-012", "A-016", "A-017", "C-022", "C-069", "X-20")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-11-25"])
async def test_messages_are_judged_by_the_revision_of_the_stream(service: OpenService, version: str) -> None:
    unknown = request("tools/call", {"name": "nope"}, id=9)
    wrong = ([], request("ping", id=None), request("nope", id=7), request("tools/list", {"cursor": "z"}, id=8), unknown)
    async with streaming(service, "GET", "/sse", headers=ACCEPT) as (_, events):
        address = await address_of(events)

        async def answered(message: Any) -> Any:
            assert (await service.post(message, path=address)).status_code == 202
            return json.loads((await anext(events))["text"])

        with anyio.fail_after(60):
            assert (await answered(handshake(version)))["result"]["protocolVersion"] == version
            await service.post(notification("notifications/initialized"), path=address)
            batch = await answered([request("ping", id=5), request("ping", id="6")])
            errors = [(told["id"], told["error"]["code"]) for told in [await answered(one) for one in wrong]]

    assert errors == [(None, -32600), (None, -32600), (7, -32601), (8, -32602), (9, -32602)]
    if version == "2025-03-26":
        assert {one["id"] for one in batch} == {5, "6"}
    else:
        assert (batch["id"], batch["error"]["code"]) == (None, -32600)


@pytest.mark.req("B-020")
async def test_twenty_clients_at_once_hear_their_own_answers(service: OpenService) -> None:
    async def converse(number: int) -> None:
        async with streaming(service, "GET", "/sse", headers=ACCEPT) as (_, events):
            address = await address_of(events)
            await service.post(handshake("2024-11-05"), path=address)
            heard.setdefault(number, []).append((await anext(events))["data"]["id"])
            async with anyio.create_task_group() as asking:
                for _ in range(3):
                    call = request("tools/call", {"name": f"mine-{number}"}, id=number)
                    asking.start_soon(lambda call=call: service.post(call, path=address))
                    answer = (await anext(events))["data"]
                    heard[number] += [answer["id"], answer["error"]["message"].partition(";")[0]]

    heard: dict[int, list[Any]] = {}
    with anyio.fail_after(60):
        async with anyio.create_task_group() as clients:
            for number in range(20):
                clients.start_soon(converse, number)

    assert heard == {n: [1, *([n, f"Unknown tool: mine-{n}"] * 3)] for n in range(20)}


@pytest.mark.req("B-026", "A-054")
async def test_an_idle_stream_is_kept_alive_and_a_dropped_one_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_connection, "KEEP_ALIVE_S", 0.01)
    with anyio.fail_after(60):
        async with serving({"a": caller("a")}) as service:
            bearer = {"authorization": "Bearer a"}
            async with service.http.stream("GET", "/sse", headers={**ACCEPT, **bearer}) as response:
                lines = response.aiter_lines()
                address = [await anext(lines), await anext(lines)][1].removeprefix("data: ")
                while await anext(lines) != ": keep-alive":
                    pass
                assert (await service.post(request("ping"), path=address, **bearer)).status_code == 202
                (server,) = service.service.servers._servers.values()
                assert len(server.sse_connections) == 1
            await until(lambda: not server.sse_connections)
            assert (await service.post(request("ping"), path=address, **bearer)).status_code == 404
