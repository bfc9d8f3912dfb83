"""What the pages tell people with an MCP client: the entry starts, commands work, every client and symptom is there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps import fixture_server
from commands.process import SCRIPT
from docs.pages import read, section, snippets
from installs import ROOT
from moonpool.configuration.servers import parse_config
from moonpool.server.mcp.tool_set import offer_of
from server.raw_client import RawClient, environment
from server.services import caller, handshake, serving
from tables import every_row

CONNECT, TROUBLE = "docs/how-to/connect-a-client.md", "docs/how-to/troubleshooting.md"
CLIENTS = ("Claude Desktop", "Claude Code", "Cursor", "VS Code", "Windsurf", "Zed")
NAME = f"written-by-code-{os.getpid()}"
PLACES = {"/path/to/moonpool/.venv/bin/moonpool": str(SCRIPT)}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"echo": fixture_server("echo.py")}}), encoding="utf-8")
    return path


def tools_of(command: list[str], config: Path) -> Any:
    """What a client that starts `command`, as a page writes it, is offered; started in `/`, as some do."""
    here = {**PLACES, "/path/to/servers.json": str(config)}
    with RawClient(command=[here.get(word, word) for word in command], cwd="/") as client:
        client.handshake()
        found = client.tool("search_tools", queries=["echo"])["content"][0]["text"]
        client.execute(f"open('{NAME}', 'w').write('x')")
        listed = [tool["name"] for tool in client.call("tools/list")["result"]["tools"]]
    assert "servers.echo" in found
    assert not Path("/", NAME).exists()
    return listed


@pytest.mark.req("B-014", "G-001", "G-015")
def test_the_entry_of_the_page_starts_a_server_with_tools(config: Path) -> None:
    (snippet,) = [one for one in snippets("client-config") if one.page == CONNECT]
    entry = json.loads(snippet.text)["mcpServers"]["moonpool"]

    assert tools_of([entry["command"], *entry["args"]], config) == offer_of("tools", "base").names


@pytest.mark.req("G-012")
@pytest.mark.slow
def test_the_line_for_claude_code_names_a_command_that_works(config: Path) -> None:
    (line,) = [line for line in read(CONNECT).splitlines() if line.startswith("claude mcp add ")]
    add, _, command = line.partition(" -- ")

    assert shlex.split(add) == ["claude", "mcp", "add", "moonpool"]
    assert tools_of(shlex.split(command), config) == offer_of("tools", "base").names


@pytest.mark.anyio
@pytest.mark.req("G-002")
async def test_the_entry_of_the_page_reaches_a_service() -> None:
    (snippet,) = [one for one in snippets("remote-config") if one.page == CONNECT]
    entry = json.loads(snippet.text)["mcpServers"]["moonpool"]
    (server,) = parse_config(snippet.text.encode(), source=CONNECT, environ={"MOONPOOL_KEY": "sk"}).servers
    key = entry["headers"]["Authorization"].removeprefix("Bearer ")

    async with serving({key: caller("a")}) as service:
        path = entry["url"].removeprefix("https://moonpool.example.com")
        told = await service.post(handshake(), path=path, **entry["headers"])
        without = await service.post(handshake(), path=path)

    assert (server.server_id, entry["type"]) == ("moonpool", "http")  # the form that our own configuration has
    assert (told.status_code, without.status_code) == (200, 401)


@pytest.mark.slow
@pytest.mark.req("G-014")
def test_the_line_for_changing_moonpool_starts_it_from_its_sources() -> None:
    (line,) = [line for line in read(CONNECT).splitlines() if "uv --directory" in line]
    command = shlex.split(line.replace("/path/to/moonpool", str(ROOT)))
    uv = command.index("uv")
    with RawClient(command=[str(Path(sys.executable).with_name("uv")), *command[uv + 1 :]], cwd="/") as client:
        assert client.call("ping")["result"] == {}


@pytest.mark.req("G-003", "G-005", "G-011")
@every_row("client", CLIENTS)
def test_every_client_has_a_row_with_its_file(client: str) -> None:
    page = section(read(CONNECT), "Client by client")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {client} |")]

    assert re.search(r"`[~.%].*json`", row)
    assert "Restart the\nclient after each change" in page


@pytest.mark.req("G-003", "G-018", "G-025")
@every_row(
    "told",
    [
        "~/Library/Application Support/Claude/claude_desktop_config.json",
        "%APPDATA%\\Claude\\claude_desktop_config.json",
        "tail -n 20 -F ~/Library/Logs/Claude/mcp*.log",
        "%APPDATA%\\Claude\\logs",
        "mcp-server-moonpool.log",
        "developer_settings.json",
    ],
)
def test_places_of_files_and_logs_are_told(told: str) -> None:
    assert told in read(CONNECT)


@pytest.mark.req("G-004")
def test_paths_of_the_page_are_absolute() -> None:
    (snippet,) = [one for one in snippets("client-config") if one.page == CONNECT]
    entry = json.loads(snippet.text)["mcpServers"]["moonpool"]

    assert [word[0] for word in (entry["command"], entry["args"][-1])] == ["/", "/"]
    assert "backslashes in JSON are doubled" in read(CONNECT)


@pytest.mark.req("G-008")
@every_row("word", ["host", "client", "server"])
def test_the_words_of_the_protocol_are_explained(word: str) -> None:
    assert f"*{word}*" in section(read(CONNECT), "The words")


@pytest.mark.req("G-026")
def test_the_command_by_hand_prints_one_line() -> None:
    (snippet,) = [one for one in snippets("by-hand") if one.page == CONNECT]
    text = re.sub(r"\bmoonpool mcp\b", f"{shlex.quote(str(SCRIPT))} mcp", snippet.text)
    done = subprocess.run(["sh", "-c", text], capture_output=True, check=True, timeout=60, env=environment(), cwd="/")

    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.req("G-026", "G-042")
@every_row(
    "symptom",
    [
        *("the server is not shown", "nothing is said", "up to 30 s"),
        *("FileNotFoundError", "Connection refused", "Tool execution failed", "Timeout"),
    ],
)
def test_each_symptom_in_a_client_has_a_remedy(symptom: str) -> None:
    rows = [line for line in section(read(TROUBLE), "In a client").splitlines() if symptom in line]

    assert len(rows) == 1
    assert all(cell.strip() for cell in rows[0].strip("|").split("|"))


@pytest.mark.req("G-045")
def test_it_is_said_that_servers_run_with_ones_own_rights() -> None:
    assert "Servers run outside of any sandbox, with your rights" in read("docs/how-to/configure-servers.md")
