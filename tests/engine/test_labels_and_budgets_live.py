"""Real sandboxes and servers: what a session has read closes what it may send, and budgets outlive executions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from apps import fixture_server, open_app
from moonpool.engine.code_request import CodeRequest
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path

pytestmark = pytest.mark.anyio
POLICY = """
version = 1
preset = ["no-exfiltration"]

[[label]]
server = "mail"
tool = "read"
returns = ["private"]

[budget.session]
calls = 5
"""
READ = "import servers.mail as mail, servers.web as web; await mail.read(); await web.fetch(); result = 'read'"
SEND = """
import asyncio, servers.mail as mail
calls = await asyncio.gather(*(mail.send(n=n) for n in range(4)))
result = sorted("sent" if call.ok else call.error["type"] for call in calls)
"""


@pytest.fixture
def servers(tmp_path: Path) -> dict[str, Any]:
    def server(name: str, *tools: str, **block: Any) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        (tmp_path / f"{name}.json").write_text(
            json.dumps([{"name": one, "inputSchema": schema} for one in tools]), encoding="utf-8"
        )
        return fixture_server("recorder.py", str(tmp_path / f"{name}.json"), allow=["*"], **block)

    return {
        "mail": server("mail", "read", "send", does=["sends_out"]),
        "web": server("web", "fetch", returns=["untrusted"]),
    }


@pytest.mark.req("D-018")
async def test_a_session_that_has_read_both_sends_nothing_without_a_person(
    servers: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY.replace("calls = 5", "calls = 50"), encoding="utf-8")
    async with open_app(servers, policy=tmp_path / "policy.toml") as app:
        session = app.runtime.session(app.caller_grant)
        read = await session.execute(CodeRequest(code=READ.encode()))
        sent = await session.execute(CodeRequest(code=SEND.encode()))
        await session.close()
        other = app.runtime.session(app.caller_grant)
        free = await other.execute(CodeRequest(code=SEND.encode()))
        await other.close()
        rows = await anyio.to_thread.run_sync(lambda: list(read_rows(journal_path(app.data), run_id=read.run_id)))
    assert (read.data, sent.data) == ("read", ["ApprovalRejected"] * 4)  # the automatic approver does not count
    assert free.data == ["sent"] * 4
    records = [row.to_json() for row in rows]
    assert [record["taken_in"] for record in records if record["kind"] == "call_outcome"] == [
        ["private"],
        ["untrusted"],
    ]


async def test_a_budget_counts_over_the_executions_of_a_session(servers: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY.replace('preset = ["no-exfiltration"]', ""), encoding="utf-8")
    async with open_app(servers, policy=tmp_path / "policy.toml") as app:
        session = app.runtime.session(app.caller_grant)
        first = await session.execute(CodeRequest(code=READ.encode()))
        second = await session.execute(CodeRequest(code=SEND.encode()))
        await session.close()
    assert second.data == ["PolicyDenied", "sent", "sent", "sent"]
    assert "budgets_low" not in first.metrics
    assert second.metrics["budgets_low"] == ["session.calls"]
