"""What every audit journal does: the SQLite one, its PostgreSQL twin and the one in memory."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.core.audit import JournalError, verify_rows
from moonpool.core.audit_records import ApprovalGrantRecord, AuditRecord
from store.audit_records import intent, outcome, start, transfer
from store.journals import MemoryOpened, Opened, opened_journal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Opened | MemoryOpened]:
    if request.param == "memory":
        yield MemoryOpened()
    else:
        async with opened_journal(request.param, request, tmp_path) as found:
            yield found


async def test_awaited_records_are_stored_in_order_and_chained(opened: Opened | MemoryOpened) -> None:
    entries: list[AuditRecord] = [start(), intent(), outcome()]
    with anyio.fail_after(30):
        for entry in entries:
            await opened.journal.record(entry)
    rows = await opened.rows()
    assert [(row.seq, row.kind, row.run_id) for row in rows] == [
        (1, "execution_start", "r"), (2, "call_intent", "r"), (3, "call_outcome", "r"),
    ]  # fmt: skip
    assert verify_rows(rows).ok


async def test_many_callers_at_once_keep_the_order_of_their_calls(opened: Opened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await asyncio.gather(*(opened.journal.record(outcome(call_id)) for call_id in range(500)))
    rows = await opened.rows()
    assert [row.to_json()["call_id"] for row in rows] == list(range(500))
    assert verify_rows(rows).ok


async def test_a_record_nobody_waits_for_is_kept(opened: Opened | MemoryOpened) -> None:
    opened.journal.record(outcome())
    with anyio.fail_after(30):
        await opened.close()
    assert [row.kind for row in await opened.rows()] == ["call_outcome"]


async def test_a_cancelled_caller_does_not_lose_its_record(opened: Opened | MemoryOpened) -> None:
    async def call() -> None:
        await opened.journal.record(outcome(7))

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with anyio.fail_after(30):
        await opened.journal.record(outcome(8))
    assert [row.to_json()["call_id"] for row in await opened.rows()] == [7, 8]


async def test_a_transfer_is_kept_under_a_name_of_its_own(opened: Opened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await opened.journal.record(transfer())
    (row,) = await opened.rows()
    assert (row.kind, row.run_id, row.to_json()["path"]) == ("file_transfer", "transfer_1", "data/in.csv")
    assert verify_rows([row]).ok


async def test_what_came_through_an_outbox_twice_stands_once(opened: Opened | MemoryOpened) -> None:
    one = ApprovalGrantRecord(run_id="a", at="2026-01-01T00:00:00.000Z", what="removed", approver="terminal:alice")
    with anyio.fail_after(30):
        await asyncio.gather(opened.journal.record(one), opened.journal.record(one))  # in one transaction, perhaps
        await opened.journal.record(one)
        await opened.journal.record(replace(one, what="given"))
    assert [json.loads(row.body)["what"] for row in await opened.rows()] == ["removed", "given"]
    assert verify_rows(await opened.rows()).ok


async def test_after_close_a_record_is_refused(opened: Opened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await opened.close()
    with pytest.raises(JournalError, match="is closed"):
        opened.journal.record(start())


@pytest.mark.req("H-058")
async def test_an_outcome_row_holds_the_audit_fields(opened: Opened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await opened.journal.record(outcome())
    stored = (await opened.rows())[0].to_json()
    assert {
        "at", "code_digest", "server_id", "tool_name", "arguments_digest", "result_bytes", "duration_ms", "verdict",
        "approval", "redactions",
    } <= set(stored)  # fmt: skip
    assert stored["redactions"] == {"TOKEN": 2}
