"""All 241 tools of 15 published servers, and the synthetic horrors, called from a real sandbox through the whole road.

One call per tool with an instance made from its schema; a recording server compares what arrived on the wire.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from apps import fixture_server, open_app, run
from moonpool.wrappers.tree import render_tree
from wrappers.guest_calls import FORMS
from wrappers.roundtrip import GUEST_CALLS, TOOLLISTS, make_cases

pytestmark = pytest.mark.anyio


@pytest.mark.req("H-006", "H-016", "H-037", "H-039", "H-089")
@pytest.mark.parametrize("path", sorted(TOOLLISTS.glob("*.json")), ids=lambda path: path.stem)
async def test_every_tool_of_a_published_server_gets_exactly_the_arguments_given(path: Path, tmp_path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    seen, wanted = await calls_through_a_sandbox(recorded["result"]["tools"], recorded["server"], tmp_path)
    assert seen == wanted


async def calls_through_a_sandbox(tools: list[Any], server_id: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """Call every tool in every form that the trees offer; return what the server saw and what it should have seen."""
    listing, record = folder / "tools.json", folder / "calls.jsonl"
    listing.write_text(json.dumps({"tools": tools}), encoding="utf-8")
    server = fixture_server("recorder.py", str(listing), str(record))
    async with open_app({server_id: server}) as app:
        snapshot = await app.toolbox.snapshot()
        cases = make_cases(render_tree(snapshot.manifest), snapshot.manifest)
        for case in cases:
            del case["arguments"]["not in the schema"]  # the broker validates; the wrappers' own tests send extras
        program = GUEST_CALLS.read_text(encoding="utf-8").replace('if __name__ == "__main__":', "if False:")
        program += f"\nfor case in json.loads({json.dumps(cases)!r}):\n    await call_every_way(case)\n"
        with anyio.fail_after(60):
            envelope = await run(app, program)
    assert envelope.error is None, envelope.extras["stderr"]
    seen = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    wanted = [{"tool": case["tool"], "arguments": case["arguments"]} for case in cases for _ in FORMS]
    return seen, wanted
