"""The profile `baponi`, byte by byte where its page says so: what is answered to whom, and what is refused how."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.features.sandbox_configurations.model import BUILT_IN, VolumeMount
from moonpool.features.storage.model import TreeFullError, TreeLostError, TreeName
from moonpool.server.http import stateless_mcp
from server.profile_fakes import CANARY, WITH_STORAGE, FakeServices, Ran, printed, serving_profiles
from server.services import JSON_TYPE, MODERN, MODERN_META, caller, handshake, notification, request
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from server.services import OpenService

pytestmark = pytest.mark.anyio
GOLDENS = Path(__file__).parent.parent / "goldens" / "baponi"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)
DEMO = TreeName(kind="thread", name="demo")
MIB = 1024**2


def golden(name: str) -> Any:
    return json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))


def same(told: Any, expected: Any) -> bool:
    """Equal as data, and in the same order."""
    return json.dumps(told) == json.dumps(expected)


@pytest.fixture
def services() -> FakeServices:
    return FakeServices()


@pytest.fixture
async def service(services: FakeServices) -> AsyncGenerator[OpenService]:
    async with serving_profiles(services, profile="baponi") as one:
        yield one


def run(code: str = "1", id: Any = 3, **more: Any) -> dict[str, Any]:  # noqa: A002
    return request("tools/call", {"name": "sandbox_execute", "arguments": {"code": code, **more}}, id)


def fetch(path: str, source: str = "thread", tree: str = "demo") -> dict[str, Any]:
    return request(
        "tools/call", {"name": "files_download", "arguments": {"source": source, "id": tree, "path": path}}, 4
    )


async def told(service: OpenService, message: Any, **headers: str) -> Any:
    answer = await service.post(message, **headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def text_of(service: OpenService, message: Any) -> tuple[bool, str]:
    result = (await told(service, message))["result"]
    (item,) = result["content"]
    assert (set(result), set(item), item["type"]) == ({"content", "isError"}, {"type", "text"}, "text")
    return result["isError"], item["text"]


async def code_of(service: OpenService, message: Any) -> int:
    return (await service.post(message)).json()["error"]["code"]


# --- transport and handshake


@pytest.mark.req("J-001", "J-002", "J-004", "J-008", "J-009", "X-08", "C-002")
async def test_the_handshake_is_the_page_s_whatever_came_before(service: OpenService) -> None:
    first = await service.post(run("print(1)"))  # no handshake yet
    answers = [await service.post(handshake()) for _ in range(2)]
    assert first.json()["result"]["isError"] is False
    assert same(answers[0].json(), golden("initialize"))
    assert answers[0].content == answers[1].content
    assert all("mcp-session-id" not in answer.headers for answer in (first, *answers))


@pytest.mark.req("J-002", "A-035", "A-036")
@pytest.mark.parametrize(
    ("asked", "given"),
    [(one, one) for one in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")]
    + [("2031-01-01", "2025-11-25"), (None, "2025-11-25"), (["2025-06-18"], "2025-11-25")],
)
async def test_known_revisions_are_echoed(service: OpenService, asked: Any, given: str) -> None:
    greeting = (await told(service, request("initialize", {"protocolVersion": asked})))["result"]
    assert same(greeting, {**golden("initialize")["result"], "protocolVersion": given})


@pytest.mark.req("J-003", "X-01")
async def test_a_session_id_is_neither_given_nor_read(service: OpenService) -> None:
    for session in ("", "any", "x" * 500):
        assert (await told(service, request("ping"), mcp_session_id=session)) == {
            "jsonrpc": "2.0", "id": 1, "result": {},
        }  # fmt: skip
    (server,) = service.service.servers._servers.values()
    assert not server.sessions


@pytest.mark.req("J-005", "A-010")
async def test_notifications_are_taken_and_do_nothing(service: OpenService) -> None:
    for method in ("notifications/initialized", "notifications/cancelled", "notifications/none"):
        answer = await service.post(notification(method, {"requestId": 3}))
        assert (answer.status_code, answer.content) == (202, b"")
    assert (await text_of(service, run("hello")))[0] is False


@pytest.mark.req("J-006")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"accept": "application/json"}, 200),
        ({"accept": "application/json, text/event-stream"}, 200),
        ({"accept": "*/*"}, 200),
        ({"accept": "image/png"}, 406),
        ({"content-type": "text/plain"}, 415),
        ({"mcp-protocol-version": "2025-11-25"}, 200),
        ({"mcp-protocol-version": "2025-06-18"}, 200),
        ({"mcp-protocol-version": "1999-01-01"}, 400),
        ({"mcp-protocol-version": MODERN}, 400),
    ],
)
async def test_headers_are_optional_and_checked(service: OpenService, headers: dict[str, str], status: int) -> None:
    content = json.dumps(request("ping"))
    request_of = service.http.build_request("POST", "/mcp", content=content, headers={**JSON_TYPE, **headers})
    if "accept" not in headers:
        del request_of.headers["accept"]
    answer = await service.http.send(request_of)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.req("J-006", "J-001")
async def test_a_client_that_takes_streams_only_gets_one_event(service: OpenService) -> None:
    answer = await service.post(request("ping"), accept="text/event-stream")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content == b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'


@pytest.mark.req("J-001", "J-010", "B-065")
async def test_the_stream_of_a_get_says_nothing(service: OpenService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateless_mcp, "KEEP_ALIVE_S", 0.01)
    monkeypatch.setattr(stateless_mcp, "SSE_CONNECTIONS_MAX", 1)
    with anyio.fail_after(60):
        async with service.http.stream("GET", "/mcp", headers={"accept": "text/event-stream"}) as stream:
            assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            lines = stream.aiter_lines()
            heard = [await anext(lines) for _ in range(6)]
            assert (await service.http.get("/mcp", headers={"accept": "text/event-stream"})).status_code == 503
        assert heard == [": keep-alive", ""] * 3
        (server,) = service.service.servers._servers.values()
        await until(lambda: not server.quiet_streams)
        async with service.http.stream("GET", "/mcp", headers={"accept": "text/event-stream"}) as stream:
            server.end_listening()  # as at the end of the service
            assert all(line in {": keep-alive", ""} for line in [line async for line in stream.aiter_lines()])
    assert (await service.http.get("/mcp", headers={"accept": "application/json"})).status_code == 406


@pytest.mark.req("J-001", "J-003")
async def test_there_is_nothing_but_post_and_get(service: OpenService) -> None:
    for method in ("DELETE", "PUT", "PATCH"):
        answer = await service.http.request(method, "/mcp")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST, GET")


@pytest.mark.req("J-001")
async def test_a_key_of_the_profile_has_no_sse(services: FakeServices) -> None:
    callers = {"bound": caller("bound", profile="baponi"), "free": caller("free")}
    async with serving_profiles(services, callers) as service:
        bound, free = ({"authorization": f"Bearer {name}"} for name in callers)
        sse = await service.http.get("/sse", headers={**bound, "accept": "text/event-stream"})
        message = await service.post(request("ping"), path="/message?sessionId=x", **bound)
        assert (sse.status_code, message.status_code) == (404, 404)
        assert (await service.post(request("ping"), path="/mcp/codegen", **bound)).status_code == 404
        assert (await told(service, handshake(), **bound)) == golden("initialize")
        by_path = await service.post(handshake(), path="/mcp/baponi", **free)
        assert by_path.json() == golden("initialize")


@pytest.mark.req("J-004")
async def test_a_client_of_a_later_revision_hears_that_there_is_no_discovery(service: OpenService) -> None:
    asked = request("server/discover", {"_meta": MODERN_META})
    found = await told(service, asked, mcp_protocol_version=MODERN, mcp_method="server/discover")
    other = await service.post(request("tools/list", {"_meta": MODERN_META}), mcp_protocol_version=MODERN)
    assert found["error"] == {"code": -32601, "message": "Method not found: server/discover"}
    assert (other.status_code, other.json()["error"]["code"]) == (400, -32022)
    assert other.json()["error"]["data"]["supported"][0] == "2025-11-25"


# --- tools


@pytest.mark.req("J-011", "J-012", "J-013", "J-014", "J-007", "C-043")
async def test_the_tools_are_the_page_s_and_depend_on_the_key(services: FakeServices) -> None:
    whole = golden("tools_list")
    execute, download = whole["result"]["tools"]
    volume = replace(BUILT_IN, volumes=(VolumeMount(slug="data"),))
    services.configurations = {"key:bare": BUILT_IN, "key:volume": volume, "key:stored": WITH_STORAGE}
    callers = {name: caller(name, profile="baponi") for name in ("bare", "volume", "stored")}
    async with serving_profiles(services, callers) as service:

        async def listed(name: str) -> Any:
            return await told(service, request("tools/list", id=2), authorization=f"Bearer {name}")

        assert same(await listed("stored"), whole)
        assert same(await listed("volume"), whole)
        assert same((await listed("bare"))["result"]["tools"], [execute])
        services.tools_off = frozenset({"sandbox_execute"})
        assert same((await listed("stored"))["result"]["tools"], [download])
        services.tools_off, services.executes = frozenset(), False
        assert same((await listed("stored"))["result"]["tools"], [download])
        assert (await listed("bare"))["result"] == {"tools": []}


@pytest.mark.req("J-015", "J-014", "J-010")
async def test_a_tool_that_is_hidden_is_an_unknown_one(service: OpenService, services: FakeServices) -> None:
    def call(name: str) -> dict[str, Any]:
        return request("tools/call", {"name": name, "arguments": {"code": "1"}})

    assert (await told(service, call("sandbox_execute")))["result"]["isError"] is False
    services.tools_off = frozenset({"sandbox_execute"})
    services.configurations = {"local:me": BUILT_IN}
    for name in ("sandbox_execute", "files_download", "nope"):
        answer = await told(service, call(name))
        assert answer["error"] == {"code": -32602, "message": f"Unknown tool: {name}"}
    assert len(services.runs.begun) == 1


@pytest.mark.req("J-027", "J-028", "J-029")
async def test_results_read_as_the_page_shows_them(service: OpenService, services: FakeServices) -> None:
    lines = [  # the page has lost the indentation of Python's own traceback
        "Traceback (most recent call last):", '  File "<stdin>", line 1, in <module>',
        "NameError: name 'undefined_var' is not defined",
    ]  # fmt: skip
    services.runs.table = {
        "version": printed("Python 3.14.0a1 (main, Oct 15 2025, 08:00:00)\n"),
        "undefined_var": printed(stderr="\n".join([*lines, ""]), exit_code=1),
    }
    assert same(await told(service, run("version")), golden("execute_success"))
    assert same(await told(service, run("undefined_var")), golden("execute_error"))


HEAD = "## Execution Result"


@pytest.mark.req("J-027", "J-028", "J-021")
@pytest.mark.parametrize(
    ("ran", "text"),
    [
        (printed(), f"{HEAD}\n\n**Exit code:** 0"),
        (
            printed("out", "err\n", 2),
            f"{HEAD}\n\n**stdout:**\n```\nout\n```\n\n**stderr:**\n```\nerr\n```\n\n**Exit code:** 2",
        ),
        (printed("a\n\n"), f"{HEAD}\n\n**stdout:**\n```\na\n\n```\n\n**Exit code:** 0"),
        (printed("a ``` b\n"), f"{HEAD}\n\n**stdout:**\n````\na ``` b\n````\n\n**Exit code:** 0"),
        (printed("`````"), f"{HEAD}\n\n**stdout:**\n``````\n`````\n``````\n\n**Exit code:** 0"),
        (
            printed("some\n", "", 124, error="timeout"),
            f"{HEAD}\n\n**stdout:**\n```\nsome\n```\n\n**Exit code:** 124\n\n**Error:** timeout",
        ),
        (
            printed("x\n", output_truncated=True, remark="a.bin was too large for the sandbox"),
            f"{HEAD}\n\n**stdout:**\n```\nx\n```\n\n**Exit code:** 0\n\n**Output truncated:** not all that the code "
            "printed is shown\n\n**Files:** a.bin was too large for the sandbox",
        ),
    ],
)
async def test_parts_of_a_result(service: OpenService, services: FakeServices, ran: Ran, text: str) -> None:
    services.runs.table = {"code": ran}
    assert await text_of(service, run("code")) == (not ran.result.success, text)


@pytest.mark.req("J-017", "J-024", "J-026")
async def test_what_a_client_sends_is_ordered(service: OpenService, services: FakeServices) -> None:
    await text_of(service, run("a"))
    everything = {"language": "node", "timeout": 7.0, "thread_id": "t-1", "metadata": {"n": 1}, "env_vars": {"A": "b"}}
    await text_of(service, run("b", unknown_argument=True, **everything))
    (_, bare, _), (owner, full, _) = services.runs.begun
    assert (bare.language, bare.timeout_s, bare.thread_id, bare.variables) == (None, None, None, {})
    assert (full.language, full.timeout_s, full.thread_id) == ("node", 7, "t-1")
    assert (full.metadata, full.variables, full.delivery_mode) == ({"n": 1}, {"A": "b"}, "inline")
    assert (owner.principal, owner.configuration) == ("local:me", WITH_STORAGE)


@pytest.mark.req("X-02", "J-020", "J-023", "J-025", "J-037", "J-018", "X-13")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "code"),
        ({"code": 5}, "code"),
        ({"code": ""}, "code must be between 1 byte and 1 MB"),
        ({"code": "é" * (MIB // 2) + "x"}, "code must be between 1 byte and 1 MB"),
        ({"code": "\ud800"}, "UTF-8"),
        ({"code": "1", "language": "ruby"}, "ruby"),
        ({"code": "1", "language": None}, "language"),
        ({"code": "1", "timeout": 0}, "timeout"),
        ({"code": "1", "timeout": 3601}, "timeout"),
        ({"code": "1", "timeout": 1.5}, "timeout"),
        ({"code": "1", "timeout": "5"}, "timeout"),
        ({"code": "1", "timeout": 61}, "60"),  # above what the key's configuration allows
        ({"code": "1", "thread_id": 5}, "thread_id"),
        ({"code": "1", "thread_id": "../../x"}, "thread_id"),
        ({"code": "1", "thread_id": "x" * 10_000}, "thread_id"),
        ({"code": "1", "metadata": []}, "metadata"),
        ({"code": "1", "env_vars": {"A": 1}}, "env_vars"),
        ({"code": "1", "env_vars": {"a": "1"}}, "uppercase"),
    ],
)
async def test_arguments_that_do_not_fit_are_the_request_s_fault(
    service: OpenService, services: FakeServices, arguments: dict[str, Any], named: str
) -> None:
    services.configurations = {"local:me": replace(WITH_STORAGE, timeout_s_max=60)}
    call = request("tools/call", {"name": "sandbox_execute", "arguments": arguments}, 3)
    content = json.dumps(call, ensure_ascii=named == "UTF-8").encode()  # where UTF-8 has no bytes for it
    answer = await service.http.post("/mcp", content=content, headers=JSON_TYPE)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (200, -32602)
    assert named in error["message"]
    assert services.runs.begun == []


@pytest.mark.req("X-02", "J-037")
@pytest.mark.parametrize(
    "params", [None, {}, {"name": 5}, {"name": "sandbox_execute", "arguments": []}, {"name": "files_download"}, []]
)
async def test_what_is_no_call_is_refused(service: OpenService, params: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert await code_of(service, message) == -32602


@pytest.mark.req("J-018", "J-019", "X-13")
async def test_code_of_one_mib_fits_and_bodies_above_two_do_not(service: OpenService) -> None:
    whole = "\\" * MIB  # which JSON writes with twice as many
    fits = json.dumps(run("x" * MIB)).encode()
    assert len(json.dumps(run(whole))) > 2 * MIB
    assert (await service.http.post("/mcp", content=fits, headers=JSON_TYPE)).json()["result"]["isError"] is False
    over = await service.post(run(whole))
    assert (over.status_code, over.json()["error"]["code"]) == (413, -32600)


@pytest.mark.req("J-037", "A-017", "J-008")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc":"2.0","id":3}', -32600),
        (b'{"id":3,"method":"tools/list"}', -32600),
        (b'{"method":"tools/list"}', -32600),
        (b'[{"jsonrpc":"2.0","id":3,"method":"ping"}]', -32600),
        (b"[]", -32600),
        (b'"ping"', -32600),
        (b'{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"x"}}', -32602),
        *(
            (json.dumps(request(method, id=3)).encode(), -32601)
            for method in ("resources/list", "prompts/list", "logging/setLevel", "completion/complete", "no/such")
        ),
    ],
)
async def test_codes_of_requests_that_cannot_be_answered(service: OpenService, body: bytes, code: int) -> None:
    answer = await service.http.post("/mcp", content=body, headers=JSON_TYPE)
    assert answer.json()["error"]["code"] == code
    assert answer.status_code == (400 if code in {-32700, -32600} else 200)


@pytest.mark.req("J-037")
async def test_an_unknown_method_is_named(service: OpenService) -> None:
    assert same(await told(service, request("tools/unknown", id=3)), golden("method_not_found"))


@pytest.mark.req("J-037", "J-029", "X-21")
async def test_faults_are_errors_and_what_a_model_can_mend_is_a_result(
    service: OpenService, services: FakeServices, caplog: pytest.LogCaptureFixture
) -> None:
    services.runs.busy_threads = {"demo"}
    is_error, text = await text_of(service, run("1", thread_id="demo"))
    assert (is_error, "demo is in use" in text) == (True, True)
    services.runs.fault = TreeFullError("the thread holds as much as it may")
    assert await text_of(service, run()) == (True, "the thread holds as much as it may")
    services.runs.fault = TreeLostError("the thread was taken away")
    assert (await told(service, run()))["error"] == {"code": -32603, "message": "the thread was taken away"}
    services.runs.fault = RuntimeError("a bug at /srv/secret")
    bug = (await told(service, run()))["error"]
    assert (bug["code"], "secret" in bug["message"], "secret" in caplog.text) == (-32603, False, True)


@pytest.mark.req("J-029", "J-005")
async def test_a_broken_connection_cancels_what_it_waits_for(service: OpenService, services: FakeServices) -> None:
    services.runs.hanging = {"wait"}
    with anyio.fail_after(60):
        async with anyio.create_task_group() as clients:
            clients.start_soon(service.post, run("wait"))
            await until(lambda: services.runs.begun)
            clients.cancel_scope.cancel()
        (_, _, begun) = services.runs.begun[0]
        await begun.cancelled.wait()
        (server,) = service.service.servers._servers.values()
        await until(lambda: server.is_idle)


@pytest.mark.req("J-029")
async def test_what_runs_ends_with_the_service(services: FakeServices) -> None:
    services.runs.hanging = {"wait"}
    answers: list[Any] = []
    with anyio.fail_after(60):
        async with serving_profiles(services, profile="baponi") as service, anyio.create_task_group() as clients:

            async def call() -> None:
                answers.append(await text_of(service, run("wait")))

            clients.start_soon(call)
            await until(lambda: services.runs.begun)
            service.service.servers.end_caller("default", "local:me")  # its key was revoked
            await until(lambda: answers)
    assert answers == [(True, f"{HEAD}\n\n**Exit code:** -1\n\n**Error:** cancelled")]


# --- files


@pytest.mark.req("J-030", "J-031", "J-041")
async def test_text_is_returned_as_it_is(service: OpenService, services: FakeServices) -> None:
    texts = {
        f"out/file.{one}": f"of {one}\r\né".encode()
        for one in ["txt", "json", "csv", "py", "md", "html", "svg", "yaml", "xml", "sh", "js"]
    }
    texts |= {"bom.csv": b"\xef\xbb\xbfa,b", "no-extension": "ü".encode(), "odd.name": b"", "fake.png": b"only text"}
    for path, content in texts.items():
        services.trees.put(DEMO, path, content)
    for path, content in texts.items():
        assert await text_of(service, fetch(path)) == (False, content.decode())
    assert await text_of(service, fetch("./out//file.txt")) == (False, texts["out/file.txt"].decode())
    services.trees.put(DEMO, "latin.csv", b"caf\xe9")
    assert await text_of(service, fetch("latin.csv")) == (False, "caf\N{REPLACEMENT CHARACTER}")


@pytest.mark.req("J-031")
async def test_the_page_s_text_file(service: OpenService, services: FakeServices) -> None:
    tree = TreeName(kind="thread", name="analysis-session-42")
    services.trees.put(tree, "data.json", b'{"results": [1, 2, 3]}')
    assert same(await told(service, fetch("data.json", tree="analysis-session-42")), golden("download_text"))


@pytest.mark.req("J-032")
async def test_pictures_are_pictures_by_what_they_are(service: OpenService, services: FakeServices) -> None:
    expected = golden("download_image")
    for path, content, mime in (
        ("chart.png", PNG, "image/png"), ("chart.PNG", PNG, "image/png"), ("a.gif", GIF, "image/gif"),
        ("named.jpeg", PNG, "image/png"), ("named.webp", GIF, "image/gif"),
    ):  # fmt: skip
        services.trees.put(DEMO, path, content)
        answer = await told(service, fetch(path))
        (item,) = answer["result"]["content"]
        assert base64.b64decode(item["data"]) == content
        item["data"] = expected["result"]["content"][0]["data"]
        assert same(answer, json.loads(json.dumps(expected).replace("image/png", mime)))


@pytest.mark.req("J-033", "J-034")
async def test_what_is_too_large_or_binary_is_for_the_rest_api(service: OpenService, services: FakeServices) -> None:
    binaries = {"a.zip": b"PK\x03\x04", "a.pdf": b"%PDF-1.4 only text", "nul.txt": b"a\0b", "x": b"\xff\xfe\xfd"}
    binaries["broken.png"] = PNG[:40]
    for path, content in {**binaries, "large.txt": b"x" * (MIB + 1), "whole.txt": b"x" * MIB}.items():
        services.trees.put(DEMO, path, content)
    for path in (*binaries, "large.txt"):
        is_error, text = await text_of(service, fetch(path))
        assert is_error
        assert f'POST /v1/files/download_url with {{"source": "thread", "id": "demo", "path": "{path}"}}' in text
    assert await text_of(service, fetch("whole.txt")) == (False, "x" * MIB)


@pytest.mark.req("J-035", "J-030", "J-036", "F-022")
async def test_what_is_not_the_caller_s_is_not_there(services: FakeServices) -> None:
    theirs, team = FakeServices(), TreeName(kind="volume", name="team")
    for trees in (services.trees, theirs.trees):
        trees.put(TreeName(kind="thread", name="secret", owner="user:bob"), "a.txt", b"of bob")
        trees.put(TreeName(kind="volume", name="other"), "a.txt", b"not mounted")
    services.trees.put(DEMO, "folder/a.txt", b"mine")
    services.trees.put(DEMO, "link.txt", b"", kind="link", target="/etc/passwd")
    services.trees.put(DEMO, "folder", b"", kind="folder")
    services.trees.put(team, "a.txt", b"of the organisation")
    theirs.trees.put(TreeName(kind="thread", name="theirs"), "a.txt", b"theirs")
    both = replace(WITH_STORAGE, volumes=(VolumeMount(slug="team"),))
    services.configurations = {"key:a": both, "key:files": replace(BUILT_IN, volumes=(VolumeMount(slug="team"),))}
    callers = {name: caller(name, profile="baponi") for name in ("a", "files")}
    callers["b"] = caller("b", "other", profile="baponi")

    async with serving_profiles({"default": services, "other": theirs}, callers) as service:

        async def by(name: str, *file: str) -> Any:
            return (await told(service, fetch(*file), authorization=f"Bearer {name}"))["result"]

        missing = await by("a", "missing.txt")
        assert missing["isError"] is True
        for file in (
            ("../demo/folder/a.txt",), ("/etc/passwd",), ("folder/../../x",), ("link.txt",), ("link.txt/x",),
            ("folder",), ("",), ("a\0b",), ("a.txt", "thread", "secret"), ("a.txt", "thread", "theirs"),
            ("a.txt", "volume", "other"), ("a.txt", "volume", "../team"), ("a.txt", "thread", "../../x"),
            ("a.txt", "thread", "x" * 10_000),
        ):  # fmt: skip
            assert await by("a", *file) == missing
        assert (await by("b", "folder/a.txt")) == missing
        assert (await by("files", "folder/a.txt")) == missing  # it has a volume and no threads
        assert (await by("a", "folder/a.txt"))["content"] == [{"type": "text", "text": "mine"}]
        for name in ("a", "files"):
            assert (await by(name, "a.txt", "volume", "team"))["content"][0]["text"] == "of the organisation"


@pytest.mark.req("J-035")
async def test_secrets_in_text_are_redacted(service: OpenService, services: FakeServices) -> None:
    services.trees.put(DEMO, "settings.env", f"DB_PASSWORD=hunter22\nvalue {CANARY}\n".encode())
    services.trees.put(DEMO, "long.txt", b"x" * 600_000 + f" {CANARY}".encode())
    _, text = await text_of(service, fetch("settings.env"))
    assert text == "DB_PASSWORD=[REDACTED:password]\nvalue [REDACTED:CANARY]\n"
    assert CANARY not in (await text_of(service, fetch("long.txt")))[1]


@pytest.mark.req("J-037", "J-035")
async def test_a_store_that_fails_is_a_fault(service: OpenService, services: FakeServices) -> None:
    services.trees.put(DEMO, "a.txt", b"a")
    services.trees.fault = TreeLostError("the store is gone")
    assert (await told(service, fetch("a.txt")))["error"]["code"] == -32603


@pytest.mark.req("J-046", "J-003")
async def test_any_process_answers_any_request(services: FakeServices) -> None:
    callers = {"a": caller("a", profile="baponi")}
    bearer = {"authorization": "Bearer a"}
    messages = [handshake(), request("tools/list"), run("a", thread_id="demo"), request("ping")]
    async with serving_profiles(services, callers) as first, serving_profiles(services, callers) as second:
        told_by = [[(await one.post(message, **bearer)).content for message in messages] for one in (first, second)]
    assert all(one == other for one, other in pairwise(told_by))
