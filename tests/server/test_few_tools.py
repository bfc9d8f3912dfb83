"""With few tools a client gets all definitions with its first search, once, and none unasked."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from apps import DATA, SERVERS
from moonpool.features.usage.measures import measure
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from server.raw_client import RawClient
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = [
        {"name": "read_it", "description": "Reads.", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
        {"name": "write_it", "description": "Writes.", "inputSchema": schema},
    ]
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(SERVERS / "recorder.py"), str(tmp_path / "tools.json")]}
    block = {"allow": ["*"]}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"mcpServers": {"few": {**entry, "moonpool": block}}}), encoding="utf-8")
    return path


@pytest.mark.req("H-052")
def test_the_first_search_brings_all_definitions_and_calls_teach(config: Path) -> None:
    with RawClient(config) as client:
        told = client.handshake()["instructions"]
        first = client.tool("search_tools", queries=["reads"])["content"][0]["text"]
        second = client.tool("search_tools", queries=["reads writes"], read_only=True)["content"][0]["text"]
        code = "from servers.few import read_it\nresult = (await read_it(query='tea')).ok"
        client.tool("execute_code", code=code)
        definition = client.tool("get_tool_definition", paths=["few.read_it"], form="typescript")
        learned = definition["content"][0]["text"]

    assert "query" not in told
    assert "await servers.few.read_it(query: str = ...):" in first
    assert "await servers.few.write_it(" in first
    assert second == "servers.few.read_it — Reads"
    assert learned.startswith("/** Reads. */\nexport function readIt(args?: {query?: string})")


@pytest.mark.req("H-083")
def test_what_the_model_was_shown_is_in_envelopes_and_on_record_when_it_leaves(config: Path) -> None:
    seen: list[dict[str, Any]] = []

    def counted() -> bool:
        meta = client.tool("execute_code", code="result = 1")["_meta"]["moonpool/envelope"]
        seen.append(meta["metrics"].get("tokens", {}))
        return {"manifest", "search"} <= set(seen[-1].get("by_kind", {}))

    with RawClient(config) as client:
        client.handshake()
        client.tool("search_tools", queries=["reads"])
        wait_until(counted, within_s=30)
    rows = [row.to_json() for row in read_rows(journal_path(DATA))]
    tokens = measure([row for row in rows if row["kind"] == "disclosure"][-1:]).tokens
    last = seen[-1]
    assert (tokens.connections, tokens.executions) == (1, len(seen))
    assert (tokens.upfront, tokens.figures.spent, dict(tokens.by_kind)) == (
        last["upfront"],
        last["spent"],
        last["by_kind"],
    )
    assert last["saved"] == tokens.upfront - last["spent"]
