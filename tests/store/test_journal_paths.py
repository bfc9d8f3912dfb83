"""The two paths of the journal's writer, on the loop and by the thread: one order, no waiting for the disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from itertools import count
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.store.journal import open_journal
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import read_rows, verify_file
from store.audit_records import intent, outcome, start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.store.journal_entries import Entry

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "private" / "audit.sqlite3"


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """What was committed: whether on the loop's own thread, and how many at once."""
    taken: list[tuple[bool, int]] = []
    append = JournalFile.append

    def watched(file: JournalFile, entries: Sequence[Entry], *, durable: bool) -> None:
        append(file, entries, durable=durable)
        taken.append((threading.current_thread() is threading.main_thread(), len(entries)))

    monkeypatch.setattr(JournalFile, "append", watched)
    return taken


async def test_what_need_not_wait_for_the_disk_is_committed_on_the_loop_in_one_go(
    path: Path, paths: list[tuple[bool, int]]
) -> None:
    with anyio.fail_after(30):
        async with open_journal(path) as journal:
            await asyncio.gather(*(journal.record(outcome(number)) for number in range(1, 6)))
    assert paths == [(True, 5)]
    assert verify_file(path).ok


async def test_the_start_of_an_execution_is_committed_at_once_with_what_gathered_before(
    path: Path, paths: list[tuple[bool, int]]
) -> None:
    with anyio.fail_after(30):
        async with open_journal(path) as journal:
            started, called = journal.record(start()), journal.record(outcome())
            assert (started.done(), called.done()) == (True, False)
            next_one = journal.record(start("r2"))
            assert (called.done(), next_one.done()) == (True, True)
    assert paths == [(True, 1), (True, 2)]
    assert [row.kind for row in read_rows(path)] == ["execution_start", "call_outcome", "execution_start"]


async def test_an_intent_goes_to_the_thread_and_everything_after_it_follows(
    path: Path, paths: list[tuple[bool, int]]
) -> None:
    with anyio.fail_after(30):
        async with open_journal(path) as journal:
            await asyncio.gather(
                journal.record(outcome(2)), journal.record(intent()), journal.record(outcome()), journal.record(start())
            )
            await journal.record(start())
    assert [on_loop for on_loop, _ in paths if on_loop] == [True]
    assert paths[-1] == (True, 1)
    kinds = ["call_outcome", "call_intent", "call_outcome", "execution_start", "execution_start"]
    assert [row.kind for row in read_rows(path)] == kinds


async def test_order_holds_whatever_is_mixed(path: Path) -> None:
    with anyio.fail_after(20):
        async with open_journal(path) as journal:
            waiting: list[asyncio.Future[None]] = []
            for number in range(1, 400):
                record = intent if number % 7 == 0 else outcome
                waiting.append(journal.record(record(number, f"r{number}")))
                if number % 11 == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*waiting)
    assert [row.run_id for row in read_rows(path)] == [f"r{number}" for number in range(1, 400)]
    assert verify_file(path).ok


async def test_a_file_that_another_process_has_locked_is_waited_for_by_the_thread(
    path: Path, paths: list[tuple[bool, int]]
) -> None:
    with anyio.fail_after(30):
        async with open_journal(path) as journal:
            blocker = sqlite3.connect(path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            recorded = journal.record(outcome())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not recorded.done()
            blocker.execute("ROLLBACK")
            blocker.close()
            await recorded
    assert paths == [(False, 1)]


async def test_the_write_ahead_log_stays_small(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    with anyio.fail_after(30):
        async with open_journal(path) as journal:
            for number in range(1, 2001):
                await journal.record(outcome(number))
            size = await anyio.to_thread.run_sync(lambda: log.stat().st_size)
    assert size < 16 * 1024**2
    assert verify_file(path).rows == 2000


async def test_after_a_slow_commit_the_thread_takes_over(
    path: Path, paths: list[tuple[bool, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moonpool.store.journal._SLOW_S", -1.0)
    monkeypatch.setattr("moonpool.store.journal._waits", count().__next__)
    with anyio.fail_after(30):
        async with open_journal(path) as journal:
            await journal.record(outcome(1))
            await journal.record(outcome(2))
    assert paths == [(True, 1), (False, 1)]
