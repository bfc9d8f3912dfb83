"""`--catalog code`: code finds the tools. By a client of the SDK, with the command that people start."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import SERVERS
from cli.console import moonpool
from commands.process import SCRIPT
from moonpool.catalog.tokens import count_tokens
from moonpool.environments.recipes import RECIPES
from moonpool.server.mcp.definitions import model_view
from moonpool.server.mcp.instructions import CHARS_MAX, instructions
from moonpool.server.mcp.tool_set import Offer, offer_of
from moonpool.settings import Settings
from server.raw_client import environment

if TYPE_CHECKING:
    from pathlib import Path

FIND_AND_CALL = """
from client.catalog import definition, search
hit = search("rows of a sheet", limit=1)[0]
print(hit)
print(definition(hit.path))
import servers.sheets as s
result = [hit.path, (await s.get_all_rows(sheetId="q")).ok]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    entry = {"command": sys.executable, "args": [str(SERVERS / "sheets.py"), "sheets"], "moonpool": {"allow": ["*"]}}
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"sheets": entry}}), encoding="utf-8")
    return path


@pytest.mark.anyio
@pytest.mark.req("H-051")
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_a_client_sees_no_catalog_and_its_code_finds_and_calls_the_others(config: Path, mode: str) -> None:
    from mcp import Client, MCPError, StdioServerParameters

    arguments = ["mcp", "--config", str(config), "--approve", "deny", "--catalog", "code"]
    command = StdioServerParameters(command=str(SCRIPT), args=arguments, env=environment())
    with anyio.fail_after(60):
        async with Client(command, mode=mode) as client:
            listed = await client.list_tools()
            ran = await client.call_tool("execute_code", {"code": FIND_AND_CALL})
            prompt = await client.get_prompt("code_mode")
            with pytest.raises(
                MCPError, match=r"Unknown tool: search_tools; here code finds tools, with client\.catalog"
            ):
                await client.call_tool("search_tools", {"queries": ["rows"]})
            told = client.instructions or ""

    assert [tool.name for tool in listed.tools] == ["execute_code", "wait"]
    assert ran.structured_content is not None
    assert ran.structured_content["data"] == ["servers.sheets.get_all_rows", True]
    assert "servers.sheets.get_all_rows — " in ran.structured_content["stdout"]
    assert "await servers.sheets.get_all_rows(" in ran.structured_content["stdout"]
    read = "\n".join([told, listed.tools[0].description or "", prompt.messages[0].content.text])
    assert read.count("from client.catalog import search, definition") == 3
    assert "sheets" in told  # as not listed yet, on a busy machine
    assert "search_tools" not in read


@pytest.mark.req("H-051", "H-052")
def test_code_alone_costs_less_than_the_catalog_as_tools() -> None:
    def cost(offer: Offer) -> int:
        return count_tokens(json.dumps([model_view(tool) for tool in offer.tools], separators=(",", ":")))

    for name in RECIPES:
        assert cost(offer_of("code", name)) <= 450
        assert cost(offer_of("tools", name)) <= 600
    assert len(instructions((), ["x" * 60] * 100, how=offer_of("code", "base").how)) <= CHARS_MAX


@pytest.mark.req("H-051", "X-15")
def test_the_catalog_is_offered_as_tools_unless_the_setting_says_otherwise() -> None:
    usual, code = Settings().catalog, Settings.load({"MOONPOOL_CATALOG": "code"}).catalog
    assert offer_of(usual, "base").names == ["search_tools", "get_tool_definition", "execute_code", "wait"]
    assert offer_of(code, "base").names == ["execute_code", "wait"]


def test_another_value_is_refused_before_anything_starts(tmp_path: Path) -> None:
    ended = moonpool(tmp_path, "mcp", "--catalog", "both")
    assert ended.sentence == "catalog must be code or tools, but is 'both' [config_invalid]"
