"""The stdio face as a process: what is on the wire, whatever happens in and around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from apps import fixture_server
from commands.process import Command, run_command
from moonpool.server.mcp.progress import INTERVAL_S
from process_tree import alive, descendants_of, wait_gone
from server.raw_client import PATIENCE_S, SERVE, RawClient, environment
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

MIB = 1024 * 1024
BIG = {"MOONPOOL_RESULT_BYTES_MAX": str(20 * MIB), "MOONPOOL_CODE_BYTES_MAX": str(20 * MIB)}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faces") / "servers.json"
    servers = {"echo": fixture_server("echo.py"), "curious": fixture_server("curious.py", "legacy")}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shared(config: Path) -> Generator[RawClient]:
    with RawClient(config, **BIG) as client:
        client.handshake()
        yield client


@pytest.fixture
def client(shared: RawClient) -> Generator[RawClient]:
    """The shared process; a test must leave nothing unread."""
    shared.heard.clear()
    yield shared
    assert shared.call("ping")["result"] == {}
    assert shared.heard == []


def awaiting(path: Path) -> str:
    """Code that waits until there is a file on the host, which only its server can see."""
    return f"import servers.echo as e\nawait e.await_file(path={str(path)!r})"


@pytest.mark.req("B-012", "A-017", "A-001", "A-002", "A-003", "A-007", "A-011", "A-016", "A-029", "C-022", "C-069")
@pytest.mark.parametrize(
    ("line", "code", "answered_id"),
    [
        pytest.param(b"garbage", -32700, None, id="no JSON"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,', -32700, None, id="half a message"),
        pytest.param(
            '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"ä"}}'.encode("latin-1"),
            -32700,
            None,
            id="not UTF-8",
        ),
        pytest.param(b"[" * 100_000, -32700, None, id="nested too deeply"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700, None, id="NaN"),
        pytest.param(b"42", -32600, None, id="a number"),
        pytest.param(b"{}", -32600, None, id="an empty object"),
        pytest.param(b'{"jsonrpc":"2.0","id":7}', -32600, 7, id="neither method nor result"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None, id="id null"),
        pytest.param(b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600, None, id="id a float"),
        pytest.param(b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None, id="id a boolean"),
        pytest.param(b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None, id="id an object"),
        pytest.param(b'{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600, 5, id="another JSON-RPC"),
        pytest.param(b'{"id":5,"method":"ping"}', -32600, 5, id="no JSON-RPC"),
        pytest.param(b'{"jsonrpc":"2.0","id":5,"method":7}', -32600, 5, id="method a number"),
        pytest.param(b'{"jsonrpc":"2.0","id":5,"method":"tools/list","params":[1]}', -32602, 5, id="params an array"),
        pytest.param(b'{"jsonrpc":"2.0","id":5,"method":"no/such"}', -32601, 5, id="unknown method"),
        pytest.param(b'{"jsonrpc":"2.0","id":5,"method":"tasks/list"}', -32601, 5, id="a method not served"),
        pytest.param(b'{"jsonrpc":"2.0","id":5,"method":"tools/call"}', -32602, 5, id="no name"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"execute_code","arguments":[]}}',
            *(-32602, 5),
            id="arguments an array",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"execute"}}', -32602, 5, id="unknown tool"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":"x"}}', -32602, 5, id="bad cursor"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"x"}}', -32602, 5, id="unknown prompt"
        ),
        pytest.param(b"[]", -32600, None, id="an array after 2025-03-26"),
        pytest.param(b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]', -32600, None, id="a batch after 2025-03-26"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},'
            b'"clientInfo":{"name":"x","version":"1"}}}',
            *(-32600, 5),
            id="a second handshake",
        ),
    ],
)
def test_a_line_that_cannot_be_served_costs_one_error_and_the_stream_goes_on(
    client: RawClient, line: bytes, code: int, answered_id: int | None
) -> None:
    client.write(line + b"\n")

    answer = client.receive()

    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", answered_id, code)
    assert answer["error"]["message"]


@pytest.mark.req("B-012", "A-010", "A-077", "A-072")
def test_blank_lines_carriage_returns_and_odd_notifications_are_not_answered(client: RawClient) -> None:
    client.write(b"\n\r\n  \n")
    client.write(b'{"jsonrpc":"2.0","method":"no/such"}\r\n')
    client.write(b'{"jsonrpc":"2.0","method":7}\n{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}\n')
    client.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}\n')
    client.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":987654}}\n')
    client.write(b'{"jsonrpc":"2.0","id":99,"result":{}}\n{"jsonrpc":"2.0","id":99,"result":1,"error":2}\n')
    client.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n')

    assert client.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.req("A-005")
def test_a_number_and_the_same_number_as_text_are_two_ids(client: RawClient) -> None:
    slow = client.request(
        "tools/call", {"name": "execute_code", "arguments": {"code": "import time; time.sleep(0.3); result = 1"}}, id=1
    )
    quick = client.request("prompts/list", id="1")

    assert client.answer(quick)["result"]["prompts"]
    assert client.answer(slow)["result"]["structuredContent"] == {"ok": True, "data": 1}


@pytest.mark.req("A-004")
def test_an_id_in_flight_is_refused_and_the_first_call_goes_on(client: RawClient, tmp_path: Path) -> None:
    call = {"name": "execute_code", "arguments": {"code": f"{awaiting(tmp_path / 'go')}\nresult = 'first'"}}
    client.request("tools/call", call, id=5)
    client.request("tools/list", id=5)

    refused = client.receive()
    (tmp_path / "go").touch()
    answer = client.receive()

    assert (refused["id"], refused["error"]["code"]) == (5, -32600)
    assert answer["result"]["structuredContent"]["data"] == "first"


@pytest.mark.req("B-010")
@pytest.mark.parametrize("size_mib", [8, 16])
def test_lines_of_many_mebibytes_pass_both_ways(client: RawClient, size_mib: int) -> None:
    count = (size_mib - 1) * MIB  # the rest of the line is the message around it

    code = f"text = '{'x' * count}'\nresult = len(text)"
    assert client.execute(code)["data"] == count
    sent_back = client.execute(f"result = 'x' * {size_mib * MIB // 2}")  # once as text, once as structure
    assert len(sent_back["data"]) == size_mib * MIB // 2


@pytest.mark.req("B-010", "A-021")
def test_a_line_that_is_too_long_costs_one_error(client: RawClient) -> None:
    client.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (33 * MIB) + b'"}\n')

    answer = client.receive()

    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert "32 MiB" in answer["error"]["message"]


@pytest.mark.req("B-003")
def test_characters_that_end_lines_elsewhere_are_escaped(client: RawClient) -> None:
    text = "a\nb\r\nc\u2028d\u2029e\x85f\x0bg\x0c"

    request_id = client.start(f"result = {text!r}")
    answer = client.answer(request_id)

    assert answer["result"]["structuredContent"]["data"] == text


@pytest.mark.req("B-004", "X-07")
def test_nothing_but_messages_reaches_stdout_whatever_prints(client: RawClient) -> None:
    code = (
        "import os, sys, subprocess, warnings\n"
        "print('from print'); os.write(1, b'from fd 1\\n'); os.write(2, b'from fd 2\\n')\n"
        "sys.__stdout__.write('from __stdout__\\n'); sys.__stdout__.flush(); warnings.warn('from warnings')\n"
        "os.system('echo from a shell')\n"
        "import servers.echo as e\n"
        "await e.echo({})\n"
        "result = {'jsonrpc': '2.0', 'id': 1}\n"
    )

    outcome = client.execute(code)

    assert outcome["data"] == {"jsonrpc": "2.0", "id": 1}
    assert {"from print", "from fd 1", "from __stdout__", "from a shell"} <= set(outcome["stdout"].split("\n"))


@pytest.mark.req("B-004", "B-006", "G-019")
def test_stray_output_of_the_host_process_goes_to_stderr() -> None:
    with RawClient(STRAY_PRINTS="1") as client:
        client.handshake()
        assert client.execute("import time; time.sleep(0.3); result = 1")["data"] == 1
        assert client.close() == 0
        assert client.rest() == []
        said = client.said()

    assert {"stray print", "stray child", "stray write", "stray warning"} <= {
        line.strip() for line in said.splitlines()
    }


@pytest.mark.req("B-011", "G-017")
def test_concurrent_calls_are_answered_in_any_order(client: RawClient, tmp_path: Path) -> None:
    slow = [client.start(awaiting(tmp_path / "go")) for _ in range(3)]
    quick = [
        client.request("tools/call", {"name": "search_tools", "arguments": {"queries": ["echo"]}}) for _ in range(40)
    ]

    first = [client.receive()["id"] for _ in quick]
    (tmp_path / "go").touch()
    then = [client.receive()["id"] for _ in slow]

    assert set(first) == set(quick)
    assert set(then) == set(slow)


@pytest.mark.req("A-063")
def test_ping_is_answered_while_code_runs(client: RawClient) -> None:
    busy = client.start("while True: pass", timeout_s=1.0)

    ping = client.request("ping")
    assert client.receive() == {"jsonrpc": "2.0", "id": ping, "result": {}}
    assert client.answer(busy)["result"]["structuredContent"]["error"]["type"] == "Timeout"


@pytest.mark.req("A-063", "A-022", "A-019", "A-032", "A-036", "A-039")
def test_before_the_handshake_only_ping_is_served() -> None:
    with RawClient() as client:
        assert client.call("ping")["result"] == {}
        assert client.call("tools/list")["error"]["code"] == -32600
        assert client.call("no/such")["error"]["code"] == -32601
        refused = client.call("initialize", {"protocolVersion": 7})["error"]
        assert (refused["code"], refused["data"]["requested"]) == (-32602, 7)
        assert "2025-11-25" in refused["data"]["supported"]
        assert client.call("initialize", {})["error"]["data"]["supported"] == refused["data"]["supported"]
        assert client.handshake("2099-01-01")["protocolVersion"] == "2025-11-25"
        assert len(client.call("tools/list")["result"]["tools"]) == 4


@pytest.mark.req("A-069", "A-071", "A-074", "A-075")
def test_a_cancelled_call_ends_its_sandbox_and_is_never_answered(client: RawClient) -> None:
    before = descendants_of(client.process.pid)
    token = {"progressToken": "started"}
    cancelled = client.start("print('on my way', flush=True)\nimport time; time.sleep(300)", meta=token)
    assert client.receive()["method"] == "notifications/progress"
    running = descendants_of(client.process.pid)

    client.notify("notifications/cancelled", {"requestId": cancelled, "reason": "changed\nmy mind"})
    again = client.start("result = 'same id'", meta=token)  # the id may be used again at once

    assert client.answer(again)["result"]["structuredContent"]["data"] == "same id"
    wait_until(lambda: not alive(running - before) - descendants_of(client.process.pid), within_s=30)
    assert "changed my mind" in client.said()


@pytest.mark.req("A-071")
def test_cancelling_cancels_the_calls_that_code_waits_for(client: RawClient) -> None:
    code = "import servers.echo as e\nprint('calling', flush=True)\nawait e.sleep(seconds=200)"
    cancelled = client.start(code, meta={"progressToken": 1})
    assert client.receive()["params"]["message"] == "calling\n"

    client.notify("notifications/cancelled", {"requestId": cancelled})

    assert client.execute("import servers.echo as e\nresult = (await e.echo(a=1))['a']")["data"] == 1


@pytest.mark.req("A-071")
def test_a_cancelled_call_in_a_session_leaves_its_variables(client: RawClient) -> None:
    client.execute("kept = 41", session="cancel")
    cancelled = client.start(
        "print('.', flush=True)\nimport time; time.sleep(300)", session="cancel", meta={"progressToken": 1}
    )
    assert client.receive()["method"] == "notifications/progress"

    client.notify("notifications/cancelled", {"requestId": cancelled})

    assert client.execute("result = kept + 1", session="cancel")["data"] == 42


def test_sessions_keep_variables_and_are_apart(client: RawClient) -> None:
    client.execute("x = 'one'; open('f', 'w').write(x)", session="one")
    client.execute("x = 'two'", session="two")

    assert client.execute("result = x + open('f').read()", session="one")["data"] == "oneone"
    assert client.execute("result = x", session="two")["data"] == "two"
    assert client.execute("result = 'x' in globals()")["data"] is False


@pytest.mark.req("A-080", "A-081", "A-084", "A-086", "A-087", "A-088")
def test_output_is_reported_as_it_comes_and_not_too_often(client: RawClient) -> None:
    code = "import time\nfor i in range(60):\n    print(i, flush=True); time.sleep(0.01)\nresult = 1"
    began = time.monotonic()
    request_id = client.start(code, meta={"progressToken": "t"})
    client.answer(request_id)
    took_s = time.monotonic() - began
    assert {message["method"] for message in client.heard} == {"notifications/progress"}
    progress = [message["params"] for message in client.heard]
    client.heard.clear()

    assert {one["progressToken"] for one in progress} == {"t"}
    values = [one["progress"] for one in progress]
    assert values == sorted(set(values))
    assert "".join(one["message"] for one in progress) == "".join(f"{i}\n" for i in range(60))
    assert 2 <= len(progress) <= took_s / INTERVAL_S + 2  # longer here than there, however busy the machine is
    assert client.call("ping")["result"] == {}  # nothing came after the answer


@pytest.mark.req("A-081", "A-084", "D-053", "A-085", "A-086")
def test_progress_of_upstream_calls_reaches_the_client_in_order_and_not_too_often(client: RawClient) -> None:
    code = """
