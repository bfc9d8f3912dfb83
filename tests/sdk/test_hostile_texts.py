"""Names, arguments and questions of hostile servers and code: values that can be shown, and nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import moonpool
from apps import fixture_server
from moonpool.ipybox import ApprovalRequest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

NASTY = "\x1b[2J\x1b]0;t\x07\r\nallow: yes\u202e\u2066\x9b31m\xa0\u2028\U000e0100"
GIVEN = {NASTY: NASTY, "long": "x" * 200_000}
CALL = f"""
from client.mcp_client import call_tool
r = await call_tool(server_id="srv", name={NASTY!r}, arguments={{{NASTY!r}: {NASTY!r}, "long": "x" * 200_000}})
r.ok or [r.error["type"], r.error["message"]]
"""
HALF = "from servers.srv import plain\n(await plain(text='\\ud800')).error['type']"
ASK = f"""
from servers.curious import ask
field = {{"type": "string", "title": {NASTY!r}, "description": "y" * 5000}}
schema = {{"type": "object", "properties": {{"name": field}}}}
r = await ask(method="elicitation/create", params={{"message": {NASTY!r}, "requestedSchema": schema}})
r.data["result"]["content"]["name"] == {NASTY!r}
"""


def is_shown(text: str) -> bool:
    """Whether a terminal shows it, and does nothing else with it."""
    return text.replace("\n", "").isprintable() and "\U000e0100" not in text


async def test_what_an_application_prints_moves_no_cursor_and_what_it_compares_is_whole(tmp_path: Path) -> None:
    listing, record = tmp_path / "tools.json", tmp_path / "calls.jsonl"
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in (NASTY, "plain")]
    listing.write_text(json.dumps({"tools": tools}), encoding="utf-8")
    servers = {
        "srv": fixture_server("recorder.py", str(listing), str(record), ask=["*"]),
        "curious": fixture_server("curious.py", "legacy", allow=["*"], elicitation="relay"),
    }
    async with moonpool.session(servers=servers) as s:
        for answer in (True, f"no {NASTY}"):
            async for event in s.stream(CALL):
                if isinstance(event, moonpool.ApprovalRequest):
                    assert all(map(is_shown, (str(event), event.shown, event.reason, event.place)))
                    assert "\n" not in str(event)[:200] + event.reason + event.place
                    assert len(str(event)) < 1000
                    assert (event.tool, event.arguments) == (NASTY, GIVEN)
                    await (event.approve() if answer is True else event.deny(answer))
                elif isinstance(event, moonpool.Result):
                    found = event.check().data
            assert found is True if answer is True else answer in found[1]
        [called] = record.read_text(encoding="utf-8").splitlines()
        assert json.loads(called) == {"tool": NASTY, "arguments": GIVEN}
        assert (await s.run(HALF)).data == "ValidationError"
        asked: list[str] = []
        async for event in s.stream(ASK, questions=["form"]):
            if isinstance(event, moonpool.ServerQuestion):
                asked.append(str(event.params["message"]))
                await event.accept({"name": NASTY})
        assert isinstance(event, moonpool.Result)
        assert event.check().data is True
        assert asked[0].startswith("Server 'curious', called by code as curious.ask, asks:\n> ")


async def test_a_request_of_ipybox_is_printed_on_one_line() -> None:
    async def respond(_: bool) -> None:
        raise AssertionError

    given: dict[str, Any] = {NASTY: NASTY, "a": "b\n"}
    shown = str(ApprovalRequest("s", NASTY, given, respond))
    assert is_shown(shown)
    assert "\n" not in shown
    assert shown.endswith("a='b\\n')")
