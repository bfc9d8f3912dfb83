"""Sessions over HTTP as any client meets them: whose they are, what cannot be meant, what is described."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import jsonschema_rs
import pytest

from apps import fixture_server
from moonpool.server.http.sessions.tenants import SessionBounds
from sdk.service import ServiceThread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

pytestmark = pytest.mark.anyio
ECHO = {"echo": fixture_server("echo.py", ask=["*"])}
CALL = "from servers.echo import text\nr = await text(text='hi')\nr.data if r.ok else r.error['message']"
ID = "0123456789abcdef" * 2
FEW = SessionBounds(per_principal_max=2, per_organisation_max=3, idle_s=0.2)


@asynccontextmanager
async def client(service: ServiceThread, key: str) -> AsyncGenerator[httpx2.AsyncClient]:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=f"{service.url}/v1/", headers=headers, verify=False, timeout=60) as opened:
        yield opened


async def opened(http: httpx2.AsyncClient, **wanted: Any) -> str:
    answer = await http.post("sessions", json=wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def begun(http: httpx2.AsyncClient, session: str, code: str) -> httpx2.Response:
    request = http.build_request("POST", f"sessions/{session}/executions", json={"code": code, "id": ID})
    return await http.send(request, stream=True)


async def lines(http: httpx2.AsyncClient, session: str, code: str, **asked: Any) -> list[dict[str, Any]]:
    answer = await http.post(f"sessions/{session}/executions", json={"code": code, **asked})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            yield method.upper(), path.removeprefix("/v1/"), about


@pytest.mark.claim("C-APP-4")
async def test_nobody_approves_the_calls_of_their_own_code(served: ServiceThread) -> None:
    async with served.organisation(servers=ECHO) as ours, client(served, ours.key) as owner:
        session = await opened(owner)

        async def asked_by(give: Any) -> list[dict[str, Any]]:
            answers: list[dict[str, Any]] = []
            request = owner.build_request("POST", f"sessions/{session}/executions", json={"code": CALL})
            stream = await owner.send(request, stream=True)
            try:
                async for text in stream.aiter_lines():
                    line = json.loads(text)
                    if line["type"] == "approval":
                        await give(line["request"]["request_id"])
                    answers.append(line)
            finally:
                await stream.aclose()
            return answers

        async def own(request_id: str) -> None:
            mine = await owner.post(f"approvals/{request_id}", json={"approve": True})
            assert (mine.status_code, mine.json()["error"]["code"]) == (403, "self_approval")
            async with client(served, ours.powerless) as without:
                refused = await without.post(f"approvals/{request_id}", json={"approve": True})
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "approval_not_answerable")
                assert (await without.get("approvals")).status_code == 403
            async with client(served, ours.other_key) as other:
                waiting = (await other.get("approvals")).json()["approvals"]
                assert [one["request"]["request_id"] for one in waiting] == [request_id]
                assert waiting[0]["principal"] != "", waiting
                given = await other.post(f"approvals/{request_id}", json={"approve": True, "by": "ann\x1b[0m"})
                assert given.status_code == 204
                late = await other.post(f"approvals/{request_id}", json={"approve": True})
                assert late.json()["error"]["code"] == "approval_not_answerable"

        async def no(request_id: str) -> None:
            answer = await owner.post(f"approvals/{request_id}", json={"approve": False, "note": "not today"})
            assert answer.status_code == 204

        yes = await asked_by(own)
        assert yes[-1]["envelope"]["result"]["data"] == "hi"
        assert [line["seq"] for line in yes if line["type"] != "alive"] == list(range(1, len(yes) + 1))
        assert "not today" in (await asked_by(no))[-1]["envelope"]["result"]["data"]


@pytest.mark.claim("C-APP-4")
async def test_only_who_logged_in_as_a_person_answers_what_is_kept_for_one(
    served: ServiceThread, tmp_path: Any
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('version = 1\n[[rule]]\nid = "r"\nverdict = "human_only"\n', encoding="utf-8")
    async with (
        served.organisation(servers=ECHO, policy=policy) as ours,
        client(served, ours.key) as owner,
        client(served, ours.other_key) as other,
        client(served, ours.person) as person,
    ):
        session = await opened(owner)
        stream = await begun(owner, session, CALL)
        async for text in stream.aiter_lines():
            line = json.loads(text)
            if line["type"] == "approval":
                path = f"approvals/{line['request']['request_id']}"
                refused = await other.post(path, json={"approve": True, "by": "user:alice"})
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "approval_not_answerable")
                assert (await person.post(path, json={"approve": True})).status_code == 204
        assert line["envelope"]["result"]["data"] == "hi"
        await stream.aclose()


DEEP = b'{"code": ' + b"[" * 5000 + b"]" * 5000 + b"}"
HOSTILE: dict[str, tuple[bytes, dict[str, str], int]] = {
    "cut": (b'{"code": "1', {}, 400),
    "not UTF-8": (b'{"code": "\xff"}', {}, 400),
    "deep": (DEEP, {}, 400),
    "an array": (b"[1]", {}, 400),
    "a member nobody knows": (b'{"nobody_knows": 1}', {}, 400),
    "too large": (b'"' + b"x" * (9 * 1024**2) + b'"', {}, 413),
    "compressed": (gzip.compress(b"{}"), {"content-encoding": "gzip"}, 400),
    "another type": (b"{}", {"content-type": "text/plain"}, 400),
}


@pytest.mark.claim("C-WEB-3")
@pytest.mark.req("X-10")
async def test_hostile_bodies_are_one_clear_error_each(served: ServiceThread) -> None:
    async with served.organisation() as ours, client(served, ours.key) as http:
        session = await opened(http)
        document = (await http.get("openapi.json")).json()
        with_body = [
            (method, path.format(session_id=session, question_id=ID, request_id="approval_x"))
            for method, path, about in operations(document)
            if "application/json" in about.get("requestBody", {}).get("content", {})
        ]
        assert len(with_body) >= 10
        for method, path in with_body:
            for name, (body, headers, status) in HOSTILE.items():
                if name == "too large" and path != with_body[0][1]:  # one way for all of them
                    continue
                sent = {"content-type": "application/json", **headers}
                answer = await http.request(method, path, content=body, headers=sent)
                assert (answer.status_code, answer.json()["error"]["fault"]) == (status, "caller"), (path, name)
                assert answer.json()["error"]["message"], name
        at_terminal = {"terminal": {"environ": {}, "here": "/", "workspace": "/etc"}}
        answer = await http.post("sessions", json=at_terminal)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "input_invalid")
        for path in (f"sessions/{session}/files?path=a&path=b", f"sessions/{session}/files?nobody=1", "sessions?x=1"):
            assert (await http.get(path)).status_code == 400
        for path in ("nowhere", "sessions/", "openapi.json/"):
            assert (await http.get(path)).json()["error"]["code"] == "path_unknown"
        assert (await http.patch("sessions")).json()["error"]["code"] == "path_unknown"
        for code, timeout in ((" ", None), ("1", -1), ("1", 10**9)):
            answer = await http.post(f"sessions/{session}/executions", json={"code": code, "timeout": timeout})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "input_invalid")
        assert (await lines(http, session, "6 * 7"))[-1]["envelope"]["result"]["data"] == 42
        async with client(served, ours.powerless) as without:
            assert (await without.post("sessions", json={})).json()["error"]["code"] == "scope_missing"
        async with client(served, ours.direct) as other_profile:
            refused = await other_profile.post("sessions", json={})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "profile_forbids")
        async with client(served, "sk-wrong-key") as nobody:
            assert (await nobody.get("sessions")).status_code == 401


async def test_answers_are_as_the_document_describes_them(served: ServiceThread) -> None:  # noqa: PLR0915  one scenario
    allowed = {"echo": fixture_server("echo.py", allow=["*"])}
    async with served.organisation(servers=allowed) as ours, client(served, ours.key) as http:
        document = (await http.get("openapi.json")).json()
        assert document["openapi"].startswith("3.1")
        told = {about["operationId"]: (method, path, about) for method, path, about in operations(document)}
        seen: set[str] = set()

        def check(schema: dict[str, Any], body: Any) -> None:
            jsonschema_rs.validator_for({**schema, "components": document["components"]}).validate(body)

        async def ask(name: str, query: str = "", body: Any = None, **names: str) -> Any:
            method, path, about = told[name]
            seen.add(name)
            content = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
            answer = await http.request(method, path.format(**names) + query, **content)
            described = about["responses"][str(answer.status_code)]
            if not (kinds := described.get("content")):
                assert answer.content == b""
                return None
            kind = answer.headers["content-type"]
            assert kind in kinds, (name, kind)
            if kind == "application/octet-stream":
                return answer.content
            schema = kinds[kind]["schema"]
            for text in answer.text.splitlines() if kind.endswith("ndjson") else [answer.text]:
                check(schema, json.loads(text))
            return json.loads(text)

        made = await ask("createSession", body={"checkpoints": True, "network": {"allow": ["a.example"]}})
        s = {"session_id": made["id"]}
        code = "print('ä\\x85\\u2028'); open('f', 'w').write('1')\n"
        code += "from servers.echo import text\nr = await text(text='x')\nr.data"
        ran = await ask("runCode", body={"code": code, "id": ID}, **s)
        assert ran["type"] == "result"
        again = await ask("runCode", body={"code": code, "id": ID}, **s)
        assert again == ran  # not run twice
        assert (await ask("runCode", body={"code": "2", "id": ID}, **s))["error"]["code"] == "execution_id_used"
        assert await ask("readEvents", "?after=1", execution_id=ID, **s) == ran
        await ask("endExecution", execution_id=ID, **s)
        await ask("listSessions")
        assert (await ask("getSession", **s))["usage"]["executions"] == 1
        await ask("interrupt", body={}, **s)
        await ask("takeCheckpoint", body={"name": "one"}, **s)
        forked = await ask("fork", **s)
        await ask("closeSession", session_id=forked["id"])
        assert (await ask("undo", body={"n": 1}, **s))["undone"]["run_ids"] == [ran["run_id"]]
        await ask("changeNetwork", body={"allow": ["b.example"], "deny": ["a.example"]}, **s)
        await ask("installPackages", body={"packages": ["x"]}, **s)
        await ask("listTools", **s)
        hit = (await ask("searchTools", body={"queries": ["text"]}, **s))["tools"][0]
        await ask("getDefinition", f"?path={hit['path']}&form=json", **s)
        await ask("writeFile", "?path=a%2Fb.txt", body=b"bytes", **s)
        assert await ask("readFile", "?path=a%2Fb.txt", **s) == b"bytes"
        await ask("listFiles", "?recursive=true", **s)
        tarred = await ask("readArchive", "?path=a", **s)
        await ask("unpackArchive", "?path=c", body=tarred, **s)
        assert await ask("readFile", "?path=c%2Fb.txt", **s) == b"bytes"
        await ask("removeFile", "?path=a&recursive=true", **s)
        assert (await ask("readFile", "?path=a%2Fb.txt", **s))["error"]["code"] == "file_missing"
        await ask("answerQuestion", body={"how": "cancel"}, question_id=ID, **s)
        await ask("listApprovals")
        await ask("answerApproval", body={"approve": False}, request_id="approval_x")
        await ask("reset", **s)
        await ask("closeSession", **s)
        assert (await ask("getSession", **s))["error"]["code"] == "session_unknown"
        assert seen == told.keys()


async def test_a_reader_who_takes_nothing_holds_up_nobody_and_reads_on_later(served: ServiceThread) -> None:
    async with served.organisation() as ours, client(served, ours.key) as slow, client(served, ours.key) as http:
        session = await opened(slow)
        code = "for n in range(40):\n    print(str(n % 10) * 500_000)\n'done'"
        stream = await begun(slow, session, code)
        with anyio.fail_after(60):
            assert (await lines(http, session, "6 * 7"))[-1]["envelope"]["result"]["data"] == 42
        told = [json.loads(line) async for line in stream.aiter_lines()]
        await stream.aclose()
        assert told[-1]["envelope"]["result"]["data"] == "done"
        output = [line for line in told if line["type"] == "output"]
        heard = sum(len(line["text"]) + line.get("dropped_bytes", 0) for line in output)
        assert heard == 40 * 500_001
        assert [line["seq"] for line in told if line["type"] != "alive"] == list(range(1, told[-1]["seq"] + 1))


@pytest.mark.slow
async def test_a_reader_who_comes_back_too_late_is_told_how_much_is_gone(served: ServiceThread) -> None:
    async with served.organisation() as ours, client(served, ours.key) as http:
        session = await opened(http)
        code = "import time\nfor n in range(150):\n    print('x' * 60_000, flush=True)"
        told = await lines(http, session, code, id=ID)
        heard = sum(len(line["text"]) for line in told if line["type"] == "output")
        assert heard > 5 * 1024**2
        late = await http.get(f"sessions/{session}/executions/{ID}/events?after=1")
        first, *rest = [json.loads(line) for line in late.text.splitlines()]
        assert (first["type"], first["count"]) == ("missed", first["seq"] - 1)
        assert rest == told[first["seq"] :]
        beyond = await http.get(f"sessions/{session}/executions/{ID}/events?after={2**40}")
        assert beyond.text == ""


async def test_two_clients_of_one_session_hear_the_same(served: ServiceThread) -> None:
    async with served.organisation() as ours, client(served, ours.key) as one, client(served, ours.key) as two:
        session = await opened(one)
        code = "print('on', flush=True)\nimport time; time.sleep(600)"
        stream = await begun(one, session, code)
        told = stream.aiter_lines()
        first: list[str] = []
        while '"output"' not in (line := await anext(told)):
            first.append(line)
        first.append(line)
        reading = asyncio.ensure_future(two.get(f"sessions/{session}/executions/{ID}/events"))
        assert (await two.post(f"sessions/{session}/interrupt", json={"executions": ["f" * 32]})).status_code == 204
        assert (await two.post(f"sessions/{session}/interrupt", json={"executions": [ID]})).status_code == 204
        with anyio.fail_after(60):
            first += [line async for line in told]
            second = (await reading).text.splitlines()
        await stream.aclose()
        assert [line for line in first if '"alive"' not in line] == [line for line in second if '"alive"' not in line]
        assert json.loads(first[-1])["envelope"]["result"]["error"]["type"] == "Cancelled"


async def test_code_that_waits_is_bounded_together(served: ServiceThread) -> None:
    async with served.organisation() as ours, client(served, ours.key) as http:
        session = await opened(http)
        running = await begun(http, session, "import time; time.sleep(600)")
        answers: list[httpx2.Response] = []
        for _ in range(5):
            code = {"code": "#" + "x" * 999_990}
            request = http.build_request("POST", f"sessions/{session}/executions", json=code)
            answers.append(await http.send(request, stream=True))
        refused = json.loads(await answers[-1].aread())
        for answer in (running, *answers):
            await answer.aclose()
        assert [answer.status_code for answer in answers] == [200] * 4 + [429]
        assert refused["error"]["code"] == "too_many_sessions"
        assert (await http.delete(f"sessions/{session}")).status_code == 204


@pytest.mark.slow
async def test_there_are_only_so_many_and_only_for_so_long() -> None:
    service = await asyncio.to_thread(ServiceThread(FEW).start)
    try:
        async with (
            service.organisation() as ours,
            client(service, ours.key) as http,
            client(service, ours.other_key) as other,
        ):
            session = await opened(http)
            stream = await begun(
                http, session, "import time; time.sleep(600)"
            )  # it is in use for as long as code runs in it
            idle = await opened(http)
            for_me = await http.post("sessions", json={})
            assert (for_me.status_code, for_me.json()["error"]["code"]) == (429, "too_many_sessions")
            assert for_me.headers["retry-after"]
            await opened(other)
            async with client(service, ours.person) as third:
                assert (await third.post("sessions", json={})).status_code == 429

            async def is_gone() -> bool:
                return (await http.get(f"sessions/{idle}/files")).status_code == 404

            with anyio.fail_after(60):
                while not await is_gone():  # noqa: ASYNC110
                    await asyncio.sleep(0.3)  # longer than it may be idle: asking is using it
            assert (await http.get(f"sessions/{session}")).status_code == 200
            await stream.aclose()
            assert (await http.get("sessions")).json()["sessions"][0]["id"] == session
    finally:
        await asyncio.to_thread(service.stop)


@pytest.mark.slow
async def test_a_service_that_ends_ends_its_streams(served: ServiceThread) -> None:
    service = await asyncio.to_thread(ServiceThread().start)
    async with service.organisation() as ours, client(service, ours.key) as http:
        session = await opened(http)
        code = "print('on', flush=True)\nimport time; time.sleep(600)"
        stream = await begun(http, session, code)
        told = stream.aiter_lines()
        while '"output"' not in await anext(told):
            pass
        ending = asyncio.ensure_future(service.do(service.registry.close_all()))
        with anyio.fail_after(60):
            last = [line async for line in told][-1]
            await ending
        assert json.loads(last)["envelope"]["result"]["error"]["type"] == "Cancelled"
        await stream.aclose()
        refused = await http.post("sessions", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "service_closing")
    await asyncio.to_thread(service.stop)