import servers.curious as c
print("go", flush=True)
for done in (1, 2):
    told = {"progress": done, "total": 2, "message": f"step {done}"}
    await c.say({"method": "notifications/progress", "params": told, "token": True, "times": 500})
result = 1
"""
    request_id = client.start(code, meta={"progressToken": "up"})
    assert client.answer(request_id)["result"]["structuredContent"]["data"] == 1
    progress = [message["params"] for message in client.heard]
    client.heard.clear()
    values, said = [one["progress"] for one in progress], "".join(one["message"] for one in progress)
    lines = said.splitlines()

    assert values == sorted(set(values))
    assert {one["progressToken"] for one in progress} == {"up"}
    assert [lines[0], lines[1], lines[-1]] == ["go", "curious.say: 1/2 step 1", "curious.say: 2/2 step 2"]
    assert len(lines) < 100  # of 1,000
    quiet = client.start(code)
    assert client.answer(quiet)["result"]["structuredContent"]["data"] == 1
    assert client.heard == []  # nobody asked


@pytest.mark.req("X-02", "C-023", "C-024", "L-011")
@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        pytest.param("execute_code", {"cod": "1"}, ["did you mean 'code'", "timeout_s: number"], id="misspelt"),
        pytest.param("execute_code", {}, ["code*: string"], id="missing"),
        pytest.param("execute_code", {"code": 7}, ["code", "string"], id="wrong type"),
        pytest.param("execute_code", {"code": " "}, ["no code"], id="no code"),
        pytest.param("execute_code", {"code": "1", "timeout_s": 1e9}, ["at most 3600 s"], id="timeout too long"),
        pytest.param("search_tools", {"queries": []}, ["3 to 6"], id="no query"),
        pytest.param("search_tools", {"querries": "x"}, ["did you mean 'queries'"], id="query"),
        pytest.param(
            "search_tools",
            {"queries": ["x"], "server": "ecko"},
            ["near names: echo", " [not_in_catalog]"],
            id="unknown server",
        ),
        pytest.param("search_tools", {"queries": ["x"], "limit": 0}, ["limit", "1"], id="limit"),
        pytest.param("get_tool_definition", {"paths": ["echo.eco"]}, ["near names: echo"], id="unknown tool"),
        pytest.param("get_tool_definition", {"paths": "echo.echo", "form": "xml"}, ["stub", "json"], id="unknown form"),
    ],
)
def test_bad_arguments_are_a_tool_error_that_teaches(
    client: RawClient, tool: str, arguments: dict[str, Any], told: list[str]
) -> None:
    result = client.tool(tool, **arguments)

    assert result["isError"] is True
    text = result["content"][0]["text"]
    assert [word for word in told if word not in text] == []
    assert result.get("structuredContent") == (json.loads(text) if tool == "execute_code" else None)


@pytest.mark.req("H-043", "C-019", "C-020", "C-023")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("result = {'a': [1, None, 'ä']}", id="data"),
        pytest.param("print('x'); result = None", id="output only"),
        pytest.param("1/0", id="exception"),
        pytest.param("raise SystemExit(3)", id="exit"),
        pytest.param("import os; os._exit(4)", id="sudden end"),
        pytest.param("result = object()", id="no JSON"),
        pytest.param("def f(:", id="syntax error"),
    ],
)
def test_structured_content_is_the_text_and_fits_the_output_schema(client: RawClient, code: str) -> None:
    listed = client.call("tools/list")["result"]["tools"]
    schema = next(tool["outputSchema"] for tool in listed if tool["name"] == "execute_code")
    result = client.tool("execute_code", code=code)

    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert jsonschema_rs.is_valid(schema, result["structuredContent"])
    assert result["isError"] is not result["structuredContent"]["ok"]
    assert result["_meta"]["moonpool/envelope"]["run_id"].startswith("run_")


def test_a_definition_as_json_is_the_upstreams_own(client: RawClient) -> None:
    both = json.loads(
        client.tool("get_tool_definition", paths=["echo.idempotent", "echo.nope"], form="json")["content"][0]["text"]
    )
    one = json.loads(client.tool("get_tool_definition", paths="echo.idempotent", form="json")["content"][0]["text"])

    assert both[0] == one
    assert (one["name"], one["annotations"]) == ("idempotent", {"destructiveHint": False, "idempotentHint": True})
    assert "near names" in both[1]["error"] or "search" in both[1]["error"]


@pytest.mark.req("A-053", "B-004")
@pytest.mark.parametrize("how", ["EOF", "SIGTERM", pytest.param("SIGINT", marks=pytest.mark.slow)])
def test_the_end_leaves_no_process(config: Path, how: str) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(RawClient(config))
        client.handshake()
        client.execute("import servers.echo as e\nawait e.echo({})", session="kept")
        client.start("print('.', flush=True)\nimport os, time\nos.fork()\ntime.sleep(1e6)", meta={"progressToken": 1})
        assert client.receive()["method"] == "notifications/progress"
        processes = descendants_of(client.process.pid)
        assert processes
        if how == "EOF":
            client.process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
        else:
            os.kill(client.process.pid, getattr(signal, how))

        assert client.process.wait(PATIENCE_S) == 0
        assert not wait_gone(processes, PATIENCE_S)


@pytest.mark.req("A-053", "B-001")
def test_what_was_asked_before_the_end_of_input_is_answered(config: Path) -> None:
    with RawClient(config) as client:
        client.handshake()
        request_id = client.start("result = 1")
        client.process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]

        assert client.answer(request_id)["result"]["structuredContent"]["data"] == 1
        assert client.close() == 0


@pytest.mark.req("A-053", "A-055")
def test_it_ends_when_nobody_reads_its_answers() -> None:
    read_end, write_end = os.pipe()
    with Command([SERVE, "-", "deny"], stdin=subprocess.PIPE, stdout=write_end, env=environment()) as process:
        os.close(read_end)
        os.close(write_end)
        assert process.stdin is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()

        assert process.wait(PATIENCE_S) == 0


@pytest.mark.req("B-014")
def test_input_may_be_a_file(tmp_path: Path) -> None:
    script = tmp_path / "input.jsonl"
    script.write_text(
        '{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}', encoding="utf-8"
    )
    with script.open("rb") as lines:
        done = run_command([SERVE, "-", "deny"], stdin=lines, cwd="/", env=environment())

    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


@pytest.mark.req("A-016", "C-002", "L-039")
def test_the_modern_era_on_the_wire(config: Path) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    with RawClient(config, approve="ask", MOONPOOL_APPROVAL_WAIT_S="0.1") as client:
        assert client.call("ping")["result"] == {}  # does not decide the era
        discovered = client.call("server/discover", {"_meta": meta})["result"]
        listed = client.call("tools/list", {"_meta": meta})["result"]
        code = "import servers.echo as e\nresult = (await e.destructive({}))['error']"
        call = {"name": "execute_code", "arguments": {"code": code}, "_meta": meta}
        answer = client.call("tools/call", call)["result"]
        refused = client.call("ping", {"_meta": meta})
        client.send([])
        batch = client.receive()
        client.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})
        late = client.receive()
        client.process.terminate()  # else it waits for the answer

    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert "servers.echo" in discovered["instructions"]
    assert discovered["capabilities"]["tools"].get("listChanged") is not True
    assert (len(listed["tools"]), listed["resultType"], listed["cacheScope"]) == (4, "complete", "public")
    assert answer["structuredContent"]["error"]["type"] == "approval_pending"
    assert (refused["error"]["code"], batch["error"]["code"], late["error"]["code"]) == (-32601, -32600, -32022)


@pytest.mark.req("A-025")
def test_a_server_that_never_answers_does_not_hold_up_the_handshake_or_the_end(tmp_path: Path) -> None:
    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(300)"]}
    (tmp_path / "config.json").write_text(json.dumps({"mcpServers": {"silent": silent}}), encoding="utf-8")
    with RawClient(tmp_path / "config.json", LISTING_WAIT_S="2") as client:
        told = client.handshake()["instructions"]
        processes = descendants_of(client.process.pid)

        assert client.close() == 0
        assert not wait_gone(processes, PATIENCE_S)

    assert "Tools not listed yet: silent." in told
