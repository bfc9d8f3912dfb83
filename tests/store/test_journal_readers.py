"""What every reader of an audit journal does: of the SQLite file and of PostgreSQL; and what stands on readers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.to_thread import run_sync

from moonpool.core.audit import GENESIS, JournalError, verify_rows
from moonpool.core.audit_records import ExecutionEndRecord
from moonpool.features.receipts.model import State
from moonpool.features.receipts.service import execution_states, make_receipt, verify_receipt
from moonpool.features.receipts.signing_keys import SigningKeys
from moonpool.features.usage.statistics import FollowedJournal, read_measures
from moonpool.store.journal_reading import FileJournalReader
from store.audit_records import intent, outcome, start, transfer
from store.journals import Opened, opened_journal, reader_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.core.audit import JournalReader
    from moonpool.core.audit_records import AuditRecord
    from postgres import PostgresServer

pytestmark = pytest.mark.anyio


def end(run_id: str) -> ExecutionEndRecord:
    return ExecutionEndRecord(
        run_id=run_id, trace_id="t", at="2026-11-21T00:00:01Z", code_digest="sha256:0", duration_ms=12.25, calls=1,
        calls_refused=0, approval="APPROVED", error_type="", output_digest="sha256:7", output_bytes=3,
        envelope_digest="sha256:8",
    )  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Opened]:
    async with opened_journal(request.param, request, tmp_path) as found:
        yield found


async def write(opened: Opened, *entries: AuditRecord) -> None:
    with anyio.fail_after(60):
        for entry in entries:
            await opened.journal.record(entry)


STORY = (
    start("a"), intent(1, "a"), outcome(1, "a"), start("b"), transfer(), end("a"), replace(start("c"), replay_of="a"),
)  # fmt: skip


async def test_rows_are_chosen_by_run_number_and_count(opened: Opened) -> None:
    await write(opened, *STORY)

    def seqs(**chosen: Any) -> list[int]:
        return [row.seq for row in opened.reader.rows(**chosen)]

    def chosen() -> list[list[int]]:
        return [
            seqs(), seqs(run_id="a"), seqs(tail=2), seqs(run_id="a", tail=2), seqs(after=5), seqs(after=2, tail=3),
            seqs(run_id="none"), seqs(after=99), seqs(run_id="none", tail=5), seqs(tail=1000),
        ]  # fmt: skip

    every = [1, 2, 3, 4, 5, 6, 7]
    assert await run_sync(chosen) == [every, [1, 2, 3, 6], [6, 7], [3, 6], [6, 7], [5, 6, 7], [], [], [], every]


async def test_a_run_comes_with_the_hashes_before_its_rows(opened: Opened) -> None:
    await write(opened, *STORY)
    rows = await run_sync(lambda: list(opened.reader.stored_rows()))
    of_a = await run_sync(opened.reader.run, "a")
    assert [row for _, row in of_a] == [rows[0], rows[1], rows[2], rows[5]]
    assert [before for before, _ in of_a] == [GENESIS, rows[0].hash, rows[1].hash, rows[4].hash]
    assert verify_rows(rows).ok


async def test_what_is_asked_of_executions(opened: Opened) -> None:
    await write(opened, *STORY)
    reader = opened.reader
    assert await run_sync(reader.ended, ["a", "b", "none"]) == {"a"}
    assert await run_sync(reader.ended, []) == set()
    assert await run_sync(reader.newest_run) == "b"
    assert await run_sync(reader.has, "a", "call_intent")
    assert not await run_sync(reader.has, "b", "call_intent")


async def test_many_rows_are_read_in_order(opened: Opened) -> None:
    with anyio.fail_after(60):
        for _ in range(5):
            last = [opened.journal.record(outcome(call)) for call in range(500)][-1]
            await last
    rows = await opened.rows()
    assert [row.seq for row in rows] == list(range(1, 2501))
    verdict = await run_sync(opened.reader.verify)
    assert (verdict.ok, verdict.rows, verdict.head) == (True, 2500, rows[-1].hash)


async def test_an_anchor_is_found_or_missed(opened: Opened) -> None:
    await write(opened, *STORY)
    rows = await opened.rows()
    assert (await run_sync(lambda: opened.reader.verify(anchor=(3, rows[2].hash)))).ok
    assert "rewritten" in (await run_sync(lambda: opened.reader.verify(anchor=(3, "0" * 64)))).why
    assert "cut off" in (await run_sync(lambda: opened.reader.verify(anchor=(9, "0" * 64)))).why


async def test_an_empty_journal_is_read(opened: Opened) -> None:
    assert await opened.rows() == []
    assert (await run_sync(opened.reader.verify)).ok
    assert await run_sync(opened.reader.newest_run) is None
    assert (await run_sync(read_measures, opened.reader)).records == 0


async def test_a_receipt_is_made_and_verified(opened: Opened, tmp_path: Path) -> None:
    await write(opened, *STORY)
    keys = SigningKeys(tmp_path / "private" / "keys")
    receipt = await run_sync(make_receipt, opened.reader, keys, "a")
    assert receipt["state"] == State.ENDED
    text = json.dumps(receipt).encode()
    verdict = await run_sync(lambda: verify_receipt(text, keys.known(), journal=opened.reader))
    assert (verdict.ok, verdict.checked) == (True, ("signature", "records", "journal"))
    states = await run_sync(lambda: execution_states(opened.reader, list(opened.reader.rows())))
    assert states == {"a": State.ENDED, "b": State.UNKNOWN, "c": State.UNKNOWN}


async def test_figures_follow_what_is_added(opened: Opened) -> None:
    followed = FollowedJournal(opened.reader)
    assert (await run_sync(followed.measures)).records == 0
    await write(opened, *STORY)
    before = await run_sync(followed.measures)
    await write(opened, start("d"), end("d"))
    after = await run_sync(followed.measures)
    assert (before.records, after.records) == (7, 9)
    assert after == await run_sync(read_measures, opened.reader)


def no_file(folder: Path, _: PostgresServer) -> JournalReader:
    return FileJournalReader(folder / "none")


def no_tables(_: Path, server: PostgresServer) -> JournalReader:
    return reader_of(server.url())


@pytest.mark.parametrize("make", [no_file, no_tables])
async def test_where_there_is_none_everything_says_so(make: Any, tmp_path: Path, postgres: PostgresServer) -> None:
    reader: JournalReader = make(tmp_path, postgres)
    for ask in (reader.newest_run, reader.verify, lambda: list(reader.rows()), lambda: reader.ended(["a"])):
        with pytest.raises(JournalError):
            await run_sync(ask)
