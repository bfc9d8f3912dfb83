"""Rows about what a model is shown: the same price with one upstream tool as with two hundred."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moonpool.catalog.catalog import Catalog
from moonpool.catalog.tokens import count_tokens
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.features.usage.model import TokenFigures, ToolTokens
from moonpool.server.mcp.definitions import PROMPT_TEXT, TOOLS, model_view
from moonpool.server.mcp.instructions import instructions

ROOT = Path(__file__).parents[2]
TOKENS_MAX = 600
MARK = "XSECRETSCHEMAX"


def _manifest(tool_count: int) -> Manifest:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": MARK} for n in range(20)}}
    tools = tuple(
        ToolDefinition(
            server_id="big",
            name=f"tool_{number}",
            raw={"name": f"tool_{number}", "description": f"{MARK} does number {number}", "inputSchema": schema},
        )
        for number in range(tool_count)
    )
    return Manifest(servers=(ServerListing(server_id="big", tools=tools, description="Does many things."),))


def _upfront(tool_count: int) -> str:
    """Everything that reaches a model before it asks: definitions, instructions, prompt."""
    catalog = Catalog(_manifest(tool_count))
    return json.dumps([*map(model_view, TOOLS), instructions(catalog.servers()), PROMPT_TEXT])


@pytest.mark.req("H-004", "H-052", "H-079")
def test_two_hundred_upstream_tools_cost_what_one_costs() -> None:
    few, many = _upfront(1), _upfront(200)
    assert abs(len(many) - len(few)) < 10  # the digits of a count
    assert MARK not in many
    shown = json.dumps([model_view(tool) for tool in TOOLS], separators=(",", ":"))  # as on the wire
    assert count_tokens(shown) <= TOKENS_MAX


@pytest.mark.req("H-004")
def test_instructions_stay_bounded_with_many_servers() -> None:
    servers = tuple(
        ServerListing(server_id=f"server-{number}", description="Long words about it. " * 50) for number in range(250)
    )
    assert len(instructions(Catalog(Manifest(servers=servers)).servers())) <= 1500


@pytest.mark.req("H-001")
def test_both_figures_of_disclosure_are_counted_and_the_guide_is_in_the_docs() -> None:
    report = TokenFigures(tools=ToolTokens(tools=30), by_kind={"search": 12}).to_json()
    page = " ".join((ROOT / "docs" / "explanation" / "why-code.md").read_text(encoding="utf-8").split())
    assert {"upfront", "spent"} <= set(report)
    for said in ("ten tools or more", "10,000 tokens", "few tools", "strict latency", "cannot isolate"):
        assert said in page


@pytest.mark.req("H-049", "X-15")
def test_search_and_definition_are_host_utilities_with_two_details() -> None:
    catalog = Catalog(_manifest(5))
    bare = catalog.search("number", server="big", detail="name")[0].entry.to_json()
    full = catalog.search("number", server="big", detail="name+description")[0].entry.to_json()
    assert set(bare) == {"serverId", "toolName"}
    assert set(full) == {"serverId", "toolName", "description"}
    assert catalog.definition("big", "tool_1", "json") == catalog.find("big", "tool_1").raw
