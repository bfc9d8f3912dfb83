"""All 241 tools of 15 published servers, and the synthetic horrors, called from a real sandbox through all stages.

One call per tool with an instance made from its schema; a recording server compares what arrived on the wire.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest

from apps import fixture_server, open_app, run
from moonpool.core.manifest import Manifest
from moonpool.wrappers.tree import render_tree
from wrappers.guest_calls import FORMS
from wrappers.regenerate import load_case
from wrappers.roundtrip import GUEST_CALLS, TOOLLISTS, make_cases

pytestmark = pytest.mark.anyio

CANNOT_BE_CALLED = {"schema_false", "not_an_object"}  # their schemas allow no object at all


@pytest.mark.req("H-006", "H-016", "H-037", "H-039", "H-089")
@pytest.mark.parametrize("path", sorted(TOOLLISTS.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.slow
async def test_every_tool_of_a_published_server_gets_exactly_the_arguments_given(path: Path, tmp_path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    seen, wanted = await calls_through_a_sandbox(recorded["result"]["tools"], recorded["server"], tmp_path)
    assert seen == wanted


@pytest.mark.req("H-017", "H-039", "H-040", "H-070", "P-025", "P-028")
@pytest.mark.parametrize("case", ["names", "schemas", "hostile"])
@pytest.mark.slow
async def test_every_synthetic_horror_is_called_from_a_sandbox_too(case: str, tmp_path: Path) -> None:
    manifest = load_case(case)
    for number, server in enumerate(one for one in manifest.servers if one.server_id):  # a server needs some name
        folder = tmp_path / str(number)
        folder.mkdir()
        seen, wanted = await calls_through_a_sandbox([tool.raw for tool in server.tools], server.server_id, folder)
        assert wanted
        assert seen == wanted


def fitting(case: dict[str, Any], manifest: Manifest) -> dict[str, Any] | None:
    """The sampled arguments without those members that have no easy instance; None when no call can be valid."""
    tool = manifest.find(case["server_id"], case["tool"])
    assert tool is not None
    try:
        validator = jsonschema_rs.validator_for(tool.input_schema)
    except jsonschema_rs.ValidationError:
        return case["arguments"]  # a schema that is none lets everything through
    if validator.is_valid(case["arguments"]):
        return case["arguments"]
    kept: dict[str, Any] = {}
    for name, value in case["arguments"].items():
        if validator.is_valid({**kept, name: value}):
            kept[name] = value
    return kept if validator.is_valid(kept) else None


async def calls_through_a_sandbox(tools: list[Any], server_id: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """Call every tool in every form that the trees offer; return what the server saw and what it should have seen."""
    listing, record = folder / "tools.json", folder / "calls.jsonl"
    listing.write_text(json.dumps({"tools": tools}), encoding="utf-8")
    server = fixture_server("recorder.py", str(listing), str(record))
    async with open_app({server_id: server}) as app:
        snapshot = await app.tool_registry.snapshot()
        cases = make_cases(render_tree(snapshot.manifest), snapshot.manifest)
        for case in cases:
            del case["arguments"]["not in the schema"]  # the broker validates; the wrappers' own tests send extras
            case["arguments"] = fitting(case, snapshot.manifest)
        refused = {case["tool"] for case in cases if case["arguments"] is None}
        assert refused <= CANNOT_BE_CALLED
        cases = [case for case in cases if case["arguments"] is not None]
        program = GUEST_CALLS.read_text(encoding="utf-8").replace('if __name__ == "__main__":', "if False:")
        program += f"\nfor case in json.loads({json.dumps(cases)!r}):\n    await call_every_way(case)\n"
        with anyio.fail_after(60):
            envelope = await run(app, program)
    assert envelope.error is None, envelope.extras["stderr"]
    seen = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    wanted = [{"tool": case["tool"], "arguments": case["arguments"]} for case in cases for _ in FORMS]
    return seen, wanted
