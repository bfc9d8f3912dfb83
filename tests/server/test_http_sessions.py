"""Raw conversations over HTTP: sessions, streams, batches, cancelling, and what another principal sees of them."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.server.http import principal_servers
from server.services import (
    MODERN_META,
    STREAMS,
    answer_of,
    caller,
    execute,
    handshake,
    modern_headers,
    named,
    notification,
    request,
    serving,
    streaming,
)
from waiting import until
from wire.test_pictures import png

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import httpx2

    from server.services import OpenService

pytestmark = pytest.mark.anyio
MARK = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.fixture(scope="module")
async def service() -> AsyncGenerator[OpenService]:
    async with serving() as one:
        yield one


@pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one uid, which serves one organisation")
async def test_the_organisation_with_most_callers_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"other": caller("other", "acme")}
    async with serving(few | {name: caller(name) for name in ("a", "b", "c")}) as service:
        monkeypatch.setattr(principal_servers, "CALLERS_MAX", 3)
        longest, first, second = [await service.session(authorization=f"Bearer {name}") for name in ("other", "a", "b")]
        assert (await service.post(request("ping"), authorization="Bearer c")).status_code == 200
        kept = [(await service.post(request("ping"), **one)).status_code for one in (longest, second)]
        assert kept == [200, 200]
        assert (await service.post(request("ping"), **first)).status_code == 404


@pytest.mark.req("A-035", "A-041", "B-060", "B-061", "B-062", "B-065", "B-068", "A-024")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_of_each_revision(service: OpenService, version: str) -> None:
    opened = await service.post(handshake(version), accept="application/json, text/event-stream")
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    assert opened.json()["result"]["protocolVersion"] == version
    assert (await service.post(notification("notifications/initialized"), **session)).status_code == 202

    tools = (await service.post(request("tools/list"), **session)).json()["result"]["tools"]
    ran = (await service.post(execute("result = 1"), **session)).json()["result"]
    again = await service.post(handshake(version), **session)
    ended = await service.http.delete("/mcp", headers=session)
    after = await service.post(request("tools/list"), **session)

    assert ("annotations" in tools[0]) == (version >= "2025-03-26")
    assert ("structuredContent" in ran) == (version >= "2025-06-18")
    assert again.json()["error"]["code"] == -32600
    assert (ended.status_code, after.status_code) == (204, 404)


@pytest.mark.req("A-036", "A-038", "A-039")
async def test_revisions_are_negotiated(service: OpenService) -> None:
    async def negotiated(asked: Any) -> Any:
        message = handshake(asked)
        return await service.post(message)

    assert (await negotiated("2099-01-01")).json()["result"]["protocolVersion"] == "2025-11-25"
    assert (await negotiated("draft")).json()["result"]["protocolVersion"] == "2025-11-25"
    refused = await negotiated(7)
    assert refused.json()["error"]["code"] == -32602
    assert "2025-11-25" in refused.json()["error"]["data"]["supported"]
    assert "mcp-session-id" not in refused.headers


@pytest.mark.req("A-012", "A-014", "A-015", "A-016", "B-034", "B-035", "B-072", "X-20", "A-010", "B-036")
async def test_batches_are_for_one_revision(service: OpenService) -> None:
    batch = [request("ping", id=1), notification("notifications/initialized"), request("tools/list", id="1")]

    for headers in (await service.session("2025-03-26"), {}, {"mcp_protocol_version": "2025-03-26"}):
        answers = (await service.post(batch, **headers)).json()
        assert {(type(one["id"]), one["id"]) for one in answers} == {(int, 1), (str, "1")}, headers
        empty = await service.post([], **headers)
        assert (empty.status_code, empty.json()["error"]["code"]) == (400, -32600)
        inside = (await service.post([handshake()], **headers)).json()
        assert inside[0]["error"]["code"] == -32600
        only_news = await service.post([notification("notifications/initialized")], **headers)
        assert (only_news.status_code, only_news.content) == (202, b"")
        result = {"jsonrpc": "2.0", "id": 9, "result": {}}
        only_answers = await service.post([result], **headers)
        assert (only_answers.status_code, only_answers.content) == (202, b"")
        mixed = await service.post([request("ping"), result], **headers)
        assert (mixed.status_code, mixed.json()["error"]["code"]) == (400, -32600)
    for headers in (await service.session("2025-06-18"), {"mcp_protocol_version": "2025-11-25"}):
        refused = await service.post(batch, **headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)


@pytest.mark.req("A-001", "A-002", "A-003", "A-017", "B-037", "C-022", "C-069")
@pytest.mark.parametrize("style", ["session", "sessionless", "modern"])
@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        pytest.param(request("tools/list", id=None), 400, -32600, id="a null id"),
        pytest.param(request("tools/list", id=1.5), 400, -32600, id="a float id"),
        pytest.param(request("tools/list", id=True), 400, -32600, id="a boolean id"),
        pytest.param({"id": 1, "method": "tools/list"}, 400, -32600, id="no jsonrpc"),
        pytest.param("text", 400, -32600, id="no object"),
        pytest.param(request("tools/none"), None, -32601, id="an unknown method"),
        pytest.param(request("tools/call", {"name": "nope"}), None, -32602, id="an unknown tool"),
        pytest.param(request("tools/list", {"cursor": "zzz"}), None, -32602, id="a cursor"),
    ],
)
async def test_wrong_messages_have_the_codes_of_json_rpc(
    service: OpenService, style: str, message: Any, status: int | None, code: int
) -> None:
    headers: dict[str, str] = {}
    if style == "session":
        headers = await service.session()
    if style == "modern":
        method = message["method"] if isinstance(message, dict) else "x"
        params = message.get("params", {}) if isinstance(message, dict) else {}
        headers = modern_headers(method, params.get("name"))
        if isinstance(message, dict):
            message = {**message, "params": {**params, "_meta": MODERN_META}}
        status = status or (404 if code == -32601 else 400)

    refused = await service.post(message, **headers)

    assert refused.json()["error"]["code"] == code
    assert refused.status_code == (status or 200)


@pytest.mark.req("B-064", "B-070", "B-073", "B-074", "B-048", "L-007", "X-01")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_headers_must_fit(service: OpenService, version: str) -> None:
    session = await service.session(version)

    async def status(**headers: str) -> tuple[int, Any]:
        answer = await service.post(request("ping"), **headers)
        return answer.status_code, answer.json().get("error", {}).get("code")

    assert await status(**session, mcp_protocol_version="2025-03-26") == (400, -32600)
    assert await status(**session, mcp_protocol_version=version) == (200, None)
    assert await status(mcp_protocol_version="1999-01-01") == (400, -32022)
    assert await status(mcp_session_id="a-guess") == (404, -32600)
    named = await service.post(request("tools/list", {"_meta": MODERN_META}))
    assert (named.status_code, named.json()["error"]["code"]) == (400, -32020)
    assert (await service.http.get("/mcp", headers={"accept": "text/event-stream"})).status_code == 400
    assert (await service.http.get("/mcp", headers=modern_headers("x"))).status_code == 405
    assert (await service.http.delete("/mcp")).status_code == 400
    assert (await service.http.put("/mcp")).headers["allow"] == "POST, GET, DELETE"


@pytest.mark.req("B-033")
@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json;q=0.5, text/event-stream", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("text/html", None),
    ],
)
async def test_accept_is_optional(service: OpenService, accept: str | None, kind: str | None) -> None:
    session = await service.session()
    headers = {**session, **({} if accept is None else {"accept": accept})}
    service.http.headers.pop("accept", None)

    answer = await service.post(request("ping"), **headers)

    assert answer.status_code == (406 if kind is None else 200)
    assert kind is None or answer.headers["content-type"].startswith(kind)


@pytest.mark.req("A-004", "A-005", "A-011")
async def test_ids_keep_their_type_and_text_its_characters(service: OpenService) -> None:
    session = await service.session()
    text = "emoji \U0001f600, 漢字, \u2028 line"

    ran = (await service.post(execute(f"result = {text!r}", id="1"), **session)).json()

    assert ran["id"] == "1"
    assert ran["result"]["structuredContent"]["data"] == text


@pytest.mark.req("B-041", "B-043", "B-054", "B-055", "A-081", "A-083", "B-040")
async def test_progress_travels_on_the_stream_of_its_call(service: OpenService) -> None:
    session = await service.session()
    message = execute("print('one', flush=True)\nresult = 2", meta={"progressToken": "t"})
    headers = {**STREAMS, **named(session)}

    async with streaming(service, "POST", json=message, headers=headers) as (response, events):
        heard = [event async for event in events]

    assert response.headers["content-type"].startswith("text/event-stream")
    assert heard[0]["data"] is None  # an id before anything is said
    assert heard[1]["data"]["params"]["progressToken"] == "t"
    assert heard[-1]["data"]["result"]["structuredContent"] == {"ok": True, "data": 2, "stdout": "one\n"}
    assert len({event["id"] for event in heard}) == len(heard)


@pytest.mark.req("C-013", "C-014", "C-015", "C-030", "C-031", "C-032", "C-038", "C-041")
async def test_pictures_and_files_of_a_run_are_shown_listed_and_read(service: OpenService) -> None:
    session = await service.session()

    async def ask(method: str, params: Any = None) -> Any:
        return (await service.post(request(method, params), **session)).json()

    code = f"display({png()!r})\nopen('rows.csv', 'w').write('1,2')"
    shown = (await service.post(execute(code), **session)).json()["result"]
    run = shown["_meta"]["moonpool/envelope"]["run_id"]
    listed = {one["uri"]: one for one in (await ask("resources/list"))["result"]["resources"]}
    (template,) = (await ask("resources/templates/list"))["result"]["resourceTemplates"]
    table, picture = f"moonpool://{run}/rows.csv", f"moonpool://{run}/picture-1.png"
    (text,) = (await ask("resources/read", {"uri": table}))["result"]["contents"]
    (drawn,) = (await ask("resources/read", {"uri": picture}))["result"]["contents"]
    missing = (await ask("resources/read", {"uri": f"moonpool://{run}/none"}))["error"]

    (block,) = [one for one in shown["content"] if one["type"] == "image"]
    assert (block["mimeType"], base64.b64decode(block["data"])) == ("image/png", png())
    assert {table, picture} <= set(listed)
    assert listed[picture]["mimeType"] == "image/png"
    assert template["uriTemplate"] == "moonpool://{session}/{+path}"
    assert (text["text"], base64.b64decode(drawn["blob"])) == ("1,2", png())
    assert (missing["code"], missing["data"]["uri"]) == (-32002, f"moonpool://{run}/none")


@pytest.mark.req("B-044", "B-056", "B-057", "B-058", "B-050")
async def test_a_broken_stream_is_resumed(service: OpenService) -> None:
    session = await service.session()
    headers = {**STREAMS, **named(session)}
    begin = execute(MARK, meta={"progressToken": 1})
    async with streaming(service, "POST", json=begin, headers=headers) as (_, events):
        await anext(events)
        seen = await anext(events)
        assert "begun" in seen["text"]
    other = await service.post(request("ping", id=2), **session)
    assert other.status_code == 200

    resumed = {**named(session), "accept": "text/event-stream", "last-event-id": seen["id"]}
    async with streaming(service, "GET", headers=resumed) as (_, events):
        await service.post(notification("notifications/cancelled", {"requestId": 1}), **session)
        left = [event async for event in events]
    assert [event for event in left if event.get("data") and "error" in event["data"]] == []

    unknown = {**resumed, "last-event-id": "99-1"}
    assert (await service.http.get("/mcp", headers=unknown)).status_code == 404


@pytest.mark.req("B-044", "B-057")
async def test_a_call_goes_on_without_its_connection(service: OpenService) -> None:
    session = await service.session()
    headers = {**STREAMS, **named(session)}
    slow = execute(
        "import time\nprint('begun', flush=True)\ntime.sleep(0.3)\nresult = 'done'", meta={"progressToken": 1}
    )
    async with streaming(service, "POST", json=slow, headers=headers) as (_, events):
        first = await anext(events)

    resumed = {**named(session), "accept": "text/event-stream", "last-event-id": first["id"]}
    async with streaming(service, "GET", headers=resumed) as (_, events):
        heard = [event["data"] async for event in events]

    assert heard[0]["method"] == "notifications/progress"
    assert heard[-1]["result"]["structuredContent"]["data"] == "done"


@pytest.mark.req("A-071", "A-063", "A-072", "A-077", "A-010")
async def test_a_cancelled_call_is_killed_and_not_answered(service: OpenService) -> None:
    session = await service.session()
    headers = {**STREAMS, **named(session)}

    async with streaming(service, "POST", json=execute(MARK, id=7, meta={"progressToken": 1}), headers=headers) as (
        _,
        events,
    ):
        while "begun" not in (await anext(events))["text"]:
            pass
        assert (await service.post(request("ping", id=8), **session)).json()["result"] == {}
        assert _running(service)
        await service.post(notification("notifications/cancelled", {"requestId": 7, "reason": "enough"}), **session)
        rest = [event async for event in events]

    assert not any(event.get("data") and "id" in event["data"] for event in rest)
    await _ended(service)
    for useless in ({"requestId": 99}, {}, {"requestId": [7]}):
        news = await service.post(notification("notifications/cancelled", useless), **session)
        assert (news.status_code, news.content) == (202, b"")


@pytest.mark.req("A-071", "A-054")
@pytest.mark.parametrize("how", ["closing the stream of 2026-07-28", "DELETE"])
async def test_what_else_ends_a_call(service: OpenService, how: str) -> None:
    message: dict[str, Any] = execute(MARK, id=7, meta={"progressToken": 1})
    if how == "DELETE":
        session = named(await service.session())
        headers = {**STREAMS, **session}
    else:
        session = {}
        headers = modern_headers("tools/call", "execute_code")
        message["params"]["_meta"] |= MODERN_META
    async with streaming(service, "POST", json=message, headers=headers) as (_, events):
        while "begun" not in (await anext(events))["text"]:
            pass
        assert _running(service)
        if session:
            assert (await service.http.delete("/mcp", headers=session)).status_code == 204
            assert "result" not in (await answer_of(events) or {})
    await _ended(service)


@pytest.mark.req("B-048", "B-051", "B-052", "B-053")
async def test_get_streams_are_bounded(service: OpenService) -> None:
    session = {**named(await service.session()), "accept": "text/event-stream"}
    async with anyio.create_task_group() as tasks:

        async def listen(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            async with streaming(service, "GET", headers=session) as (response, _):
                assert response.status_code == 200
                task_status.started()
                await anyio.sleep_forever()

        for _ in range(4):
            await tasks.start(listen)
        refused = await service.http.get("/mcp", headers=session)
        tasks.cancel_scope.cancel()
    assert refused.status_code == 409


@pytest.mark.req("B-025", "B-059", "C-025", "C-040", "E-017")
async def test_ids_of_another_principal_are_unknown() -> None:
    callers = {"a": caller("a"), "b": caller("b")}
    with anyio.fail_after(120):
        async with serving(callers) as service:
            a, b = {"authorization": "Bearer a"}, {"authorization": "Bearer b"}
            session = await service.session(**a)
            stolen = {**session, **b}
            guessed = {"mcp_session_id": "a-guess-of-the-same-size-xxxxxxx", **b}

            for send in (
                lambda headers: service.post(request("tools/list"), **headers),
                lambda headers: service.http.get("/mcp", headers=named({**headers, "accept": "text/event-stream"})),
                lambda headers: service.http.delete("/mcp", headers=named(headers)),
            ):
                foreign, unknown = await send(stolen), await send(guessed)
                assert (foreign.status_code, foreign.content) == (404, unknown.content)
                assert _without_date(foreign) == _without_date(unknown)
            async with streaming(service, "POST", json=execute("result = 1", id=5), headers={**STREAMS, **a}) as (
                response,
                _,
            ):
                assert response.status_code == 200
            async with streaming(service, "GET", "/sse", headers=a) as (_, events):
                endpoint = (await _first_line(events)).strip()
                as_other = await service.post(request("ping"), path=endpoint, **b)
                as_unknown = await service.post(request("ping"), path="/message?sessionId=nobody", **b)
                assert (as_other.status_code, as_other.content) == (404, as_unknown.content)
            assert (await service.post(request("ping"), **session)).status_code == 200
            without = await service.post(request("ping"), mcp_session_id=session["mcp_session_id"])
            assert without.status_code == 401


async def _first_line(events: AsyncIterator[dict[str, Any]]) -> str:
    return (await anext(events))["text"]


def _without_date(response: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name != "date"}


def _running(service: OpenService) -> int:
    return service.service.servers.open_calls


async def _ended(service: OpenService) -> None:
    """Wait until no sandbox is in use."""
    await until(lambda: not service.service.servers.open_calls and not _in_use(service))


def _in_use(service: OpenService) -> int:
    return sum(queue.in_use for queue in service.service.engine.pool.statistics().kinds)
