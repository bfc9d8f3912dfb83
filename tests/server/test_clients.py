"""Clients of every era list four tools and run code that calls servers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from installs import node_environment
from server.other_clients import inspector_command, old_sdk_python
from server.raw_client import SERVE, RawClient, environment
from server.transcripts import ALL, GOLDENS, make_config, play

if TYPE_CHECKING:
    from pathlib import Path

HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
NAMES = ["search_tools", "get_tool_definition", "execute_code", "wait"]
ZONE = "import servers.time as t\nresult = (await t.get_current_time(timezone='UTC'))['timezone']"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = make_config(tmp_path_factory.mktemp("clients"))
    with RawClient(
        config
    ) as client:  # waits for the servers' lists and keeps them: the handshake does not wait so long
        client.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE})
        client.receive()
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        search = {"name": "search_tools", "arguments": {"queries": ["current time"]}}
        client.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": search})
        client.receive()
    return config


@pytest.mark.req(
    "A-012", "A-014", "A-015", "A-016", "A-024", "A-035", "A-041", "B-008", "B-009", "C-001", "A-092", "X-17"
)
@pytest.mark.parametrize("version", ALL)
def test_the_transcript_is_as_recorded(servers: Path, version: str) -> None:
    spoken = play(version, servers)

    assert spoken == (GOLDENS / f"{version}.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.req("P-034")
@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
@pytest.mark.slow
async def test_the_sdk_lists_four_tools_and_runs_code(servers: Path, mode: str, version: str) -> None:
    from mcp import Client, MCPError, StdioServerParameters

    command = StdioServerParameters(command=sys.executable, args=[str(SERVE), str(servers), "deny"], env=environment())
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    with anyio.fail_after(60):
        async with Client(command, mode=mode) as client:
            listed = await client.list_tools()
            result = await client.call_tool("execute_code", {"code": ZONE})
            failed = await client.call_tool("execute_code", {"code": "1/0"})
            await client.call_tool("execute_code", {"code": "print('x')"}, progress_callback=hear)
            prompt = await client.get_prompt("code_mode")
            with pytest.raises(MCPError) as unknown:
                await client.call_tool("nope", {})

            assert client.protocol_version == version
            assert "servers.time" in (client.instructions or "")
            assert [tool.name for tool in listed.tools] == NAMES
            assert result.structured_content == {"ok": True, "data": "UTC"}
            assert (failed.is_error, failed.structured_content["error"]["type"]) == (True, "ZeroDivisionError")
            assert heard == ["x\n"]
            assert "Rules:" in prompt.messages[0].content.text
            assert unknown.value.error.code == -32602


@pytest.mark.anyio
@pytest.mark.req("A-071")
@pytest.mark.slow
async def test_a_call_that_the_sdk_gives_up_in_the_modern_era_is_cancelled(servers: Path) -> None:
    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(command=sys.executable, args=[str(SERVE), str(servers), "deny"], env=environment())
    with anyio.fail_after(30):
        async with Client(command, mode="auto") as client:
            await client.call_tool("execute_code", {"code": "x = 1", "session": "s"})
            with anyio.move_on_after(0.5):
                await client.call_tool("execute_code", {"code": "import time; time.sleep(300)", "session": "s"})
            result = await client.call_tool("execute_code", {"code": "result = x", "session": "s"})

            assert result.structured_content == {"ok": True, "data": 1}


@pytest.mark.req("P-034", "P-001")
@pytest.mark.slow
def test_the_sdk_of_the_1_x_line_does_the_same(servers: Path) -> None:
    script = SERVE.with_name("clients") / "old_sdk.py"
    command = [str(old_sdk_python()), str(script), ZONE, sys.executable, str(SERVE), str(servers), "deny"]

    done = subprocess.run(command, capture_output=True, check=True, timeout=90, env=environment())
    told = json.loads(done.stdout)

    assert (told["version"], told["tools"], told["is_error"]) == ("2025-11-25", NAMES, False)
    assert told["structured"] == json.loads(told["text"]) == {"ok": True, "data": "UTC"}


@pytest.mark.req("G-013")
@pytest.mark.slow
def test_the_inspector_lists_four_tools_and_runs_code(servers: Path) -> None:
    def inspect(*arguments: str) -> Any:
        command = [*inspector_command(), sys.executable, str(SERVE), str(servers), "deny", *arguments]
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=90, env=environment(**node_environment())
        )
        assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-4000:])
        return json.loads(done.stdout)

    listed = inspect("--method", "tools/list")
    called = inspect("--method", "tools/call", "--tool-name", "execute_code", "--tool-arg", f"code={ZONE}")

    assert [tool["name"] for tool in listed["tools"]] == NAMES
    assert called["structuredContent"] == {"ok": True, "data": "UTC"}
