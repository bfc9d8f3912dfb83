"""The SQLite journal against the world: other processes, kill -9, tampering, locks, full disks, file modes."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import textwrap
from typing import TYPE_CHECKING

import anyio
import pytest

from commands.process import Command
from moonpool.core.audit import JournalError
from moonpool.features.receipts.service import execution_states
from moonpool.features.usage.measures import measure
from moonpool.store.journal import SqliteJournal, open_journal
from moonpool.store.journal_entries import Entry
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import FileJournalReader, read_rows, verify_file
from store.audit_records import intent, outcome

if TYPE_CHECKING:
    from pathlib import Path

APPENDER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from moonpool.store.journal_entries import Entry
    from moonpool.store.journal_file import JournalFile
    file = JournalFile(Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        run = f"{sys.argv[2]}-{number}"
        body = ('{"kind":"call_intent","run_id":"%s"}' % run).encode()
        file.append([Entry("call_intent", run, body)], durable=True)
        print(run, flush=True)
    """
)


def appender(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return Command(["-c", APPENDER, path, name, str(count)], stdout=subprocess.PIPE, encoding="utf-8")


def entry(run_id: str) -> Entry:
    return Entry("call_intent", run_id, f'{{"kind":"call_intent","run_id":"{run_id}"}}'.encode())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "private" / "audit.sqlite3"


@pytest.fixture
def filled(path: Path) -> Path:
    file = JournalFile(path)
    for run_id in "abcdef":
        file.append([entry(run_id)], durable=False)
    file.close()
    return path


def test_two_processes_append_to_one_chain(path: Path) -> None:
    children = [appender(path, name, 150) for name in ("one", "two")]
    for child in children:
        child.communicate(timeout=60)
    assert [child.returncode for child in children] == [0, 0]
    outcome = verify_file(path)
    assert (outcome.ok, outcome.rows) == (True, 300)


def test_kill_9_loses_no_acknowledged_record_and_keeps_the_chain(path: Path) -> None:
    acknowledged: list[str] = []
    for round_number in range(3):
        child = appender(path, f"round{round_number}", 100_000)
        assert child.stdout is not None
        acknowledged += [child.stdout.readline().strip() for _ in range(20 + 7 * round_number)]
        child.kill()
        acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.stdout.close()
        child.wait(timeout=60)
    assert verify_file(path).ok
    assert set(acknowledged) <= {row.run_id for row in read_rows(path)}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET run_id = 'x' WHERE seq = 2",
        "DELETE FROM record WHERE seq = 6",
        "INSERT OR REPLACE INTO record VALUES (2, 'k', 'r', x'', 'h')",
        "INSERT INTO record VALUES (99, 'k', 'r', x'', 'h')",
    ],
)
def test_the_file_refuses_anything_but_appending(filled: Path, statement: str) -> None:
    connection = sqlite3.connect(filled)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "broken_seq", "why"),
    [
        pytest.param("UPDATE record SET body = x'7b7d' WHERE seq = 3", 3, "changed after it was written", id="body"),
        pytest.param("UPDATE record SET run_id = 'z' WHERE seq = 3", 3, "does not agree with its content", id="column"),
        pytest.param("DELETE FROM record WHERE seq = 3", 4, "row 3 is missing", id="removed"),
        pytest.param("UPDATE record SET hash = 'x' WHERE seq = 6", 6, "changed after it was written", id="hash"),
    ],
)
def test_tampering_past_the_triggers_is_found(filled: Path, statement: str, broken_seq: int, why: str) -> None:
    connection = sqlite3.connect(filled)
    connection.executescript("DROP TRIGGER record_is_never_updated; DROP TRIGGER record_is_never_deleted;")
    connection.execute(statement)
    connection.commit()
    connection.close()
    outcome = verify_file(filled)
    assert (outcome.ok, outcome.broken_seq) == (False, broken_seq)
    assert why in outcome.why


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET body = 'text' WHERE seq = 3",
        "UPDATE record SET body = '[1]' WHERE seq = 3",
        """UPDATE record SET body = CAST('{"kind": "other", "run_id": 5, "seq": 9}' AS BLOB) WHERE seq = 3""",
        """UPDATE record SET body = CAST('{"duration_ms": 1e999}' AS BLOB) WHERE seq = 3""",
        "UPDATE record SET body = CAST(printf('{\"duration_ms\": 1%.400c}', '0') AS BLOB) WHERE seq = 3",
        "UPDATE record SET kind = x'00ff', run_id = x'00ff', hash = x'00ff' WHERE seq = 3",
    ],
    ids=["text", "list", "other columns", "infinite", "huge", "blobs"],
)
def test_a_row_that_is_none_of_ours_stops_no_reader(filled: Path, statement: str) -> None:
    connection = sqlite3.connect(filled)
    connection.executescript("DROP TRIGGER record_is_never_updated; DROP TRIGGER record_is_never_deleted;")
    connection.execute(statement)
    connection.commit()
    connection.close()
    rows = list(read_rows(filled))
    execution_states(FileJournalReader(filled), rows)
    for row in rows:
        record = row.to_json()
        json.dumps(record, allow_nan=False)
        assert (record["seq"], record["kind"], record["run_id"]) == (row.seq, row.kind, row.run_id)
    measure(row.to_json() for row in rows)
    assert not verify_file(filled).ok


