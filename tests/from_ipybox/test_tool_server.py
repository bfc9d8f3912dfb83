"""`ToolServer`, `ToolRunner`, `ApprovalClient`, `ApprovalRequestor`, over real loopback; strangers, hostile bytes."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import moonpool
from apps import DATA, fixture_server
from from_ipybox.processes import processes_with
from moonpool.core.calls import ToolCallOutcome
from moonpool.ipybox import (
    ApprovalClient,
    ApprovalRejectedError,
    ApprovalRequest,
    ApprovalRequestor,
    ApprovalTimeoutError,
    CodeExecutionError,
    CodeExecutor,
    MCPClient,
    ToolRunner,
    ToolRunnerError,
    ToolServer,
    generate_mcp_sources,
)
from moonpool.ipybox.tool_exec.addresses import access_to
from moonpool.ipybox.tool_exec.client import reset
from moonpool.ipybox.tool_exec.host_tools import answer_of
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio
SERVER: dict[str, Any] = {key: value for key, value in fixture_server("echo.py").items() if key != "moonpool"}


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[ToolServer]:
    async with ToolServer(port=0, **options) as server:
        yield server


def runner_of(server: ToolServer) -> ToolRunner:
    return ToolRunner("echo", SERVER, port=server.port)


async def accept(request: ApprovalRequest) -> None:
    await request.accept()


async def test_the_last_description_of_a_server_counts(tmp_path: Path) -> None:
    async with served() as server:
        for number in ("1", "2"):
            given = {**SERVER, "env": {"GENERATION": number, "OF_THIS_TEST": str(tmp_path)}}
            runner = ToolRunner("described", given, port=server.port)
            assert (await runner.run("environment", {}))["GENERATION"] == number
            assert (await runner.run("environment", {}))["GENERATION"] == number
            assert len(await asyncio.to_thread(processes_with, str(tmp_path))) == 1  # the one before has ended


@pytest.mark.req("I-054", "I-055", "I-056", "I-057", "I-058", "I-059")
async def test_a_runner_calls_tools_through_a_server(tmp_path: Path) -> None:
    server = ToolServer(port=0)
    await server.stop()  # nothing runs
    with pytest.raises(ToolRunnerError, match="no tool server of yours runs at localhost:1"):
        await ToolRunner("echo", SERVER, port=1).run("text", {})
    await server.start()
    with pytest.raises(RuntimeError, match="already running"):
        await server.start()
    mark = str(tmp_path)
    runner = ToolRunner("echo", {**SERVER, "env": {"OF_THIS_TEST": mark}}, port=server.port)
    first = asyncio.gather(*(runner.run("text", {"text": str(number)}) for number in range(5)))
    assert await first == ["0", "1", "2", "3", "4"]
    assert await runner.run("length", {"text": "four"}) == {"length": 4}
    assert await runner.run("structured_empty", {}) == {}
    assert await runner.run("text", {}) is None
    assert len(str(await runner.run("big", {"n": 500_000}))) == 500_000
    assert runner.run_sync("text", {"text": "in this loop's own thread"}) == "in this loop's own thread"
    with pytest.raises(ToolRunnerError, match="it went wrong"):
        await runner.run("fail", {})
    with pytest.raises(ToolRunnerError, match="nowhere"):
        await runner.run("nowhere", {})
    with pytest.raises(ToolRunnerError, match="no server 'unknown' is known here"):
        await ToolRunner("unknown", {}, port=server.port).run("text", {})
    before = await asyncio.to_thread(processes_with, mark)
    await runner.reset()
    await reset(port=server.port)
    assert await runner.run("text", {"text": "again"}) == "again"
    after = await asyncio.to_thread(processes_with, mark)
    assert len(before) == len(after) == 1
    assert before != after
    ended = asyncio.ensure_future(server.join())
    waiting = asyncio.ensure_future(runner.run("sleep", {"seconds": 600}))
    await asyncio.sleep(0)
    with anyio.fail_after(30):
        await server.stop()
        await server.stop()
        await ended
        with pytest.raises(ToolRunnerError):
            await waiting
    assert not await asyncio.to_thread(processes_with, mark)
    assert not list((DATA / "private" / "ipybox" / "tool-servers").iterdir())


@pytest.mark.req("I-059")
@every_row(
    ("raw", "result"),
    [
        ({"structuredContent": {}, "content": [{"type": "text", "text": "{}"}]}, {}),
        ({"structuredContent": {"a": 1}, "content": [{"type": "text", "text": "other"}]}, {"a": 1}),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b\n"}]}, "a\nb\n"),
        ({"content": [{"type": "image", "data": ""}, {"type": "text", "text": "a"}]}, "a"),
        ({"content": [{"type": "image", "data": ""}]}, None),
        ({"content": []}, None),
        ({}, None),
    ],
)
def test_a_result_is_structured_content_else_the_texts_in_lines_else_none(raw: Any, result: Any) -> None:
    assert answer_of(ToolCallOutcome(raw=raw, data_from="content")) == {"result": result}


@pytest.mark.req("I-065")
async def test_a_question_and_its_answer_are_json_rpc_on_the_wire() -> None:
    async with served(approval_required=True) as server:
        address, access = access_to(server.host, server.port)
        headers = {"Authorization": f"Bearer {access.approval}"}
        async with connect(f"ws://{address.netloc}/approval", additional_headers=headers) as wire:
            for answer, expected in ((True, "a"), (False, ApprovalRejectedError)):
                calling = asyncio.ensure_future(runner_of(server).run("text", {"text": "a"}))
                with anyio.fail_after(30):
                    asked = json.loads(await wire.recv())
                    about = {"server_name": "echo", "tool_name": "text", "tool_args": {"text": "a"}}
                    assert asked == {"jsonrpc": "2.0", "method": "approve", "params": about, "id": asked["id"]}
                    await wire.send(json.dumps({"jsonrpc": "2.0", "result": answer, "id": asked["id"]}))
                    [came] = await asyncio.gather(calling, return_exceptions=True)
                assert (type(came) if isinstance(came, Exception) else came) == expected


@pytest.mark.req("I-063", "I-066", "I-067")
async def test_each_call_is_asked_about_and_answered_by_its_id() -> None:
    async with served(approval_required=True) as server:
        runner = runner_of(server)
        with pytest.raises(ApprovalRejectedError, match="not connected"):
            await runner.run("text", {"text": "a"})
        asked: list[ApprovalRequest] = []
        full = asyncio.Event()

        async def keep(request: ApprovalRequest) -> None:
            asked.append(request)
            if len(asked) == 10:
                full.set()

        async with ApprovalClient(keep, port=server.port):
            with pytest.raises(RuntimeError, match="is another one connected"):
                await ApprovalClient(accept, port=server.port).connect()
            calls = [asyncio.ensure_future(runner.run("text", {"text": str(number)})) for number in range(10)]
            with anyio.fail_after(60):
                await full.wait()
                for request in reversed(asked):  # out of order
                    assert (request.server_name, request.tool_name) == ("echo", "text")
                    await (request.accept() if int(request.tool_args["text"]) % 2 else request.reject())
                    await request.accept()  # too late
                answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) if isinstance(answer, Exception) else answer for answer in answers] == [
            str(number) if number % 2 else ApprovalRejectedError for number in range(10)
        ]


@pytest.mark.req("I-066")
async def test_a_callback_that_raises_or_blocks_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with served(approval_required=True) as server:
        runner = runner_of(server)

        async def fickle(request: ApprovalRequest) -> None:
            match request.tool_args["text"]:
                case "raise":
                    raise ValueError("a bug")
                case "block":
                    await asyncio.Event().wait()
                case _:
                    await request.accept()

        client = ApprovalClient(fickle, port=server.port)
        with anyio.fail_after(60):
            async with client:
                blocked = asyncio.ensure_future(runner.run("text", {"text": "block"}))
                with pytest.raises(ApprovalRejectedError):
                    await runner.run("text", {"text": "raise"})
                assert await runner.run("text", {"text": "fine"}) == "fine"
            with pytest.raises(ApprovalRejectedError, match="disconnected"):
                await blocked
            await client.disconnect()
    assert "the approval callback failed" in caplog.text


@pytest.mark.req("I-041")
async def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    async def nothing(_request: ApprovalRequest) -> None:
        pass

    async with (
        served(approval_required=True, approval_timeout=0.2) as server,
        ApprovalClient(nothing, port=server.port),
    ):
        with pytest.raises(ApprovalTimeoutError):
            await runner_of(server).run("text", {"text": "a"})
        with pytest.raises(ApprovalTimeoutError, match=r"echo\.text expired"):
            await ApprovalRequestor("echo", port=server.port).request("text", {})


async def test_a_requestor_asks_without_a_call() -> None:
    seen: list[str] = []

    async def decide(request: ApprovalRequest) -> None:
        seen.append(str(request))
        await (request.accept() if request.tool_name == "shell" else request.reject())

    async with served() as server:
        await ApprovalRequestor("any", port=server.port).request("shell", {"cmd": "ls"})  # none is required
    async with served(approval_required=True) as server:
        requestor = ApprovalRequestor("any", port=server.port)
        with pytest.raises(ToolRunnerError, match="not connected"):
            await requestor.request("shell", {})
        async with ApprovalClient(decide, port=server.port):
            await requestor.request("shell", {"cmd": "ls"})
            with pytest.raises(ApprovalRejectedError, match=r"any\.other rejected"):
                await asyncio.to_thread(requestor.request_sync, "other", {})
    assert seen == ["any.shell(cmd='ls')", "any.other()"]


async def test_an_answer_from_another_loop_is_heard_at_once() -> None:
    async def respond(_: bool) -> None:
        pass

    loop = asyncio.get_running_loop()
    loop.set_debug(True)  # then what only this thread may call says so
    asked = ApprovalRequest("git", "push", {}, respond)
    try:
        with anyio.fail_after(30):
            answer = asyncio.ensure_future(asked.response())
            await asyncio.sleep(0)
            await asyncio.to_thread(lambda: asyncio.run(asked.accept()))
            assert await answer
    finally:
        loop.set_debug(False)


async def test_what_is_shown_of_a_call_is_one_line_in_which_names_stay_names() -> None:
    async def respond(_: bool) -> None:
        pass

    given = {"x='ok')\n\x1b[2Jgit.push(y": 1, "path": "a\u202e"}
    assert str(ApprovalRequest("git", "status()\n", given, respond)) == (
        "git.\"status()\\n\"(\"x='ok')\\n\\u001b[2Jgit.push(y\"=1, path='a\\u202e')"
    )


@pytest.mark.req("X-06")
async def test_policy_holds_for_calls_of_the_application(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = project / "policy.toml"
    rules.write_text(
        'version = 1\n[[rule]]\nid = "a"\nserver = "echo"\ntool = "text"\nverdict = "human_only"\n'
        '[[rule]]\nid = "b"\nserver = "echo"\ntool = "fail"\nverdict = "deny"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("MOONPOOL_POLICY", str(rules))
    for required in (True, False):
        async with served(approval_required=required) as server, ApprovalClient(accept, port=server.port):
            with pytest.raises(ApprovalRejectedError, match="person"):
                await runner_of(server).run("text", {"text": "a"})
            with pytest.raises(ToolRunnerError, match="polic"):
                await runner_of(server).run("fail", {})


async def test_server_and_clients_may_live_in_different_loops_and_threads() -> None:
    started, done = threading.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        async with served(approval_required=True) as server:
            ports.append(server.port)
            started.set()
            await asyncio.to_thread(done.wait)

    async def approve() -> None:
        async with ApprovalClient(accept, port=ports[0]):
            approving.set()
            await asyncio.to_thread(done.wait)

    approving = threading.Event()
    threads = [threading.Thread(target=lambda: asyncio.run(serve()))]
    threads[0].start()
    try:
        assert await asyncio.to_thread(started.wait, 30)
        threads.append(threading.Thread(target=lambda: asyncio.run(approve())))
        threads[1].start()
        assert await asyncio.to_thread(approving.wait, 30)
        runner = ToolRunner("echo", SERVER, port=ports[0])
        assert await asyncio.to_thread(runner.run_sync, "text", {"text": "a"}) == "a"
        assert await runner.run("text", {"text": "b"}) == "b"
    finally:
        done.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)


async def test_a_server_is_known_by_the_packages_that_were_generated(project: Path) -> None:
    await generate_mcp_sources("generated_elsewhere", SERVER, project / "library")
    async with served() as server:
        runner = ToolRunner("generated_elsewhere", {}, port=server.port)
        assert await runner.run("text", {"text": "a"}) == "a"


@pytest.mark.req("I-019")
async def test_a_client_of_one_server() -> None:
    client = MCPClient(SERVER)
    with pytest.raises(RuntimeError, match="not started"):
        await client.list_tools()
    async with client:
        assert "text" in {tool.name for tool in await client.list_tools()}
        assert await client.run("text", {"text": "a"}) == "a"
        with pytest.raises(Exception, match="it went wrong"):
            await client.run("fail", {})
        assert (await client.session.list_tools()).tools == await client.list_tools()
        answer = await client.session.call_tool("length", {"text": "four"})
        assert (answer.structured_content, answer.is_error) == ({"length": 4}, False)
        failed = await client.session.call_tool("fail")
        assert (failed.is_error, "it went wrong" in str(failed.content)) == (True, True)
    with pytest.raises(RuntimeError, match="not started"):
        _ = client.session
    with pytest.raises(moonpool.ConfigError, match="nowhere"):
        await MCPClient({"command": "/nowhere/at/all"}).start()


@pytest.mark.claim("C-APP-3")
async def test_it_listens_on_loopback_only() -> None:
    for host in ("0.0.0.0", "example.com", "10.0.0.1"):  # noqa: S104  which it refuses
        with pytest.raises(moonpool.ConfigError):
            await ToolServer(host=host, port=0).start()


# --- strangers

_CALL = {"server_name": "echo", "tool_name": "text", "tool_args": {"text": "a"}}


async def test_texts_that_nobody_can_read_are_one_typed_error_or_arrive_as_they_are() -> None:
    nasty = "\x1b[2J\xa0\u202e\U000e0100"
    shown: list[str] = []

    async def look(request: ApprovalRequest) -> None:
        shown.append(str(request))
        await request.accept()

    async with served(approval_required=True) as server, ApprovalClient(look, port=server.port):
        runner = runner_of(server)
        assert await runner.run("echo", {nasty: nasty}) == {nasty: nasty}
        for arguments in ({"a": "\ud800"}, {"\ud800": 1}, {"a": float("nan")}, {"a": object()}):
            with pytest.raises(ToolRunnerError, match="cannot be written as JSON"):
                await runner.run("echo", arguments)
            with pytest.raises(ToolRunnerError, match="cannot be written as JSON"):
                await asyncio.to_thread(runner.run_sync, "echo", arguments)
        access = (await asyncio.to_thread(access_to, "localhost", server.port))[1]
        headers = {"Authorization": f"Bearer {access.call}"}
        half = rb'{"server_name": "echo", "tool_name": "echo", "tool_args": {"a": "\ud800"}}'
        async with httpx2.AsyncClient(trust_env=False, headers=headers) as client:
            for path in ("run", "approve"):
                answer = await client.post(f"http://localhost:{server.port}/{path}", content=half)
                assert "surrogate" in answer.json()["error"]
        assert await runner.run("text", {"text": "fine"}) == "fine"
    name = r'"\u001b[2J\xa0\u202e\U000e0100"'  # in quotes, as words that are more than a name
    assert shown == [rf"echo.echo({name}='\x1b[2J\xa0\u202e\U000e0100')", "echo.text(text='fine')"]


@pytest.mark.claim("C-APP-3")
@pytest.mark.req("F-017")
async def test_strangers_get_no_call_through() -> None:
    async with served(approval_required=True) as server:
        address, access = access_to(server.host, server.port)
        url, own = f"http://{address.netloc}", {"Authorization": f"Bearer {access.call}"}
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            assert (await client.get("/status")).json() == {"status": "ok"}
            for what, headers, status in (
                ("no token", {}, 401),
                ("another's", {"Authorization": "Bearer " + "x" * 43}, 401),
                ("the token of approvals", {"Authorization": f"Bearer {access.approval}"}, 401),
                ("another name", {**own, "Host": f"attacker.example:{server.port}"}, 421),
                ("no port", {**own, "Host": "127.0.0.1"}, 421),
                ("a page", {**own, "Origin": "http://attacker.example"}, 403),
                ("a page here", {**own, "Origin": url}, 403),
            ):
                for method, path in (("POST", "/run"), ("POST", "/approve"), ("PUT", "/reset")):
                    answer = await client.request(method, path, json=_CALL, headers=headers)
                    assert answer.status_code == status, (what, path)
            for headers in ({"Host": "attacker.example"}, {"Origin": url}):
                assert (await client.get("/status", headers=headers)).status_code in {403, 421}
            for content, status in (
                (b"", 400),
                (b"\xff\xfe", 400),
                (b"[" * 100_000, 400),
                (b"[]", 400),
                (b'{"server_name": NaN}', 400),
                (b"{}", 422),
                (json.dumps({**_CALL, "tool_args": []}).encode(), 422),
                (json.dumps({**_CALL, "server_name": "x" * 5000}).encode(), 422),
                (b" " * (16 * 1024 * 1024 + 1), 413),
            ):
                assert (await client.post("/run", content=content, headers=own)).status_code == status, content[:40]
            assert (await client.get("/nothing", headers=own)).status_code == 404
            assert (await client.get("/run", headers=own)).status_code == 405
        for token, path in ((access.call, "/approval"), ("", "/approval"), (access.approval, "/other")):
            with pytest.raises(InvalidStatus):
                await connect(f"ws://{address.netloc}{path}", additional_headers={"Authorization": f"Bearer {token}"})
        allowed = {"Authorization": f"Bearer {access.approval}"}
        with pytest.raises(InvalidStatus):
            await connect(f"ws://{address.netloc}/approval", additional_headers=allowed, origin="http://a.example")  # pyright: ignore[reportArgumentType]
        for told in ("no JSON", "[" * 50_000, "{}", '{"id": 1, "result": "yes"}', b"\x00\xff", "x" * 100_000):
            async with connect(f"ws://{address.netloc}/approval", additional_headers=allowed) as hostile:
                await hostile.send(told)
                with anyio.fail_after(20), pytest.raises(ConnectionClosed):
                    await hostile.recv()
        await garbage(address.host, address.port)
        async with ApprovalClient(accept, port=server.port):
            assert await runner_of(server).run("text", {"text": "still there"}) == "still there"


async def garbage(host: str, port: int) -> None:
    for sent in (
        b"\x16\x03\x01" + b"\x00" * 500,
        b"GET " + b"x" * 20_000,
        b"POST /run HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection(host, port)
        with anyio.fail_after(20), suppress(ConnectionError):
            writer.write(sent)
            await writer.drain()
            assert not (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


@pytest.mark.claim("C-APP-3")
async def test_code_in_a_sandbox_reaches_no_tool_server() -> None:
    async with served() as server, CodeExecutor() as executor:
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {server.port}), timeout=5)"
        with pytest.raises(CodeExecutionError, match="OSError"):
            await executor.execute(code)
        code = f"from moonpool.ipybox import ToolRunner\nToolRunner('echo', {{}}, port={server.port})"
        with pytest.raises(CodeExecutionError, match="ModuleNotFoundError"):
            await executor.execute(code)


@pytest.mark.req("I-060", "X-27")
@pytest.mark.claim("C-APP-3")
async def test_parameters_in_a_request_are_not_read(project: Path) -> None:
    made = project / "made"
    async with served() as server:
        address, access = access_to(server.host, server.port)
        runner_of(server)  # which describes the server `echo` to this process
        url, headers = f"http://{address.netloc}/run", {"Authorization": f"Bearer {access.call}"}
        params = {"command": "touch", "args": [str(made)]}
        answers: list[Any] = []
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            for name, tool in (("echo", "text"), ("echo", "fail"), ("hostile", "text")):
                body = {**_CALL, "server_name": name, "tool_name": tool, "server_params": params}
                answer = await client.post(url, json=body, headers=headers)
                assert answer.status_code == 200
                answers.append(answer.json())
    assert answers[:2] == [{"result": "a"}, {"error": "a"}]
    assert "no server 'hostile' is known here" in answers[2]["error"]
    assert not made.exists()


async def test_a_caller_that_goes_away_withdraws_its_question() -> None:
    decided = asyncio.Event()
    asked: list[ApprovalRequest] = []

    async def keep(request: ApprovalRequest) -> None:
        asked.append(request)
        decided.set()

    async with served(approval_required=True) as server, ApprovalClient(keep, port=server.port):
        calling = asyncio.ensure_future(runner_of(server).run("text", {"text": "a"}))
        with anyio.fail_after(30):
            await decided.wait()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await asked[0].accept()  # of nothing


async def test_a_call_is_on_record_as_an_execution_without_code() -> None:
    async with served() as server:
        with pytest.raises(ToolRunnerError):
            await runner_of(server).run("fail", {})
    rows = [row.to_json() for row in await asyncio.to_thread(lambda: list(read_rows(journal_path(DATA))))]
    start, *calls, end = [row for row in rows if row["run_id"] == rows[-1]["run_id"]]
    assert (start["kind"], end["kind"]) == ("execution_start", "execution_end")
    assert end["error_type"] == "ToolError"
    assert [row["kind"] for row in calls][-1:] == ["call_outcome"]
