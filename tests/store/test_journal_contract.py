"""What every audit journal does: the SQLite one and its in-memory twin."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.core.audit import AuditRow, Journal, JournalError, verify_rows
from moonpool.core.audit_records import ApprovalGrantRecord, AuditRecord
from moonpool.store.fake import MemoryJournal
from moonpool.store.journal import open_journal
from moonpool.store.journal_reading import read_rows
from store.audit_records import intent, outcome, start, transfer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

pytestmark = pytest.mark.anyio


class SqliteOpened:
    def __init__(self, stack: AsyncExitStack, journal: Journal, path: Path) -> None:
        self.journal, self._stack, self._path = journal, stack, path

    def rows(self) -> list[AuditRow]:
        return list(read_rows(self._path))

    async def close(self) -> None:
        await self._stack.aclose()


class MemoryOpened:
    def __init__(self) -> None:
        self.journal = MemoryJournal()

    def rows(self) -> list[AuditRow]:
        return self.journal.rows

    async def close(self) -> None:
        await self.journal.close()


@pytest.fixture(params=["memory", "sqlite"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SqliteOpened | MemoryOpened]:
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            yield MemoryOpened()
        else:
            path = tmp_path / "private" / "audit.sqlite3"
            yield SqliteOpened(stack, await stack.enter_async_context(open_journal(path)), path)


async def test_awaited_records_are_stored_in_order_and_chained(opened: SqliteOpened | MemoryOpened) -> None:
    entries: list[AuditRecord] = [start(), intent(), outcome()]
    with anyio.fail_after(30):
        for entry in entries:
            await opened.journal.record(entry)
    rows = opened.rows()
    assert [(row.seq, row.kind, row.run_id) for row in rows] == [
        (1, "execution_start", "r"), (2, "call_intent", "r"), (3, "call_outcome", "r"),
    ]  # fmt: skip
    assert verify_rows(rows).ok


async def test_many_callers_at_once_keep_the_order_of_their_calls(opened: SqliteOpened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await asyncio.gather(*(opened.journal.record(outcome(call_id)) for call_id in range(500)))
    rows = opened.rows()
    assert [row.to_json()["call_id"] for row in rows] == list(range(500))
    assert verify_rows(rows).ok


async def test_a_record_nobody_waits_for_is_kept(opened: SqliteOpened | MemoryOpened) -> None:
    opened.journal.record(outcome())
    with anyio.fail_after(30):
        await opened.close()
    assert [row.kind for row in opened.rows()] == ["call_outcome"]


async def test_a_cancelled_caller_does_not_lose_its_record(opened: SqliteOpened | MemoryOpened) -> None:
    async def call() -> None:
        await opened.journal.record(outcome(7))

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with anyio.fail_after(30):
        await opened.journal.record(outcome(8))
    assert [row.to_json()["call_id"] for row in opened.rows()] == [7, 8]


async def test_a_transfer_is_kept_under_a_name_of_its_own(opened: SqliteOpened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await opened.journal.record(transfer())
    (row,) = opened.rows()
    assert (row.kind, row.run_id, row.to_json()["path"]) == ("file_transfer", "transfer_1", "data/in.csv")
    assert verify_rows([row]).ok


async def test_what_came_through_an_outbox_twice_stands_once(opened: SqliteOpened | MemoryOpened) -> None:
    one = ApprovalGrantRecord(run_id="a", at="2026-01-01T00:00:00.000Z", what="removed", approver="terminal:alice")
    with anyio.fail_after(30):
        await asyncio.gather(opened.journal.record(one), opened.journal.record(one))  # in one transaction, perhaps
        await opened.journal.record(one)
        await opened.journal.record(replace(one, what="given"))
    assert [json.loads(row.body)["what"] for row in opened.rows()] == ["removed", "given"]
    assert verify_rows(opened.rows()).ok


async def test_after_close_a_record_is_refused(opened: SqliteOpened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await opened.close()
    with pytest.raises(JournalError, match="is closed"):
        opened.journal.record(start())


@pytest.mark.req("H-058")
async def test_an_outcome_row_holds_the_audit_fields(opened: SqliteOpened | MemoryOpened) -> None:
    with anyio.fail_after(30):
        await opened.journal.record(outcome())
    stored = opened.rows()[0].to_json()
    assert {
        "at", "code_digest", "server_id", "tool_name", "arguments_digest", "result_bytes", "duration_ms", "verdict",
        "approval", "redactions",
    } <= set(stored)  # fmt: skip
    assert stored["redactions"] == {"TOKEN": 2}