def test_a_cut_off_end_is_found_with_a_noted_head(filled: Path) -> None:
    noted = verify_file(filled)
    connection = sqlite3.connect(filled)
    connection.executescript("DROP TRIGGER record_is_never_deleted; DELETE FROM record WHERE seq > 4;")
    connection.close()
    assert verify_file(filled).ok
    assert "cut off" in verify_file(filled, anchor=(noted.rows, noted.head)).why


def test_rows_can_be_read_by_run_and_from_the_end(filled: Path) -> None:
    assert [row.run_id for row in read_rows(filled, tail=2)] == ["e", "f"]
    assert [row.seq for row in read_rows(filled, run_id="c")] == [3]
    assert [row.seq for row in read_rows(filled, run_id="c", tail=5)] == [3]


def test_a_missing_journal_is_one_sentence(path: Path) -> None:
    with pytest.raises(JournalError, match=r"there is no audit journal at .*; it is made by the first execution"):
        list(read_rows(path))


def test_only_the_owner_can_read_it(filled: Path) -> None:
    file = JournalFile(filled)
    file.append([entry("g")], durable=True)
    modes = {item.name: oct(item.stat().st_mode & 0o777) for item in filled.parent.iterdir()}
    file.close()
    assert oct(filled.parent.stat().st_mode & 0o777) == "0o700"
    assert set(modes.values()) == {"0o600"}


def test_loose_modes_are_tightened(filled: Path) -> None:
    filled.chmod(0o644)
    filled.parent.chmod(0o755)
    JournalFile(filled).close()
    assert (filled.stat().st_mode & 0o077, filled.parent.stat().st_mode & 0o077) == (0, 0)


def test_a_damaged_file_is_one_sentence(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, although it is long enough to look like one " * 100)
    with pytest.raises(JournalError, match="is damaged; keep it as evidence"):
        JournalFile(path)


def test_a_folder_in_its_place_is_named_as_one(path: Path) -> None:
    path.mkdir(parents=True)
    for use in (lambda: JournalFile(path), lambda: verify_file(path)):
        with pytest.raises(JournalError, match="is a folder; remove it"):
            use()


def test_an_anchor_that_does_not_fit_is_not_counted_among_the_whole_records(filled: Path) -> None:
    outcome = verify_file(filled, anchor=(2, "0" * 64))
    assert (outcome.broken_seq, outcome.rows) == (2, 1)


def test_a_newer_file_is_refused(filled: Path) -> None:
    connection = sqlite3.connect(filled)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(JournalError, match="written by a newer Moonpool"):
        JournalFile(filled)


def test_a_full_disk_is_one_sentence_and_keeps_nothing_of_the_batch(filled: Path) -> None:
    file = JournalFile(filled)
    pages = file._connection.execute("PRAGMA page_count").fetchone()[0]
    file._connection.execute(f"PRAGMA max_page_count={pages}")
    big = Entry("call_intent", "big", b"x" * 100_000)
    with pytest.raises(JournalError, match="the disk is full; free some space"):
        file.append([entry("g"), big], durable=True)
    file.append([entry("h")], durable=True)
    file.close()
    assert [row.run_id for row in read_rows(filled, tail=2)] == ["f", "h"]


@pytest.mark.anyio
async def test_a_locked_file_fails_the_record_and_the_journal_recovers(filled: Path) -> None:
    blocker = sqlite3.connect(filled, isolation_level=None)
    with anyio.fail_after(30):
        async with open_journal(filled, busy_timeout_s=0.05) as journal:
            blocker.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalError, match="locked by another process"):
                await _record(journal, "g")
            blocker.execute("ROLLBACK")
            await _record(journal, "h")
    blocker.close()
    assert [row.run_id for row in read_rows(filled, tail=2)] == ["f", "h"]


@pytest.mark.anyio
async def test_a_full_queue_refuses_beginnings_but_takes_outcomes(filled: Path) -> None:
    blocker = sqlite3.connect(filled, isolation_level=None)
    with anyio.fail_after(30):
        async with open_journal(filled, queue_count_max=3) as journal:
            blocker.execute("BEGIN IMMEDIATE")
            begun = [journal.record(intent(number)) for number in range(3)]
            with pytest.raises(JournalError, match="the disk is too slow"):
                journal.record(intent(4))
            ended = journal.record(outcome(1))
            blocker.execute("ROLLBACK")
            await asyncio.gather(*begun, ended)
    blocker.close()
    assert verify_file(filled).rows == 10


async def _record(journal: SqliteJournal, run_id: str) -> None:
    await journal.record(intent(1, run_id))


def test_a_copy_taken_while_running_verifies(filled: Path, tmp_path: Path) -> None:
    file = JournalFile(filled)
    file.append([entry("g")], durable=True)
    copy = tmp_path / "copy"
    shutil.copytree(filled.parent, copy)
    file.close()
    assert verify_file(copy / filled.name).rows == 7
