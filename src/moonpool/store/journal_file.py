"""The audit journal as an SQLite file: schema, appending a batch, reading and verifying. Blocking.

INVARIANT: rows are only ever appended, with seq 1, 2, 3, … without gaps. Triggers refuse everything else, so that
mistakes are noticed; against a person who can write the file only the hash chain helps (`moonpool.core.audit`). Several
processes may append: the head is read inside the write transaction that continues it. INVARIANT: nothing is committed
to files that others would not find at the path (`opened_files`), nor after a head that does not continue the last one
that this connection saw. In that case no more records are written, and no call continues.

`user_version` is the schema version. Data for replays is in recordings: `moonpool.features.recordings.writer`. The
writer is `moonpool.store.journal`.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from moonpool.core.audit import (
    GENESIS,
    AuditRow,
    ChainOutcome,
    JournalError,
    JournalLostError,
    chain_hash,
    record_bytes,
    verify_rows,
)
from moonpool.core.audit_records import OutboxRecord
from moonpool.store.opened_files import OpenedFiles
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from moonpool.core.audit_records import AuditRecord

_log = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 1
_BEGUN: Final = "audit.begun"
"""An empty file beside the journal. It stays if the journal is removed, so that a new journal does not
begin unnoticed.
"""
_OPEN_ATTEMPT_COUNT: Final = 50
_OPEN_TIMEOUT_S: Final = 5.0
_SEQ_MAX: Final = 2**62

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS record (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    run_id TEXT NOT NULL,
    body BLOB NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS record_by_run ON record (run_id);
CREATE TRIGGER IF NOT EXISTS record_is_never_updated BEFORE UPDATE ON record
BEGIN SELECT RAISE(ABORT, 'the audit journal is append-only'); END;
CREATE TRIGGER IF NOT EXISTS record_is_never_deleted BEFORE DELETE ON record
BEGIN SELECT RAISE(ABORT, 'the audit journal is append-only'); END;
CREATE TRIGGER IF NOT EXISTS record_is_only_appended BEFORE INSERT ON record
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM record)
BEGIN SELECT RAISE(ABORT, 'the audit journal is append-only'); END;
"""
_TYPES: Final = {"seq": "integer", "kind": "text", "run_id": "text", "body": "blob", "hash": "text"}


class Entry(NamedTuple):
    """One encoded record to append."""

    kind: str
    run_id: str
    body: bytes
    once: bool = False  # not appended if an identical record exists


def entry_of(record: AuditRecord) -> Entry:
    return Entry(record.kind, record.run_id, record_bytes(record), once=isinstance(record, OutboxRecord))


