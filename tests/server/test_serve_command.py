"""`moonpool serve` as a process: what it refuses to start, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio
import httpx2
import pytest

import moonpool as moonpool_sdk
from apps import fixture_server
from cli.console import moonpool
from commands.process import SCRIPT, Command
from installs import node_environment
from server.other_clients import inspector_command, old_sdk_python
from server.raw_client import environment
from server.services import JSON_TYPE, execute, handshake, request
from waiting import wait_until


class Serving:
    """A process of `moonpool serve --port 0`, with `--no-auth` unless `keys`."""

    def __init__(self, folder: Path, *more: str, keys: bool = False, **environ: str) -> None:
        self.process = Command(
            [SCRIPT, "serve", *([] if keys else ["--no-auth"]), "--port", "0", *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**environ),
            cwd=folder,
            start_new_session=True,
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_until(lambda: self._address() or self.process.poll() is not None, within_s=60)
        self.url = self._address()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.decode())

    def _address(self) -> str:
        found = re.search(r"MCP at (http://127\.0\.0\.1:[1-9][0-9]*/mcp)\b[^/]", "".join(self.said))
        return found[1] if found else ""

    def post(self, message: Any, **headers: str) -> httpx2.Response:
        return httpx2.post(self.url, json=message, headers={**JSON_TYPE, **headers}, timeout=60)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> Self:
        if not self.url:
            self.__exit__()
            pytest.fail("".join(self.said))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self._reader.join(10)
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()


@pytest.mark.claim("C-WEB-2")
@pytest.mark.req("B-078")
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        pytest.param(["--no-auth", "--host", "10.0.0.7"], "config_invalid", "leave --host out", id="open to all"),
        pytest.param(["--no-auth", "--host", "::"], "config_invalid", "leave --host out", id="open to all, IPv6"),
        pytest.param(
            ["--database-url", "mysql://u:p@h/x"], "config_invalid", "is not supported", id="no such database"
        ),
        pytest.param(["--no-auth", "--files-url", "ftp://x"], "config_invalid", "files_url", id="no such store"),
        pytest.param(["--no-auth", "--host", "example.com"], "config_invalid", "write 127.0.0.1", id="a name"),
        pytest.param(["--no-auth", "--profile", "cod"], "profile_unknown", "did you mean code?", id="no such profile"),
        pytest.param(["--profile", "code"], "input_invalid", "--profile needs --no-auth", id="a profile alone"),
        pytest.param(["--no-auth", "--data-dir", "/proc/x"], "config_invalid", "--data-dir /proc/x", id="no folder"),
    ],
)
def test_what_is_not_started(tmp_path: Path, options: list[str], code: str, said: str) -> None:
    ended = moonpool(tmp_path, "serve", "--port", "0", *options)

    assert (ended.exit_code, ended.stdout) == (2, b"")
    assert said in ended.stderr
    assert ended.stderr.rstrip().endswith(f"[{code}]")


def test_a_data_folder_that_others_can_change_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    ended = moonpool(tmp_path, "serve", "--port", "0", "--data-dir", str(shared))
    assert (ended.exit_code, list(shared.iterdir())) == (2, [])
    assert "everybody can write" in ended.stderr

    if os.geteuid() == 0:
        shared.chmod(0o755)
        os.chown(shared, 65534, -1)
        ended = moonpool(tmp_path, "serve", "--port", "0", "--data-dir", str(shared))
        assert (ended.exit_code, "belongs to uid 65534" in ended.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.req("B-022", "B-077", "H-057", "K-016")
def test_a_call_in_progress_ends_before_the_process_does(tmp_path: Path) -> None:
    state = tmp_path / "organisations"
    answers: list[httpx2.Response] = []
    with Serving(tmp_path, "--data-dir", str(state)) as serving:
        code = "import time\ntime.sleep(5)\nresult = 'whole'"
        calling = threading.Thread(target=lambda: answers.append(serving.post(execute(code))))
        calling.start()
        wait_until(lambda: _in_progress(state), within_s=30)
        listens_at = _listening(int(serving.url.split(":")[2].partition("/")[0]))
        exit_code = serving.stop()
        calling.join(30)
    assert json.loads(answers[0].json()["result"]["content"][0]["text"])["data"] == "whole"
    assert exit_code == 0
    assert listens_at == ["0100007F"]  # 127.0.0.1, and nothing else
    assert (state / "private" / "audit.sqlite3").is_file()
    assert not (state / "environments").exists()
    with pytest.raises(httpx2.ConnectError):
        serving.post(request("ping"))


@pytest.mark.slow
@pytest.mark.req("K-016")
def test_a_second_signal_cuts_what_goes_on_and_the_process_ends_in_order(tmp_path: Path) -> None:
    """Interrupts, as Ctrl-C sends them; after `DRAIN_S` the same happens without the second."""
    begin = execute("print('begun', flush=True)\nimport time; time.sleep(600)", meta={"progressToken": 1})
    with Serving(tmp_path, "--data-dir", str(tmp_path / "state")) as serving:
        session = {"mcp-session-id": serving.post(handshake()).headers["mcp-session-id"], "accept": "text/event-stream"}
        older = serving.url.removesuffix("/mcp") + "/sse"
        with (
            httpx2.stream("GET", older, headers={"accept": "text/event-stream"}, timeout=60) as listening,
            httpx2.stream("POST", serving.url, json=begin, headers={**JSON_TYPE, **session}, timeout=60) as answer,
        ):
            heard, lines = listening.iter_lines(), answer.iter_lines()
            assert next(heard) == "event: endpoint"
            while "begun" not in next(lines):
                pass
            serving.process.send_signal(signal.SIGINT)
            wait_until(lambda: "stopping; calls in progress have 10 s" in "".join(serving.said), within_s=30)
            with pytest.raises(httpx2.ConnectError):
                serving.post(request("ping"))
            serving.process.send_signal(signal.SIGINT)
            (told,) = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
            events = list[str]()
            with suppress(httpx2.RemoteProtocolError):
                events.extend(line for line in heard if line.startswith("event: "))
        assert serving.process.wait(30) == 0
    assert told["error"]["code"] == -32000  # whoever hears it does not send the call again unknowing
    assert events == []


@pytest.mark.slow
def test_after_a_crash_what_ran_is_lost_and_what_had_ended_is_kept(tmp_path: Path) -> None:
    state = ("--data-dir", str(tmp_path / "state"))

    def told(serving: Serving, message: Any) -> Any:
        return json.loads(serving.post(message).json()["result"]["content"][0]["text"])

    def wait(serving: Serving, execution: str) -> Any:
        return told(serving, request("tools/call", {"name": "wait", "arguments": {"id": execution, "patience_s": 1}}))

    with Serving(tmp_path, *state) as serving:
        ended = told(serving, execute("result = 'kept'", patience_s=0))["execution"]
        wait_until(lambda: wait(serving, ended).get("data") == "kept", within_s=60)
        running = told(serving, execute("import time; time.sleep(600)", patience_s=0))["execution"]
        wait_until(lambda: list(tmp_path.rglob(f"{ended}.json")) != [], within_s=60)
        serving.process.kill()
    with Serving(tmp_path, *state) as serving:
        lost, kept = wait(serving, running), wait(serving, ended)
    assert (lost["state"], lost["error"]["type"]) == ("lost", "execution_lost")
    assert "It is not run again" in lost["error"]["message"]
    assert kept == {"ok": True, "data": "kept"}


def _listening(port: int) -> list[str]:
    """The addresses at which somebody listens at this port, as the kernel writes them."""
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text("utf-8").splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and int(row[1].partition(":")[2], 16) == port]


def _in_progress(state: Path) -> bool:
    """Whether the start of an execution is on record."""
    written = b"".join(path.read_bytes() for path in (state / "private").glob("audit.sqlite3*"))
    return re.search(rb"run_[0-9a-f]{32}", written) is not None


_OLD_SDK = """
import asyncio, sys
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client

