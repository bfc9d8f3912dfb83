"""The fixture servers do what other rooms' tests rely on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from upstreams.peers import command, upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_recorder_serves_any_list_and_returns_the_arguments(tmp_path: Path) -> None:
    listed, record = tmp_path / "list.json", tmp_path / "record.jsonl"
    listed.write_text(
        json.dumps({"tools": [{"name": "a.b-C", "inputSchema": {"type": "object"}, "x": None}]}), encoding="utf-8"
    )
    with anyio.fail_after(30):
        async with upstream(command("recorder.py", listed, record)) as srv:
            listing = await srv.list_tools()
            result = await srv.call_tool("a.b-C", {"from": None}, timeout_s=20)
    assert listing.tools[0].raw == {"name": "a.b-C", "inputSchema": {"type": "object"}, "x": None}
    assert result["structuredContent"] == {"tool": "a.b-C", "arguments": {"from": None}}
    assert json.loads(record.read_text(encoding="utf-8")) == {"tool": "a.b-C", "arguments": {"from": None}}


async def test_sheets_and_drive_answer() -> None:
    with anyio.fail_after(30):
        async with upstream(command("sheets.py")) as srv:
            rows = await srv.call_tool("get_all_rows", {"sheetId": "s"}, timeout_s=20)
            text = await srv.call_tool("get_document", {"documentId": "d"}, timeout_s=20)
        async with upstream(command("sheets.py"), known_versions={"srv": "2025-11-25"}) as srv:
            old = await srv.call_tool("get_all_rows", {"sheetId": "s"}, timeout_s=20)
    assert isinstance(rows["structuredContent"], list)
    assert (rows["content"], "structuredContent" in old) == (old["content"], False)
    assert text["structuredContent"] == {"documentId": "d", "content": "Text of d."}
