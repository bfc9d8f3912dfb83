"""A preview over MCP: the code is read, not run."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import fixture_server
from server.raw_client import SERVE, RawClient, environment

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CODE = "import servers.echo as e, servers.gone as g\nawait e.echo(word='a')\nawait e.ecko()\nawait g.x()\nresult = 1/0"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("previews") / "servers.json"
    servers = {"echo": fixture_server("echo.py", allow=[]), "gone": {"command": "/nonexistent/server"}}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def client(config: Path) -> Generator[RawClient]:
    with RawClient(config) as opened:
        opened.handshake()
        yield opened


def run(client: RawClient, code: str = CODE, **arguments: Any) -> Any:
    return client.tool("execute_code", code=code, **arguments)


def test_a_preview_lists_calls_and_mistakes_and_runs_nothing(client: RawClient) -> None:
    result = run(client, preview=True)
    data = result["structuredContent"]["data"]

    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert next((call["line"], call["server"], call["tool"]) for call in data["calls"]) == (2, "echo", "echo")
    assert {(one["line"], one["kind"]) for one in data["findings"]} >= {(3, "UnknownTool"), (1, "Unreachable")}
    assert "_meta" not in result  # no execution, hence no envelope


def test_code_that_cannot_be_parsed_is_a_finding(client: RawClient) -> None:
    data = run(client, "def", preview=True)["structuredContent"]["data"]
    assert [one["kind"] for one in data["findings"]] == ["SyntaxError"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param({"preview": True, "dry_run": True}, "neither dry_run nor plan", id="dry run"),
        pytest.param({"preview": True, "plan": "plan_1"}, "neither dry_run nor plan", id="plan"),
        pytest.param({"preview": True, "language": "bash"}, "only Python is read", id="bash"),
        pytest.param({"preview": "yes"}, "preview", id="no boolean"),
    ],
)
def test_what_cannot_be_previewed_is_a_tool_error(client: RawClient, arguments: Any, said: str) -> None:
    result = run(client, **arguments)
    assert result["isError"] is True
    assert said in result["structuredContent"]["error"]["message"]


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_sdk_gets_a_preview(config: Path) -> None:
    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(command=sys.executable, args=[str(SERVE), str(config), "deny"], env=environment())
    with anyio.fail_after(60):
        async with Client(command) as client:
            result = await client.call_tool("execute_code", {"code": CODE, "preview": True})

    assert result.structured_content["data"]["calls"][0]["tool"] == "echo"