async def use(read, write):
    async with ClientSession(read, write) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        done = await session.call_tool("execute_code", {"code": "result = 6 * 7"})
        print(",".join(names), done.structuredContent["data"])

async def main(url):
    async with streamablehttp_client(url) as (read, write, _):
        await use(read, write)
    async with sse_client(url.removesuffix("/mcp") + "/sse") as (read, write):
        await use(read, write)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.req("A-092", "B-081", "G-009", "G-013", "G-016", "P-001")
def test_the_older_sdk_the_inspector_and_ours_work_without_a_key(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        with moonpool_sdk.sync.connect(serving.url.removesuffix("/mcp")) as service:
            assert service.run("6 * 7").data == 42
        old = subprocess.run(
            [old_sdk_python(), "-c", _OLD_SDK, serving.url],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert old.stdout.splitlines() == ["search_tools,get_tool_definition,execute_code,wait 42"] * 2, old.stderr
        sse = serving.url.removesuffix("/mcp") + "/sse"
        for url, transport in ((serving.url, "http"), (sse, "sse")):
            listed = _inspect(url, transport, "tools/list")
            assert [tool["name"] for tool in listed["tools"]][2] == "execute_code"
            call = ("tools/call", "--tool-name", "execute_code", "--tool-arg", "code=result = 6 * 7")
            assert _inspect(url, transport, *call)["structuredContent"] == {"ok": True, "data": 42}
        (prompt,) = _inspect(serving.url, "http", "prompts/list")["prompts"]
        shown = _inspect(serving.url, "http", "prompts/get", "--prompt-name", prompt["name"])
        assert "Rules:" in shown["messages"][0]["content"]["text"]
        (template,) = _inspect(sse, "sse", "resources/templates/list")["resourceTemplates"]
        assert template["uriTemplate"].startswith("moonpool://")


def _inspect(url: str, transport: str, method: str, *more: str) -> Any:
    command = [*inspector_command(), url, "--transport", transport, "--method", method, *more]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=120, check=False, env=node_environment(), cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.claim("C-TEN-1")
@pytest.mark.anyio
@pytest.mark.req("F-005", "F-007", "F-009")
@pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one uid, which serves one organisation")
async def test_with_keys_organisations_share_a_service_and_nothing_else(tmp_path: Path) -> None:
    def key_of(org: str) -> str:
        made = moonpool(tmp_path, "keys", "create", "--data-dir", str(tmp_path), "--org", org, "--json")
        return json.loads(made.stdout)["key"]

    ours, theirs = key_of("acme"), key_of("globex")
    with Serving(tmp_path, "--data-dir", str(tmp_path), "--env", "base", keys=True) as serving:
        address = serving.url.removesuffix("/mcp")
        said = [
            serving.post(execute("print(6*7)"), authorization=f"Bearer {key}").json()["result"]["content"][0]["text"]
            for key in (ours, theirs)
        ]
        async with moonpool_sdk.connect(address, ours) as service, service.session() as session:
            await session.run("x = 6")
            reached = (await session.run("x * 7")).data
        made = httpx2.post(f"{address}/v1/sessions", json={}, headers={"authorization": f"Bearer {ours}"}, timeout=60)
        path = f"{address}/v1/sessions/{made.json()['id']}"
        foreign = httpx2.get(path, headers={"authorization": f"Bearer {theirs}"})
        unknown = httpx2.get(path[:-4] + "0000", headers={"authorization": f"Bearer {theirs}"})
        without = serving.post(execute("1"))
        listed = moonpool(tmp_path, "keys", "list", "--data-dir", str(tmp_path), "--json")
    assert all("42" in text for text in said)
    assert reached == 42
    assert (foreign.status_code, unknown.status_code, without.status_code) == (404, 404, 401)
    assert foreign.json()["error"]["code"] == unknown.json()["error"]["code"]
    assert listed.exit_code == 0


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.req("G-020")
async def test_log_messages_of_a_server_arrive_over_every_transport(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.sse import sse_client

    config = tmp_path / "servers.json"
    entry = fixture_server("curious.py", "legacy", allow=["*"], expose="direct")
    config.write_text(json.dumps({"mcpServers": {"curious": entry}}), encoding="utf-8")
    options = ["--config", str(config), "--profile", "direct"]
    command = StdioServerParameters(command=str(SCRIPT), args=["mcp", *options], env=environment())
    heard: list[Any] = []

    async def hear(told: Any) -> None:
        heard.append(told.data)

    with Serving(tmp_path, *options) as serving, anyio.fail_after(120):
        sse = sse_client(serving.url.removesuffix("/mcp") + "/sse")
        for number, transport in enumerate((command, sse, serving.url)):
            said = {"method": "notifications/message", "params": {"level": "info", "data": number}}
            async with Client(transport, mode="legacy", logging_callback=hear) as client:
                await client.call_tool("say", said)
    assert heard == [0, 1, 2]
