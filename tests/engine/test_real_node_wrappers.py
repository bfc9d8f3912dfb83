"""All 241 tools of 15 published servers, called from Node in a real sandbox through the whole pipeline.

One call per form of the Node tree with an instance made from a tool's schema; a recording server compares what arrived.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import fixture_server, open_app, run
from engine.test_real_wrappers import CANNOT_BE_CALLED, fitting
from moonpool.wrappers.tree import render_tree
from wrappers.nodes import SCRIPTS
from wrappers.roundtrip import TOOLLISTS, make_cases

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

FORMS = 4  # of every_way.mjs


@pytest.mark.req("H-008", "H-012", "H-014", "H-016", "H-089")
@pytest.mark.parametrize("path", sorted(TOOLLISTS.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.slow
async def test_every_tool_of_a_published_server_gets_exactly_the_arguments_given(path: Path, tmp_path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    listing, record = tmp_path / "tools.json", tmp_path / "calls.jsonl"
    listing.write_text(json.dumps({"tools": recorded["result"]["tools"]}), encoding="utf-8")
    server = fixture_server("recorder.py", str(listing), str(record))
    async with open_app({recorded["server"]: server}) as app:
        snapshot = await app.tool_registry.snapshot()
        cases = make_cases(render_tree(snapshot.manifest), snapshot.manifest)
        for case in cases:
            del case["arguments"]["not in the schema"]  # the broker validates
            case["arguments"] = fitting(case, snapshot.manifest)
        cases = [case for case in cases if case["arguments"] is not None or case["tool"] not in CANNOT_BE_CALLED]
        program = (
            'import { callTool } from "/wrappers/current/client/mcp_client.js";\n'
            + (SCRIPTS / "every_way.mjs").read_text(encoding="utf-8").replace("export ", "")
            + f"for (const item of JSON.parse({json.dumps(json.dumps(cases))})) {{\n"
            + "  await callEveryWay(item, await import(`./servers/${item.module}/index.js`), callTool);\n}\n"
        )
        with anyio.fail_after(60):
            envelope = await run(app, program, language="node")
    assert envelope.error is None, (envelope.error, envelope.extras["stderr"])
    seen = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert seen == [{"tool": case["tool"], "arguments": case["arguments"]} for case in cases for _ in range(FORMS)]
