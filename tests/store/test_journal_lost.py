"""The journal is the file that was opened: removed, replaced or cut off under its writer, nothing more is recorded.

And what SQLite itself does to the three files, in several processes at once, is no such thing.
"""

# ruff: noqa: S608  statements of constants, on files of ours
from __future__ import annotations

import shutil
import sqlite3
import subprocess
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from commands.process import Command
from moonpool.core.audit import JournalError, JournalLostError, chain_hash
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.redaction.redactor import Redactor
from moonpool.store.journal import open_journal
from moonpool.store.journal_entries import Entry
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import read_rows, verify_file
from pipeline.test_pipeline import Bench, type_of
from store.audit_records import intent, outcome
from tables import check_rows, every_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAME = "audit.sqlite3"
_FIRST_FRAME_BYTES = 32 + 24 + 4096
APPENDER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from moonpool.store.journal_entries import Entry
    from moonpool.store.journal_file import JournalFile
    for start in range(0, int(sys.argv[3]), 15):
        file = JournalFile(Path(sys.argv[1]))
        for number in range(start, start + 15):
            run = f"{sys.argv[2]}-{number}"
            body = ('{"kind":"call_intent","run_id":"%s"}' % run).encode()
            file.append([Entry("call_intent", run, body)], durable=number % 5 == 0)
            if number % 4 == 0:
                file.checkpoint()
        file.close()
        print(start, flush=True)
    """
)


def entry(run_id: str) -> Entry:
    return Entry("call_intent", run_id, f'{{"kind":"call_intent","run_id":"{run_id}"}}'.encode())


def opened(folder: Path) -> JournalFile:
    """A journal with six records, three of them in the database itself."""
    file = JournalFile(folder / "private" / NAME)
    for run_id in "abcdef":
        file.append([entry(run_id)], durable=False)
        if run_id == "c":
            file.checkpoint()
    return file


def numbered(rows: Sequence[Any], *members: str) -> list[tuple[str, dict[str, Any]]]:
    """Rows for `check_rows`, each with a `number` that names a folder of its own."""
    return [(row.id, {"number": at, **dict(zip(members, row.values, strict=True))}) for at, row in enumerate(rows)]


def sql(path: Path, script: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def replace_by_copy(path: Path) -> None:
    shutil.copy(path, beside(path, ".copy"))
    beside(path, ".copy").replace(path)


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def unguarded(script: str) -> Callable[[Path], None]:
    free = "DROP TRIGGER record_is_never_updated; DROP TRIGGER record_is_never_deleted;"
    return lambda path: sql(path, f"{free} {script}")


def put_back_older(path: Path) -> None:
    """An older state of the whole journal, written over the present one."""
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE);")
    older = sqlite3.connect(":memory:")
    older.execute("CREATE TABLE record (seq INTEGER PRIMARY KEY, kind TEXT, run_id TEXT, body BLOB, hash TEXT)")
    older.commit()
    path.write_bytes(older.serialize())
    older.close()


def other_last_record(path: Path) -> None:
    rows = list(read_rows(path))
    body = b'{"kind":"call_intent","run_id":"other"}'
    digest = chain_hash(rows[-2].hash, 6, body)
    unguarded(
        "DELETE FROM record WHERE seq = 6;"
        f"INSERT INTO record VALUES (6, 'call_intent', 'other', x'{body.hex()}', '{digest}');"
        f"INSERT INTO record VALUES (7, 'call_intent', 'other', x'{body.hex()}', '{chain_hash(digest, 7, body)}');"
    )(path)


LOSSES = [
    pytest.param(lambda path: path.unlink(), f"{NAME} was removed", id="removed"),
    pytest.param(lambda path: beside(path, "-wal").unlink(), f"{NAME}-wal was removed", id="log removed"),
    pytest.param(lambda path: beside(path, "-shm").unlink(), f"{NAME}-shm was removed", id="index of the log removed"),
    pytest.param(lambda path: path.parent.rename(path.parent.with_name("b")), "was removed", id="folder moved away"),
    pytest.param(lambda path: [one.unlink() for one in path.parent.iterdir()], "was removed", id="all removed"),
    pytest.param(replace_by_copy, f"{NAME} was replaced", id="replaced by a copy of itself"),
    pytest.param(lambda path: replace_by_copy(beside(path, "-wal")), "-wal was replaced", id="log replaced"),
    pytest.param(lambda path: replace_by_copy(beside(path, "-shm")), "-shm was replaced", id="index replaced"),
    pytest.param(lambda path: cut(path, 0), f"{NAME} was cut off", id="emptied"),
    pytest.param(lambda path: cut(path, path.stat().st_size - 1), f"{NAME} was cut off", id="a byte cut off"),
    pytest.param(
        lambda path: cut(beside(path, "-wal"), 0), "cannot be used|-wal was cut off|damaged", id="log emptied"
    ),
    pytest.param(
        lambda path: cut(beside(path, "-wal"), _FIRST_FRAME_BYTES),
        "cannot be used|-wal was cut off|damaged",
        id="end of the log cut off",
    ),
    pytest.param(put_back_older, "cut off|damaged|no longer holds", id="an older state in its place"),
    pytest.param(unguarded("DELETE FROM record WHERE seq = 6;"), "no longer holds record 6", id="last record gone"),
    pytest.param(unguarded("DELETE FROM record;"), "no longer holds record 6", id="all records gone"),
    pytest.param(other_last_record, "no longer holds record 6", id="another last record, and one behind it"),
    pytest.param(
        lambda path: sql(path, "CREATE TRIGGER t BEFORE INSERT ON record BEGIN SELECT RAISE(IGNORE); END;"),
        "did not take all of 1 records",
        id="records are swallowed",
    ),
    pytest.param(
        unguarded("CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record WHERE seq = NEW.seq; END;"),
        "did not take all of 1 records",
        id="records are taken out again",
    ),
]


def test_nothing_is_recorded_in_a_file_that_is_not_the_one_that_was_opened(tmp_path: Path) -> None:
    def check(number: int, damage: Callable[[Path], object], told: str) -> None:
        file = opened(tmp_path / str(number))
        damage(file.path)
        for _ in range(2):
            with pytest.raises(JournalError, match=told) as caught:
                file.append([entry("g")], durable=False)
            assert str(file.path) in str(caught.value)
        file.close()

    rows = [
        (str(row.id), {"number": at, "damage": row.values[0], "told": row.values[1]}) for at, row in enumerate(LOSSES)
    ]
    check_rows(rows, check)  # pyright: ignore[reportArgumentType]


def test_a_checkpoint_does_not_hide_that_the_file_was_cut_off(tmp_path: Path) -> None:
    file = opened(tmp_path)
    cut(file.path, 0)
    with pytest.raises(JournalError, match="was cut off"):
        file.checkpoint()
    assert file.path.stat().st_size == 0
    file.close()


def test_a_journal_that_is_put_back_goes_on(tmp_path: Path) -> None:
    file = opened(tmp_path)
    away = file.path.parent.with_name("away")
    file.path.parent.rename(away)
    with pytest.raises(JournalError, match="put the file back"):
        file.append([entry("lost")], durable=True)
    away.rename(file.path.parent)
    file.append([entry("g")], durable=True)
    file.close()
    assert [row.run_id for row in read_rows(file.path)] == [*"abcdefg"]
    assert verify_file(file.path).ok


@every_row("mode", ["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
def test_a_checkpoint_of_another_connection_is_no_loss(tmp_path: Path, mode: str) -> None:
    file = opened(tmp_path / mode)
    for number in range(3):
        sql(file.path, f"PRAGMA wal_checkpoint({mode});")
        file.append([entry(f"g{number}"), entry(f"h{number}")], durable=False)
    file.close()
    assert (verify_file(file.path).ok, verify_file(file.path).rows) == (True, 12)


def test_processes_that_append_open_close_and_checkpoint_at_once_lose_nothing(tmp_path: Path) -> None:
    file = opened(tmp_path)
    children = [
        Command(
            ["-c", APPENDER, file.path, name, "90"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        for name in ("one", "two")
    ]
    mine = 0
    for child in children:
        assert child.stdout is not None
        for _ in child.stdout:  # after each fifteen records of a child
            sql(file.path, "PRAGMA busy_timeout=1000; PRAGMA wal_checkpoint(TRUNCATE);")
            file.append([entry(f"mine-{mine}")], durable=False)
            mine += 1
    errors = [child.communicate(timeout=60)[1] for child in children]
    file.close()
    assert (errors, [child.returncode for child in children]) == (["", ""], [0, 0])
    found = verify_file(file.path)
    assert (found.ok, found.rows, mine) == (True, 6 + 12 + 180, 12)


@pytest.mark.anyio
@every_row("ending", ["", "-wal", "-shm"], ids=["database", "log", "index"])
def test_both_paths_of_the_writer_fail_once_a_file_is_gone(tmp_path: Path, ending: str) -> None:
    async def write() -> None:
        path = tmp_path / f"of{ending}" / NAME
        async with open_journal(path) as journal:
            await journal.record(intent(1))
            await journal.record(outcome(1))
            beside(path, ending).unlink()
            for record in (outcome(2), intent(3), outcome(3)):
                with pytest.raises(JournalError, match=r"audit\.sqlite3(-wal|-shm)? was removed"):
                    await journal.record(record)

    anyio.run(write)


@pytest.mark.anyio
async def test_no_call_goes_on_once_the_journal_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "private" / NAME
    bench = Bench()
    with anyio.fail_after(20):
        async with open_journal(path) as journal:
            bench.pipeline = CallPipeline({"s": bench.upstream}, journal=journal, redactor=Redactor.of_values({}))
            assert [type_of(await bench.call(name)) for name in ("write", "read")] == ["", ""]
            path.unlink()
            called = [await bench.call(name) for name in ("read", "write", "read", "read")]
    assert [(type_of(one), one.raw) for one in called] == [("Internal", None)] * 4
    assert len(bench.upstream.calls) == 3, "only what was on its way when the first record failed"
    assert f"{path} was removed" in caplog.text
    assert "put the file back" in caplog.text
    assert "`moonpool session close --all`" in caplog.text


def test_a_journal_that_is_gone_for_good_is_no_passing_error_and_its_successor_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "private" / NAME
    first = JournalFile(path)
    assert caplog.text == ""
    for end in ("", "-wal", "-shm"):
        beside(path, end).unlink()
    with pytest.raises(JournalLostError) as lost:
        first.append([entry("lost")], durable=False)
    assert not lost.value.retryable
    first.close()
    for _ in range(2):
        JournalFile(path).close()
    assert caplog.text.count(f"there was an audit journal at {path}, and there is none any more") == 1


LOOSE = (
    "DROP TABLE record; CREATE TABLE record (seq, kind, run_id, body, hash);"
    "INSERT INTO record SELECT * FROM kept; DROP TABLE kept;"
)
ROW = "'call_intent', 'x', x'7b7d', 'h'"
FOREIGN = [
    pytest.param(f"INSERT INTO record VALUES (-1, {ROW});", -1, "another program inserted it", id="negative"),
    pytest.param(f"INSERT INTO record VALUES (0, {ROW});", 0, "another program inserted it", id="zero"),
    pytest.param(
        f"INSERT INTO record VALUES ({-(2**63)}, {ROW});",
        -(2**63),
        "another program inserted",
        id="as negative as can be",
    ),
    pytest.param(f"INSERT INTO record VALUES ({2**63 - 1}, {ROW});", 2**63 - 1, "row 7 is missing", id="huge"),
    pytest.param(f"INSERT INTO record VALUES (8, {ROW});", 8, "row 7 is missing", id="behind a gap"),
    pytest.param(f"INSERT INTO record VALUES (7, {ROW});", 7, "changed after", id="behind the head"),
    pytest.param(
        "UPDATE record SET body = CAST(body AS TEXT) WHERE seq = 4;", 4, "changed after", id="text as content"
    ),
    pytest.param("UPDATE record SET hash = CAST(hash AS BLOB) WHERE seq = 4;", 4, "changed after", id="bytes as hash"),
    pytest.param(
        f"{LOOSE} INSERT INTO record VALUES (NULL, {ROW});", 0, "another program inserted", id="without a number"
    ),
    pytest.param(
        f"{LOOSE} INSERT INTO record VALUES ('7', {ROW});", 0, "another program inserted", id="text as number"
    ),
    pytest.param(f"{LOOSE} INSERT INTO record SELECT * FROM record WHERE seq = 2;", 2, "stands twice", id="twice"),
    pytest.param(f"{LOOSE} UPDATE record SET seq = 3.0 WHERE seq = 3;", 0, "another program inserted", id="a fraction"),
]


def test_rows_that_are_none_of_ours_fail_verification(tmp_path: Path) -> None:
    def check(number: int, script: str, broken_seq: int, told: str) -> None:
        file = opened(tmp_path / str(number))
        file.close()
        kept = "CREATE TABLE kept AS SELECT * FROM record;" if "kept" in script else ""
        unguarded(f"DROP TRIGGER record_is_only_appended; {kept} {script}")(file.path)
        found = verify_file(file.path)
        assert (found.ok, found.broken_seq) == (False, broken_seq)
        assert told in found.why

    check_rows(numbered(FOREIGN, "script", "broken_seq", "told"), check)


def test_behind_a_row_that_is_none_of_ours_nothing_is_recorded(tmp_path: Path) -> None:
    file = opened(tmp_path)
    unguarded(f"DROP TRIGGER record_is_only_appended; INSERT INTO record VALUES ({2**63 - 1}, {ROW});")(file.path)
    with pytest.raises(JournalError, match="which none of ours has"):
        file.append([entry("g")], durable=False)
    file.close()


def test_a_body_nested_beyond_reading_is_a_fault_and_no_crash(tmp_path: Path) -> None:
    file = opened(tmp_path)
    head = verify_file(file.path).head
    body = b'{"kind":' * 100_000
    sql(file.path, f"INSERT INTO record VALUES (7, 'k', 'r', x'{body.hex()}', '{chain_hash(head, 7, body)}');")
    file.close()
    assert "does not agree with its content" in verify_file(file.path).why
