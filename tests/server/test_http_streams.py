"""Streams of Streamable HTTP: which message goes where, what a client that resumes hears, and what is kept for it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest

from apps import fixture_server
from moonpool.configuration.servers import parse_config
from moonpool.server.http import event_streams
from moonpool.server.http.event_streams import KEPT_BYTES_MAX, KEPT_COUNT_MAX, KEPT_S, UNREAD_MAX, EventLog
from moonpool.server.http.serving import DRAIN_S
from server.services import STREAMS, caller, execute, handshake, named, request, serving, streaming
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server.services import OpenService

pytestmark = pytest.mark.anyio
A = {"authorization": "Bearer a"}
LISTEN = {"accept": "text/event-stream"}
ONLY_STREAMS = {**STREAMS, "accept": "text/event-stream"}


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[OpenService]:
    lists = tmp_path_factory.mktemp("lists") / "lists.json"
    lists.write_text(json.dumps({"tools": [], "resources": ["w://a"], "prompts": [], "texts": {}}), encoding="utf-8")
    watched = fixture_server("watched.py", "2025-11-25", str(lists), allow=["*"], expose="direct")
    servers = {"mcpServers": {"echo": fixture_server("echo.py"), "watched": watched}}
    config = parse_config(json.dumps(servers).encode(), source="test", environ=os.environ)
    async with serving({"a": caller("a"), "b": caller("b")}, config=config) as one:
        yield one


def gated(word: str, path: Path) -> str:
    """Code that says a word, waits for a file, and says it again."""
    return (
        f"import servers.echo as e\nprint({word + '1'!r}, flush=True)\nawait e.await_file(path={str(path)!r})\n"
        f"print({word + '2'!r}, flush=True)\nresult = {word!r}"
    )


@pytest.mark.claim("C-TEN-2")
@pytest.mark.req("A-028", "B-049", "B-050", "B-051", "B-052", "B-053", "B-055", "C-005", "C-033", "C-046")
async def test_news_goes_to_one_of_several_streams_and_answers_to_none(service: OpenService) -> None:
    session = named(await service.session(path="/mcp/direct", **A))
    greeted = await service.post(handshake(), path="/mcp/direct", **A)
    early = {"mcp-session-id": greeted.headers["mcp-session-id"], **A}  # it has not said that it is ready
    heard: list[list[dict[str, Any]]] = [[], [], []]

    def news() -> list[str]:
        return [event["data"]["method"] for stream in heard for event in stream if event["data"]]

    async def listen(number: int, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        whose = early if number == 2 else session
        async with streaming(service, "GET", "/mcp/direct", headers={**whose, **LISTEN}) as (response, events):
            assert response.status_code == 200
            heard[number].append(await anext(events))
            task_status.started()
            async for event in events:
                heard[number].append(event)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                await tasks.start(listen, number)
            await service.post(request("tools/list"), path="/mcp/direct", **session)
            for kind in ("tools", "prompts"):
                call = {"name": "list_change", "arguments": {"kind": kind, "name": "more"}}
                answer = await service.post(request("tools/call", call), path="/mcp/direct", **session)
                assert "result" in answer.json()
                await until(lambda kind=kind: f"notifications/{kind}/list_changed" in news())
            for each in (early, session):  # which ends the streams, as it may
                assert (await service.http.delete("/mcp/direct", headers=each)).status_code == 204

    assert [event["data"] for event in heard[2]] == [None]
    assert sorted(news()) == ["notifications/prompts/list_changed", "notifications/tools/list_changed"]
    ids = [event["id"] for stream in heard for event in stream]
    assert len(set(ids)) == len(ids) == 5


@pytest.mark.req("B-051")
async def test_a_client_may_listen_again_after_the_server_ended_its_stream(service: OpenService) -> None:
    session = named(await service.session(path="/mcp/direct", **A))
    with anyio.fail_after(60):
        for _ in range(2):
            async with streaming(service, "GET", "/mcp/direct", headers={**session, **LISTEN}) as (_, events):
                await anext(events)
                service.service.servers.end_listening()
                assert [event async for event in events] == []
    assert (await service.post(request("ping"), path="/mcp/direct", **session)).json()["result"] == {}


@pytest.mark.req("B-042", "B-043", "B-080")
async def test_a_stream_of_a_long_call_stays_open_and_ends_with_the_answer(
    service: OpenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "KEEP_ALIVE_S", 0.01)
    session = await service.session(**A)
    headers = {**ONLY_STREAMS, **named(session)}
    with anyio.fail_after(60):
        async with service.http.stream(
            "POST", "/mcp", json=execute(gated("x", tmp_path / "go")), headers=headers
        ) as answer:
            lines = answer.aiter_lines()
            for _ in range(3):
                while await anext(lines) != ": keep-alive":
                    pass
            (tmp_path / "go").touch()
            left = [line async for line in lines if line.startswith("data: ")]
    (told,) = left
    assert json.loads(told.removeprefix("data: "))["result"]["structuredContent"]["data"] == "x"


@pytest.mark.claim("C-TEN-2")
@pytest.mark.req("B-055", "B-056", "B-057", "B-058", "B-059", "F-008", "L-017", "L-019")
async def test_who_resumes_a_stream_hears_the_rest_of_it_and_of_no_other(service: OpenService, tmp_path: Path) -> None:
    session = named(await service.session(**A))
    own = named(await service.session(**A))  # another session of the same caller
    foreign = named(await service.session(authorization="Bearer b"))
    first: dict[str, list[dict[str, Any]]] = {"x": [], "y": []}
    with anyio.fail_after(60):
        for number, word in enumerate(first):
            begin = execute(gated(word, tmp_path / "go"), id=number, meta={"progressToken": word})
            async with streaming(service, "POST", json=begin, headers={**ONLY_STREAMS, **session}) as (_, events):
                first[word] += [await anext(events), await anext(events)]
        (tmp_path / "go").touch()
        rest: dict[str, list[Any]] = {}
        for word, seen in first.items():
            assert (seen[0]["data"], seen[0].get("text", "")) == (None, "")  # an id, to resume by
            assert int(seen[0]["retry"]) > 0
            again = {**session, **LISTEN, "last-event-id": seen[0]["id"]}
            for refused in ({**again, **own}, {**again, **foreign}):  # nothing of it, as of an event that never was
                unknown = await service.http.get("/mcp", headers={**refused, "last-event-id": "99999-1"})
                stolen = await service.http.get("/mcp", headers=refused)
                assert (stolen.status_code, stolen.content) == (404, unknown.content)
            async with streaming(service, "GET", headers=again) as (_, events):
                heard = [event async for event in events]
            rest[word] = heard
            streams = {event["id"].partition("-")[0] for event in [*seen, *heard]}
            assert len(streams) == 1
            said = json.dumps([event["data"] for event in heard])
            assert (f"{word}1" in said, f"{word}2" in said) == (True, True)
            assert {"x": "y1", "y": "x1"}[word] not in said
            assert heard[-1]["data"]["result"]["structuredContent"]["data"] == word
    ids = [event["id"] for word in first for event in rest[word]]
    assert len(set(ids)) == len(ids)


@pytest.mark.req("L-017")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_an_older_client_gets_no_event_without_data(service: OpenService, version: str) -> None:
    session = await service.session(version, **A)
    async with streaming(service, "POST", json=request("ping"), headers={**ONLY_STREAMS, **named(session)}) as (
        _,
        all_,
    ):
        assert [event["data"]["result"] async for event in all_] == [{}]


@pytest.mark.req("B-060", "B-061", "B-062", "F-006")
async def test_session_ids_come_from_the_system_s_randomness(
    service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda count: asked.append(count) or real(count))

    ids = [(await service.session(**A))["mcp_session_id"] for _ in range(40)]
    alone = await service.post(request("tools/list"), **A)

    assert len(set(ids)) == 40
    assert all(re.fullmatch(r"[\x21-\x7e]{22,}", one) for one in ids)
    assert (len(asked) >= 40, min(asked) * 8 >= 128) == (True, True)
    assert len({one[:4] for one in ids}) > 36  # no counter and no time in front
    assert "mcp-session-id" not in alone.headers


@pytest.mark.req("B-069", "C-034")
async def test_subscriptions_end_with_their_session_and_kernels_are_their_principals(service: OpenService) -> None:
    async def ask(session: dict[str, str], method: str, params: Any, path: str = "/mcp/direct") -> Any:
        return (await service.post(request(method, params), path=path, **session)).json()["result"]

    first = await service.session(path="/mcp/direct", **A)
    await ask(first, "resources/subscribe", {"uri": "w://a"})
    await service.http.delete("/mcp/direct", headers=named(first))
    second = await service.session(path="/mcp/direct", **A)

    async def told() -> Any:
        return (await ask(second, "tools/call", {"name": "told", "arguments": {}}))["structuredContent"]["told"]

    with anyio.fail_after(60):
        while {"unsubscribe": "w://a"} not in await told():
            pass

    coding = await service.session(**A)
    call = {"name": "execute_code", "arguments": {"code": "x = 6", "session": "mine"}}
    await ask(coding, "tools/call", call, "/mcp")
    await service.http.delete("/mcp", headers=named(coding))
    call["arguments"] = {"code": "result = x * 7", "session": "mine"}
    again = await ask(await service.session(**A), "tools/call", call, "/mcp")
    assert again["structuredContent"]["data"] == 42
    other = await ask(await service.session(authorization="Bearer b"), "tools/call", call, "/mcp")
    assert other["structuredContent"]["error"]["type"] == "NameError"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.req("B-059")
async def test_what_is_kept_is_bounded_by_count_bytes_and_age_for_all_streams_together() -> None:
    clock = Clock()
    log = EventLog(clock)
    one, other = log.open("s"), log.open("s")
    for _ in range(KEPT_COUNT_MAX):
        await one.send(b"{}")
    assert log.find(f"{one.number}-0", "s") is not None
    await other.send(b"{}")  # one more than is kept
    assert log.find(f"{one.number}-0", "s") is None
    assert log.find(f"{one.number}-1", "s") == (one, 1)

    await other.send(b"x" * (KEPT_BYTES_MAX - 3))
    assert log.find(f"{one.number}-{KEPT_COUNT_MAX - 2}", "s") is None
    assert log.find(f"{other.number}-1", "s") == (other, 1)

    clock.now = KEPT_S + 0.1
    assert log.find(f"{other.number}-1", "s") is None
    for wrong in ("", "1", "1-", "-1", "1-1-1", "\u0661-1", "1-9999", "99-1", "1" * 40 + "-1"):
        assert log.find(wrong, "s") is None, wrong


@pytest.mark.req("B-080")
async def test_a_server_waits_for_a_reader_that_is_far_behind() -> None:
    log = EventLog()
    stream = log.open("s")
    reader = stream.attach()
    for _ in range(UNREAD_MAX):
        await stream.send(b"{}")
    further = asyncio.ensure_future(stream.send(b"{}"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not further.done()
    frames = stream.frames(reader)
    await anext(frames)
    await anext(frames)
    with anyio.fail_after(10):
        await further
    assert len(stream.unread) == UNREAD_MAX
    await frames.aclose()


@pytest.mark.req("K-016", "B-051")
async def test_what_does_not_end_in_time_is_cut_without_a_last_frame() -> None:
    code = "print('begun', flush=True)\nimport time; time.sleep(600)"
    assert DRAIN_S == 10
    with anyio.fail_after(60):
        async with serving() as service:
            begin = execute(code, meta={"progressToken": 1})
            headers = {**ONLY_STREAMS, **named(await service.session())}
            async with streaming(service, "POST", json=begin, headers=headers) as (_, events):
                while "begun" not in (await anext(events)).get("text", ""):
                    pass
                assert not await service.server.drain(0.05, busy=lambda: service.service.is_busy)
                with pytest.raises(httpx2.ConnectError):
                    await service.post(request("ping"))  # nothing new is accepted meanwhile
                await service.server.close()
                with pytest.raises(httpx2.RemoteProtocolError):
                    await anext(events)