class JournalFile:
    """One connection that appends. Used by one thread at a time."""

    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0, checkpoints: bool = True) -> None:
        """`checkpoints` false: never checkpoint the write-ahead log, which would wait for the disk."""
        self.path = path
        self._synchronous = ""
        self._seen = (0, GENESIS)  # the last head
        try:
            private_folder(path.parent)
            if warning := lost_journal_warning(path):
                _log.warning("%s", warning)
            create_private_file(path)
            create_private_file(path.with_name(_BEGUN))
            self._connection = sqlite3.connect(
                path,
                isolation_level=None,
                timeout=max(busy_timeout_s, _OPEN_TIMEOUT_S),
                check_same_thread=False,
                cached_statements=32,
            )
        except (OSError, StoreFolderError, sqlite3.Error) as exc:
            raise journal_error(path, exc) from exc
        try:
            self._prepare()
            if not checkpoints:
                self._connection.execute("PRAGMA wal_autocheckpoint=0")
            self._connection.execute(f"PRAGMA busy_timeout={int(busy_timeout_s * 1000)}")
            self._files = OpenedFiles(path)
            self._seen = self._head()
        except (OSError, sqlite3.Error, JournalError) as exc:
            self._connection.close()
            raise journal_error(path, exc) from exc

    def append(self, entries: Sequence[Entry], *, durable: bool) -> None:
        """Commit `entries` as one transaction; `durable` waits for the disk. Raises JournalError; then nothing is
        committed.
        """
        try:
            self._wait_for_disk(durable=durable)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                head = self._insert(entries)
                self._check_files()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._seen = head
            self._files.note_log()
        except sqlite3.Error as exc:
            raise self._error(exc) from exc

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file as far as readers and writers let it. Raises JournalError."""
        self._check_files()  # a checkpoint would restore the length of a truncated file
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as exc:
            raise self._error(exc) from exc

    def close(self) -> None:
        self._connection.close()

    def _insert(self, entries: Sequence[Entry]) -> tuple[int, str]:
        """Insert after the head; return the new head."""
        head = seq, previous = self._head()
        if head != self._seen and not self._holds(self._connection, self._seen):
            raise self._lost(f"it no longer holds record {self._seen[0]} as this process saw it")
        rows: list[tuple[int, str, str, bytes, str]] = []
        for entry in entries:
            if entry.once and (self._stands(entry) or any(row[3] == entry.body for row in rows)):
                continue
            seq += 1
            previous = chain_hash(previous, seq, entry.body)
            rows.append((seq, entry.kind, entry.run_id, entry.body, previous))
        if not rows:
            return head
        kept = self._connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?)", rows).rowcount
        if kept != len(rows) or self._head() != (seq, previous):  # a foreign trigger interfered
            raise self._lost(f"it did not take all of {len(rows)} records")
        return seq, previous

    def _stands(self, entry: Entry) -> bool:
        query = "SELECT 1 FROM record WHERE run_id = ? AND kind = ? AND body = ?"
        return self._connection.execute(query, (entry.run_id, entry.kind, entry.body)).fetchone() is not None

    def _head(self) -> tuple[int, str]:
        found = self._connection.execute("SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1").fetchone()
        if found is None:
            return 0, GENESIS
        seq, digest = found
        if not (isinstance(seq, int) and isinstance(digest, str) and 1 <= seq <= _SEQ_MAX):
            raise self._lost(f"its last record has the number {str(seq)[:40]!r}, which none of ours has")
        return seq, digest

    @staticmethod
    def _holds(connection: sqlite3.Connection, head: tuple[int, str]) -> bool:
        """Whether an earlier head still exists."""
        seq, digest = head
        return not seq or connection.execute("SELECT hash FROM record WHERE seq = ?", (seq,)).fetchone() == (digest,)

    def _check_files(self) -> None:
        if fault := self._files.fault():
            raise self._lost(fault)
        if not self._files.log_is_shorter:
            return
        try:
            with _reading(self.path) as connection:  # a connection with an empty cache, so that it reads the files
                there = self._holds(connection, self._seen)
        except JournalError:
            there = False
        if not there:
            raise self._lost(f"{self.path}-wal was cut off, and with it record {self._seen[0]}")

    def _error(self, cause: sqlite3.Error) -> JournalError:
        fault = self._files.fault()
        return self._lost(fault) if fault else journal_error(self.path, cause)

    def _lost(self, why: str) -> JournalError:
        return JournalLostError(
            f"audit journal {self.path} is not the one that this process wrote to: {why}. Nothing is recorded "
            "any more, so nothing is called: put the file back, or keep what is left as evidence and end this process "
            "(a named session: `moonpool session close NAME`); the next one begins a new journal"
        )

    def _wait_for_disk(self, *, durable: bool) -> None:
        mode = "FULL" if durable else "NORMAL"
        if mode != self._synchronous:
            self._connection.execute(f"PRAGMA synchronous={mode}")
            self._synchronous = mode

    def _prepare(self) -> None:
        mode = ""
        # switching to WAL does not wait for another process that switches, too
        for attempt in range(_OPEN_ATTEMPT_COUNT):
            try:
                (mode,) = self._connection.execute("PRAGMA journal_mode=WAL").fetchone()
                break
            except sqlite3.OperationalError:
                if attempt == _OPEN_ATTEMPT_COUNT - 1:
                    raise
                time.sleep(0.02)
        if mode != "wal":
            problem = "is on a file system that cannot share memory between processes"
            raise JournalError(f"audit journal {self.path} {problem}; choose another data folder: MOONPOOL_DATA_DIR")
        self._connection.executescript(f"BEGIN IMMEDIATE;\n{_SCHEMA}\nCOMMIT;")
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise JournalError(f"audit journal {self.path} was written by a newer Moonpool; use that one")
        self._connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def lost_journal_warning(path: Path) -> str:
    """A warning if a new journal begins although there was one before; otherwise empty."""
    if path.exists() or not path.with_name(_BEGUN).exists():
        return ""
    return f"there was an audit journal at {path}, and there is none any more: a new one begins"


@contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection]:
    if not path.exists():
        raise JournalError(f"there is no audit journal at {path}; it is made by the first execution")
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as exc:
        raise journal_error(path, exc) from exc


def read_rows(path: Path, *, run_id: str | None = None, tail: int | None = None, after: int = 0) -> Generator[AuditRow]:
    """Rows in order: all, or those of one run, or those `after` a row; of these the last `tail`.

    Raises JournalError.
    """
    where = "seq > :after" if run_id is None else "seq > :after AND run_id = :run_id"
    query = f"SELECT seq, kind, run_id, body, hash FROM record WHERE {where} ORDER BY seq"  # noqa: S608  `where` is ours
    if tail is not None:
        query = f"SELECT * FROM ({query} DESC LIMIT :tail) ORDER BY seq"  # noqa: S608
    with _reading(path) as connection:
        for seq, kind, run, body, digest in connection.execute(query, {"run_id": run_id, "tail": tail, "after": after}):
            yield _row(seq, kind, run, body, digest)


def read_run(path: Path, run_id: str) -> list[tuple[str, AuditRow]]:
    """The rows of one execution in order, each with the hash of the row before it. Raises JournalError."""
    query = (
        "SELECT r.seq, r.kind, r.run_id, r.body, r.hash, p.hash FROM record r "
        "LEFT JOIN record p ON p.seq = r.seq - 1 WHERE r.run_id = ? ORDER BY r.seq"
    )
    with _reading(path) as connection:
        return [
            (_text(previous or GENESIS), _row(seq, kind, run, body, digest))
            for seq, kind, run, body, digest, previous in connection.execute(query, (run_id,))
        ]


def ended_runs(path: Path, run_ids: Sequence[str]) -> set[str]:
    """The members of `run_ids` whose end is on record. Raises JournalError."""
    with _reading(path) as connection:
        query = "SELECT 1 FROM record WHERE run_id = ? AND kind = 'execution_end'"
        return {one for one in run_ids if connection.execute(query, (one,)).fetchone() is not None}


def newest_run(path: Path) -> str | None:
    """The newest execution that is no replay, or None. Raises JournalError."""
    query = "SELECT run_id, body FROM record WHERE kind = 'execution_start' ORDER BY seq DESC"
    with _reading(path) as connection:
        rows = connection.execute(query)
        return next((_text(run_id) for run_id, body in rows if not _is_replay(_bytes(body))), None)


def has_row(path: Path, run_id: str, kind: str) -> bool:
    """Whether there is a record of this kind under this id. Raises JournalError."""
    with _reading(path) as connection:
        found = connection.execute("SELECT 1 FROM record WHERE run_id = ? AND kind = ?", (run_id, kind)).fetchone()
    return found is not None


def verify_file(path: Path, *, anchor: tuple[int, str] | None = None) -> ChainOutcome:
    """Verify the whole chain of the journal at `path`. Raises JournalError if it cannot be read at all."""
    return verify_rows(stored_rows(path), anchor=anchor)


def stored_rows(path: Path) -> Generator[AuditRow]:
    """All rows of the table, including invalid ones: with a number below 1, without a number, or with a string.

    A row with columns of wrong types has no content. Raises JournalError.
    """
    sound = " AND ".join(f"typeof({name}) = '{kind}'" for name, kind in _TYPES.items())
    query = f"SELECT seq, kind, run_id, body, hash, {sound} FROM record ORDER BY seq"  # noqa: S608  names of ours
    with _reading(path) as connection:
        for seq, kind, run, body, digest, is_sound in connection.execute(query):
            number = seq if isinstance(seq, int) else 0
            if is_sound:
                yield AuditRow(seq=number, kind=kind, run_id=run, body=body, hash=digest)
            else:
                yield AuditRow(seq=number, kind="", run_id="", body=b"", hash="")


def journal_error(path: Path, cause: Exception) -> JournalError:
    """The JournalError for an SQLite error, with the remedy."""
    if isinstance(cause, JournalError):
        return cause
    text = str(cause)
    if path.is_dir():
        remedy = "is a folder; remove it, Moonpool then starts a journal there"
    elif isinstance(cause, OSError):
        remedy = f"cannot be used: {cause.strerror or cause}"
    elif "disk I/O" in text:  # SQLite's message for several causes, such as no space for its shared memory
        remedy = "cannot be used: disk I/O error. Its disk may be full: free some space and try again"
    elif "locked" in text or "busy" in text:
        remedy = "is locked by another process; end that process, or wait until it is done, and try again"
    elif "full" in text:
        remedy = "cannot grow because the disk is full; free some space and try again"
    elif "malformed" in text or "not a database" in text:
        remedy = "is damaged; keep it as evidence under another name, Moonpool then starts a new one"
    else:
        remedy = f"cannot be used: {text}"
    return JournalError(f"audit journal {path} {remedy}")


def _row(seq: object, kind: object, run_id: object, body: object, digest: object) -> AuditRow:
    """A row for readers; in a file that was tampered with any column may hold any type."""
    number = seq if isinstance(seq, int) else 0
    return AuditRow(seq=number, kind=_text(kind), run_id=_text(run_id), body=_bytes(body), hash=_text(digest))


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _is_replay(body: bytes) -> bool:
    try:
        return bool(json.loads(body).get("replay_of"))
    except (ValueError, AttributeError, RecursionError):  # no record of ours; `audit verify` says so
        return True


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
