"""Every handle at every route with a credential that does not own it: answered like an id that never was.

The routes are the application's own, those that organisations manage with included, and the arguments those of its
tools, so a new one that nobody has looked at fails here. The state of a call that waits for its client is attacked in
`test_direct_talk`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from starlette.routing import Mount, Route

from apps import fixture_server
from moonpool.bootstrap.admission import Admitted
from moonpool.bootstrap.database import open_service_data
from moonpool.configuration.servers import parse_config
from moonpool.features.keys.model import KeySpec
from moonpool.features.organisations.model import OneOrganisationError
from moonpool.ipybox.mcp_server.hosted import served_profiles
from moonpool.network import public_http
from moonpool.network.destinations import Destinations
from moonpool.server.http.admission import Bearers
from moonpool.settings import Settings
from server.services import JSON_TYPE, STREAMS, caller, execute, handshake, named, request, serving, streaming

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator
    from pathlib import Path

    import httpx2
    from starlette.routing import BaseRoute

    from moonpool.bootstrap.database import ServiceData
    from postgres import PostgresServer
    from server.services import OpenService

pytestmark = pytest.mark.anyio
THEIRS = fixture_server("echo.py", allow=["*"], expose="direct", organisations=["another"])
SERVERS = {"mcpServers": {"echo": fixture_server("echo.py", ask=["*"]), "theirs": THEIRS}}
CONFIG = parse_config(json.dumps(SERVERS).encode(), source="test", environ=os.environ)
SCOPES = frozenset({"execute", "files"})  # who may approve or administer has to do with others of its organisation
ASKING = "from servers.echo import text\nawait text(text='hi')"
WRITING = "import servers.echo as e\nresult = (await e.echo(word='hello')).ok"
RUNNING = "print('begun', flush=True)\nimport time; time.sleep(600)"
VERSION = {"mcp-protocol-version": "2025-11-25"}
FOREIGN = ("neighbour", "elsewhere") if os.geteuid() == 0 else ("neighbour",)
"""Another principal, and another organisation's of the same name; without root one process serves one organisation."""
PROFILE_PATHS = ("/mcp", "/mcp/code", "/mcp/direct", "/mcp/ipybox")
CELL = "execute_ipython_cell"
HTTP_ID = "0123456789abcdef" * 2

WITHOUT = {
    "/sse", "/metrics", "GET /v1/openapi.json", "GET /v1/sessions", "POST /v1/sessions", "GET /v1/approvals",
    "GET /v1/servers", "POST /v1/servers", "GET /v1/consents", "GET /v1/admin/keys", "GET /v1/admin/organisations",
    "POST /v1/admin/organisations", "GET /v1/admin/policy", "PUT /v1/admin/policy", "DELETE /v1/admin/policy",
    "GET /v1/admin/sandboxes", "POST /v1/admin/sandboxes", "GET /v1/admin/tools", "POST /v1/admin/tools",
    "GET /v1/audit", "GET /v1/catalog", "GET /v1/executions", "GET /v1/plans", "GET /v1/threads", "GET /v1/volumes",
    "POST /v1/volumes", "GET /v1/webhooks/secret", "POST /v1/webhooks/secret",
}  # fmt: skip
"""Routes that take no handle."""
IN_HEADERS = {"/mcp", "/mcp/{profile}"}
IN_QUERIES = {"/message"}
IN_BODIES = {
    "POST /v1/consents", "POST /v1/consents/withdraw", "POST /v1/files/list", "POST /v1/files/download_url",
    "POST /v1/files/upload_url", "POST /v1/files/delete", "POST /v1/admin/keys", "POST /v1/sandbox/execute",
}  # fmt: skip
"""A thread of an execution or an upload that is not the caller's is a new one of its own."""
IN_PATHS = {
    "session_id", "execution_id", "question_id", "request_id", "server", "id", "slug", "trace_id", "key_id", "sandbox",
    "organisation", "plan_id",
}  # fmt: skip
THREAD, THIRD = "alices", "third"
ALICE, CLIENT, OWN_SERVER = "user:https://issuer.example#alice", "app", "crm"
ARGUMENTS = {("execute_code", "session"), ("execute_code", "plan"), ("wait", "id")}
OTHER_ARGUMENTS = {
    ("search_tools", "queries"), ("search_tools", "server"), ("search_tools", "read_only"), ("search_tools", "limit"),
    ("get_tool_definition", "paths"), ("get_tool_definition", "form"), ("execute_code", "code"),
    ("execute_code", "language"), ("execute_code", "timeout_s"), ("execute_code", "patience_s"),
    ("execute_code", "preview"), ("execute_code", "dry_run"), ("wait", "patience_s"), ("wait", "offset"),
    ("wait", "cancel"),
}  # fmt: skip
BODIES: dict[str, Any] = {
    "runCode": {"code": "1"}, "installPackages": {"packages": ["x"]}, "takeCheckpoint": {"name": "x"},
    "searchTools": {"queries": ["x"]}, "answerQuestion": {"how": "cancel"}, "answerApproval": {"approve": True},
    "answerPlan": {"approve": True},
}  # fmt: skip
QUERIES = {"getDefinition": "?path=x", "removeFile": "?path=x", "readFile": "?path=x", "writeFile": "?path=x"}
CHANGING = {"date", "content-length", "x-trace-id"}
_FACTS = re.compile(r'"_meta":{"moonpool/envelope":.*?}},')
"""Of an execution: its own id, its times."""


