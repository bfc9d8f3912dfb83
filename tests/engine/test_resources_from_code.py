"""Code in a sandbox reads resources, fills in prompts and completes arguments: as calls, on the calls' pipeline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server, open_app, run
from moonpool.core.calls import ApprovalState
from moonpool.pipeline.approval import ScriptedApprover

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio
OFFERS = ("2025-11-25", "resources,prompts,completions,templates")
CODE = """
from servers.lib import mcp_completion_complete, mcp_prompts_get, mcp_resources_list, mcp_resources_read

listed = await mcp_resources_list()
first = await mcp_resources_read(uri=listed["resources"][0]["uri"])
prompt = await mcp_prompts_get(name="p", arguments={"topic": "x"})
completed = await mcp_completion_complete(prompt="p", argument="topic")
wrong = await mcp_resources_read(url="typo")
result = [
    len(listed["resources"]), first["contents"][0]["text"], prompt["messages"][0]["role"], completed["total"],
    wrong.error["type"],
]
"""


@pytest.mark.req("D-013", "D-019", "D-021")
async def test_code_reads_what_a_server_offers_beside_tools() -> None:
    async with open_app({"lib": fixture_server("library.py", *OFFERS)}) as app:
        envelope = await run(app, CODE)
    assert envelope.data == [5, "a", "user", 9, "ValidationError"]


@pytest.mark.req("D-018")
@pytest.mark.parametrize(
    ("block", "state", "outcome"),
    [
        pytest.param({"trusted": True}, None, "ok", id="reads of a trusted server need no question"),
        pytest.param({"timeout_s": 20}, ApprovalState.APPROVED, "ok", id="else somebody is asked"),
        pytest.param({"timeout_s": 20}, ApprovalState.REJECTED, "ApprovalRejected", id="and may say no"),
        pytest.param({"trusted": True, "deny": ["mcp:resources/*"]}, None, "PolicyDenied", id="a glob denies them all"),
    ],
)
async def test_policy_decides_about_reads(block: dict[str, Any], state: ApprovalState | None, outcome: str) -> None:
    approver = ScriptedApprover([state or ApprovalState.REJECTED])
    code = """
from servers.lib import mcp_resources_read
call = await mcp_resources_read(uri="weird+x://a")
result = "ok" if call.ok else call.error["type"]
"""
    async with open_app({"lib": fixture_server("library.py", *OFFERS, **block)}, approver=approver) as app:
        envelope = await run(app, code)
    assert envelope.data == outcome
    assert [request.tool_name for request in approver.requests] == (["mcp:resources/read"] if state else [])


@pytest.mark.req("D-014", "D-017")
async def test_code_waits_for_a_resource_to_change_until_its_session_ends(tmp_path: Path) -> None:
    state = {"tools": [], "resources": ["w://a"], "prompts": [], "texts": {"w://a": "old"}}
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    code = """
from servers.lib import change, mcp_resources_read, mcp_resources_subscribe, mcp_resources_wait

await mcp_resources_subscribe(uri="w://a")
await change(uri="w://a", text="new")
news = await mcp_resources_wait(within_s=10)
nothing = await mcp_resources_wait(within_s=0.1)
result = [news["changed"], nothing["changed"], (await mcp_resources_read(uri="w://a"))["contents"][0]["text"]]
"""
    server = fixture_server("watched.py", "2025-11-25", str(tmp_path / "state.json"), trusted=True, allow=["*"])
    async with open_app({"lib": server}) as app:
        envelope = await run(app, code)
        upstream = app.tool_registry.get("lib")
        assert upstream is not None
        told: Any = {"told": []}
        while {"unsubscribe": "w://a"} not in told["told"]:
            told = (await upstream.call_tool("told", {}, timeout_s=20))["structuredContent"]
    assert envelope.data == [["w://a"], [], "new"]