@dataclass(frozen=True)
class Use:
    """One way to use a handle: a request in which `{id}` stands for it."""

    what: str
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    real: str
    unknown: str


def paths(routes: Iterable[BaseRoute], before: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, method (empty: any) and name of every route."""
    for route in routes:
        if isinstance(route, Mount):
            yield from paths(route.routes, before + route.path)
        else:
            assert isinstance(route, Route)
            methods = (route.methods or {""}) - {"HEAD"}
            yield from ((before + route.path, method, route.name) for method in methods)


def other(handle: str) -> str:
    """An id of the same form that was never given out."""
    return handle[:-1] + ("0" if handle[-1] != "0" else "1")


@dataclass(frozen=True)
class Owned:
    """What the caller `a` has, by kind of handle."""

    sessions: dict[str, tuple[str, str]]  # of MCP, by path, each with the id of an event of its stream
    stream: str  # of HTTP+SSE
    execution: str
    plan: str
    run: str  # whose file it is
    in_paths: dict[str, str]


@pytest.fixture(scope="module", params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.slow)])
async def database_url(request: pytest.FixtureRequest) -> AsyncGenerator[str]:
    """Where the service keeps what it keeps; empty: in its folder, with SQLite."""
    if request.param == "SQLite":
        yield ""
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = await server.take_database()
    yield server.url(name)
    await server.return_database(name)


@pytest.fixture(scope="module")
async def data(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> AsyncGenerator[tuple[Path, ServiceData]]:
    """The service's folder, and its database with a consent of `a`."""
    folder = tmp_path_factory.mktemp("handles")
    async with open_service_data(Settings.load({}, database_url=database_url), folder, {}) as opened:
        await opened.organisations.ensure("default")
        await opened.consents.give("default", ALICE, CLIENT, "issues", "digest", given_by="test")
        for organisation in ("default", "another", THIRD):
            with suppress(OneOrganisationError):
                await opened.organisations.ensure(organisation)
                await opened.configurations.ensure_default(organisation)
        yield folder, opened


@pytest.fixture(scope="module")
async def service(data: tuple[Path, ServiceData], database_url: str) -> AsyncGenerator[OpenService]:
    callers = {
        "a": caller("a"),
        "alice": caller("a", principal=ALICE, gives_consents=True),
        "neighbour": caller("neighbour", scopes=SCOPES, gives_consents=True),
        "elsewhere": caller("a", organisation="another", gives_consents=True),
    }
    state, opened = data

    async def private(_host: str, _port: int) -> list[str]:
        return ["10.0.0.7"]  # so nothing is sent to it

    admitted = Admitted(
        admission=Bearers([]), servers=opened.servers, consents=opened.consents, opened=opened, database=opened.database
    )
    with pytest.MonkeyPatch.context() as names:
        names.setattr(public_http, "Destinations", partial(Destinations, resolve=private))
        more: dict[str, Any] = {"database_url": database_url, "approval_wait_s": 0.1}
        async with serving(callers, config=CONFIG, state=state, admitted=admitted, **more) as one:
            yield one


@pytest.fixture(scope="module")
async def owned(service: OpenService, data: tuple[Path, ServiceData]) -> AsyncGenerator[Owned]:
    a = {"authorization": "Bearer a"}

    async def run(code: str, **more: Any) -> Any:
        answer = await service.post(execute(code, **more), **a, **VERSION)
        return answer.json()["result"]["structuredContent"]

    async with AsyncExitStack() as stack:
        sessions: dict[str, tuple[str, str]] = {}
        for path in PROFILE_PATHS:
            session = named(await service.session(path=path, **a))
            headers = {**session, "accept": "text/event-stream"}
            _, events = await stack.enter_async_context(streaming(service, "GET", path, headers=headers))
            sessions[path] = session["mcp-session-id"], (await anext(events))["id"]
            if path == "/mcp/ipybox":
                cell = request("tools/call", {"name": CELL, "arguments": {"code": "x = 'secret'; print(x)"}})
                assert "secret" in (await service.post(cell, path=path, **session)).text
        _, told = await stack.enter_async_context(streaming(service, "GET", "/sse", headers=a))
        stream = (await anext(told))["text"].partition("=")[2]
        await run("x = 1; open('f.txt', 'w').write('secret')", session="mine")
        await run("open('f.txt', 'w').write('secret')")
        files = (await service.post(request("resources/list"), **a)).json()["result"]["resources"]
        going = (await run(RUNNING, patience_s=0))["execution"]
        added = {"name": OWN_SERVER, "url": "https://crm.example.com/mcp"}
        assert (await service.http.post("/v1/servers", json=added, headers=a)).status_code == 201
        plan = (await run(WRITING, dry_run=True))["plan"]["plan_id"]
        opened = await service.http.post("/v1/sessions", json={}, headers=a)
        of_http = opened.json()["id"]
        stored = await store(service, data[1])
        asking = {"code": ASKING, "id": HTTP_ID}
        lines = await stack.enter_async_context(
            service.http.stream("POST", f"/v1/sessions/{of_http}/executions", json=asking, headers=a)
        )
        asked: dict[str, Any] = {}
        each = lines.aiter_lines()
        while asked.get("type") != "approval":
            asked = json.loads(await anext(each))
        yield Owned(
            sessions=sessions, stream=stream, execution=going, plan=plan,
            run=files[0]["uri"].split("/")[2],
            in_paths={"session_id": of_http, "execution_id": HTTP_ID, "question_id": HTTP_ID,
                      "request_id": asked["request"]["request_id"], "server": OWN_SERVER, "plan_id": plan, **stored},
        )  # fmt: skip
        await service.http.delete(f"/v1/sessions/{of_http}", headers=a)
        cancel = request("tools/call", {"name": "wait", "arguments": {"id": going, "cancel": True}})
        await service.post(cancel, **a)


async def store(service: OpenService, data: ServiceData) -> dict[str, str]:
    """A thread of alice's, a volume, an execution by one call, a key and a sandbox configuration."""
    a, alice = ({"authorization": f"Bearer {who}"} for who in ("a", "alice"))

    async def post(path: str, body: Any, **headers: str) -> Any:
        answer = await service.http.post(f"/v1/{path}", json=body, headers=headers)
        assert answer.status_code in {200, 201, 202}, (path, answer.text)
        return answer.json()

    thread = {"source": "thread", "id": THREAD, "path": "f.txt", "content_length": 6}
    signed = await post("files/upload_url", thread, **alice)
    sent = {one["name"]: one["value"] for one in signed["headers"]}
    assert (await service.http.put(signed["url"], content=b"secret", headers=sent)).status_code == 200
    await post("volumes", {"slug": "archive"}, **a)
    ran = await post("sandbox/execute", {"code": "print('secret')"}, **a, prefer="respond-async")
    await post("admin/sandboxes", {"name": "closed"}, **a)
    key = await data.keys.create(KeySpec(organisation_id="default"))
    return {
        "id": THREAD, "slug": "archive", "trace_id": ran["trace_id"], "key_id": key.stored.key_id, "sandbox": "closed",
        "organisation": THIRD,
    }  # fmt: skip


def session_uses(owned: Owned) -> Iterator[Use]:
    """Sessions of each profile at every profile's address, and their streams."""
    listed = request("tools/list")
    cell = request("tools/call", {"name": CELL, "arguments": {"code": "print(x)"}})
    for path, (session, event) in owned.sessions.items():
        ways = (("POST", listed), ("POST", cell), ("GET", None), ("DELETE", None))
        for (method, body), at in itertools.product(ways, PROFILE_PATHS):
            headers = {"accept": "text/event-stream, application/json", "mcp-session-id": "{id}"}
            yield Use("session", method, at, headers, body, session, other(session))
        headers = {"accept": "text/event-stream", "mcp-session-id": session, "last-event-id": "{id}"}
        yield Use("stream", "GET", path, headers, None, event, other(event))


def uses(service: OpenService, owned: Owned) -> Iterator[Use]:
    """Every handle at every route that takes it."""
    listed = request("tools/list")
    yield from session_uses(owned)
    for path in ("/mcp", "/mcp/code"):

        def tool(what: str, name: str, arguments: Any, real: str, unknown: str = "", path: str = path) -> Use:
            body = request("tools/call", {"name": name, "arguments": arguments})
            return Use(what, "POST", path, VERSION, body, real, unknown or other(real))

        for cancel in (False, True):
            yield tool(
                "execution", "wait", {"id": "{id}", "cancel": cancel, "offset": 0, "patience_s": 0}, owned.execution
            )
        yield tool("plan", "execute_code", {"code": WRITING, "plan": "{id}"}, owned.plan)
        yield tool("kernel", "execute_code", {"code": "result = x", "session": "{id}"}, "mine", "none")
        for place, never in (("mine", "none"), (owned.run, other(owned.run))):
            body = request("resources/read", {"uri": "moonpool://{id}/f.txt"})
            yield Use("file", "POST", path, VERSION, body, place, never)
    yield Use("stream", "POST", "/message?sessionId={id}", {}, listed, owned.stream, other(owned.stream))
    yield from stored_uses()
    for path, method, name in paths(service.service.routes):
        for place in re.findall(r"{(\w+)}", path) if path.startswith("/v1") else ():
            real = owned.in_paths[place]
            rest = {**owned.in_paths, place: "{id}"}
            asked = path.format_map(rest) + QUERIES.get(name, "")
            yield Use(f"{place} of {name}", method, asked, {}, BODIES.get(name, {}), real, other(real))
    for client, server in ((CLIENT, "{id}"), ("{id}", "issues")):
        real, pair = (CLIENT, "issues")[client == CLIENT], {"client": client, "server": server}
        for path in ("/v1/consents", "/v1/consents/withdraw"):
            yield Use("consent", "POST", path, {}, pair, real, other(real))
    code = {"code": "import os; print(os.listdir())", "thread_id": "{id}"}  # the last: it makes a thread of its caller
    yield Use("id", "POST", "/v1/sandbox/execute", {}, code, THREAD, other(THREAD))


def stored_uses() -> Iterator[Use]:
    """Handles of stored files and of configurations in bodies."""
    file = {"path": "f.txt"}
    for source, name in (("thread", THREAD), ("volume", "archive")):
        for path, more in (("list", {}), ("download_url", file), ("delete", file)):
            body = {"source": source, "id": "{id}", **more}
            yield Use("id", "POST", f"/v1/files/{path}", {}, body, name, other(name))
    body = {"source": "volume", "id": "{id}", **file, "content_length": 1}
    yield Use("slug", "POST", "/v1/files/upload_url", {}, body, "archive", other("archive"))
    yield Use("sandbox", "POST", "/v1/admin/keys", {}, {"sandbox": "{id}"}, "closed", other("closed"))


async def answered(service: OpenService, use: Use, handle: str, credential: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and body, with the handle taken out."""

    def filled(text: str) -> str:
        return text.replace("{id}", handle)

    headers = {**JSON_TYPE, **{name: filled(value) for name, value in use.headers.items()}}
    content = filled(json.dumps(use.body)) if use.body is not None else None
    sent = service.http.build_request(
        use.method, filled(use.path), content=content, headers={**headers, "authorization": f"Bearer {credential}"}
    )
    answer: httpx2.Response = await service.http.send(sent)
    left = {name: value for name, value in answer.headers.items() if name not in CHANGING}
    return answer.status_code, left, _FACTS.sub("", answer.text.replace(handle, "ID"))


@pytest.mark.claim("C-TEN-1", "C-TEN-2")
@pytest.mark.req("B-025", "B-059", "C-025", "C-028", "C-040", "F-007", "F-008", "F-009")
async def test_a_foreign_handle_answers_like_one_that_never_was(
    service: OpenService, owned: Owned, data: tuple[Path, ServiceData]
) -> None:
    tried: set[str] = set()
    with anyio.fail_after(120):
        for credential in FOREIGN:
            for use in uses(service, owned):
                assert len(use.real) == len(use.unknown), use.what
                found = await answered(service, use, use.real, credential)
                never = await answered(service, use, use.unknown, credential)
                assert found == never, (credential, use)
                assert "secret" not in found[2]
                tried.add(use.what.partition(" ")[0])
            for kind in ("sessions", "approvals", "servers", "consents"):
                listed = await service.http.get(f"/v1/{kind}", headers={"authorization": f"Bearer {credential}"})
                assert listed.status_code == 403 or listed.json() == {kind: []}, (credential, kind)
    assert tried == {"session", "stream", "execution", "plan", "kernel", "file", "consent", *IN_PATHS}
    for kind, whose in (("servers", "a"), ("consents", "alice")):  # nothing of them was touched
        listed = await service.http.get(f"/v1/{kind}", headers={"authorization": f"Bearer {whose}"})
        assert len(listed.json()[kind]) == 1, kind
    assert [one.principal for one in await data[1].consents.all()] == [ALICE]
    for use in uses(service, owned):  # and to their owner they are something else
        if use.what in {"file", "execution", "kernel"}:
            status, _, text = await answered(service, use, use.real, "a")
            assert (status, "unknown" in text or "no resource" in text or "NameError" in text) == (200, False), use


async def test_every_route_and_every_argument_has_been_looked_at(service: OpenService) -> None:
    known: set[str] = set()
    for path, method, _ in paths(service.service.routes):
        route = f"{method} {path}".strip()
        places = set(re.findall(r"{(\w+)}", path)) - {"profile"}
        assert places <= IN_PATHS, f"{route} takes a handle that test_handles does not know"
        if not places:
            known.add(route)
    assert known == WITHOUT | IN_HEADERS | IN_QUERIES | IN_BODIES
    # of the last: test_url_tokens
    assert [route.path for route in service.service.public] == ["/v1/openapi.json", "/v1/blobs/{token}"]
    tools = (await service.post(request("tools/list"), authorization="Bearer a")).json()["result"]["tools"]
    taken = {(tool["name"], name) for tool in tools for name in tool["inputSchema"]["properties"]}
    assert taken == ARGUMENTS | OTHER_ARGUMENTS
    # of the last two: test_baponi and test_codegen, "what is not the caller's is not there"
    assert set(served_profiles().by_name) == {"code", "direct", "ipybox", "baponi", "codegen"}


async def test_a_nul_character_in_an_address_is_refused_and_asks_no_database(service: OpenService) -> None:
    wrong: dict[str, int] = {}
    asked = [
        (method, re.sub(r"{\w+}", "%00", path)) for path, method, _ in paths(service.service.routes) if "{" in path
    ]
    asked += [("GET", f"/v1/executions?{query}") for query in ("thread_id=%00", "metadata.%00=1", "metadata.a=%00")]
    for method, path in asked:
        if path.startswith("/v1/"):
            answer = await service.http.request(method, path, json={}, headers={"authorization": "Bearer a"})
            if not 400 <= answer.status_code < 500:
                wrong[f"{method} {path}"] = answer.status_code
    body = {"sandbox": "a\0"}
    refused = await service.http.post("/v1/admin/keys", json=body, headers={"authorization": "Bearer a"})
    assert (wrong, refused.status_code) == ({}, 404)


@pytest.mark.claim("C-TEN-1")
@pytest.mark.req("C-022", "C-025")
async def test_a_tool_of_others_is_not_listed_and_answers_like_one_that_is_not_there(service: OpenService) -> None:
    async def direct(who: str, method: str, params: Any = None) -> Any:
        return (await service.post(request(method, params), path="/mcp/direct", authorization=f"Bearer {who}")).json()

    async def called(who: str, name: str) -> Any:
        return await direct(who, "tools/call", {"name": name, "arguments": {"word": "hi"}})

    with anyio.fail_after(60):
        for who in ("a", "neighbour"):
            assert (await direct(who, "tools/list"))["result"]["tools"] == []
            hidden, unknown = await called(who, "echo"), await called(who, "ecco")
            assert hidden["error"]["code"] == -32602
            assert json.dumps(hidden).replace("echo", "ecco") == json.dumps(unknown)
        if "elsewhere" in FOREIGN:
            assert "echo" in {tool["name"] for tool in (await direct("elsewhere", "tools/list"))["result"]["tools"]}
            assert "result" in await called("elsewhere", "echo")


@pytest.mark.claim("C-WEB-1", "C-WEB-2")
@pytest.mark.req("B-076", "E-004", "E-010", "F-017")
async def test_no_route_is_open_to_nobody_or_to_pages_of_others(service: OpenService) -> None:
    for path, method, _ in paths(service.service.routes):
        for verb in (method,) if method else ("GET", "POST", "PUT", "DELETE"):
            address = re.sub(r"{\w+}", "code", path)

            async def status(verb: str = verb, address: str = address, **headers: str) -> tuple[int, str]:
                answer = await service.http.request(verb, address, content=b"{broken", headers={**JSON_TYPE, **headers})
                return answer.status_code, answer.headers.get("www-authenticate", "")[:6]

            public = path == "/v1/openapi.json"
            assert await status() == ((200, "") if public else (401, "Bearer")), (verb, path)
            assert await status(authorization="Bearer a", origin="https://evil.example") == (403, ""), (verb, path)
            assert await status(authorization="Bearer a", host="evil.example") == (421, ""), (verb, path)


@pytest.mark.claim("C-APP-4")
async def test_a_client_is_not_asked_about_the_calls_of_its_own_code(service: OpenService) -> None:
    greeting = handshake("2025-11-25", elicitation={"form": {}})
    a = {"authorization": "Bearer a"}
    opened = await service.post(greeting, **a)
    session = {"mcp-session-id": opened.headers["mcp-session-id"], **a}
    headers = {**STREAMS, **session, "accept": "text/event-stream"}
    with anyio.fail_after(60):
        async with streaming(service, "POST", json=execute(ASKING, id=9), headers=headers) as (_, events):
            heard = [event["data"] async for event in events if event["data"]]
    assert [one.get("method") for one in heard] == [None]
    assert heard[0]["result"]["structuredContent"]["error"]["type"] == "approval_pending"
