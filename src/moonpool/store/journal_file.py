"""The audit journal as an SQLite file: schema, appending a batch. Blocking; never on the loop.

INVARIANT: rows are only ever appended, with seq 1, 2, 3, … without gaps. Triggers refuse everything else, so that
mistakes are noticed; against a person who can write the file only the hash chain helps (`moonpool.core.audit`). Several
processes may append: the head is read inside the write transaction that continues it. INVARIANT: nothing is committed
to files that others would not find at the path (`opened_files`), nor after a head that does not continue the last one
that this connection saw. In that case no more records are written, and no call continues.

`user_version` is the schema version. Reading and verifying: `moonpool.store.journal_reading`. Data for replays is in
recordings: `moonpool.features.recordings.writer`. The writer is `moonpool.store.journal`.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import (
    GENESIS,
    JournalError,
    JournalLostError,
    chain_hash,
)
from moonpool.store.journal_reading import journal_error, reading
from moonpool.store.opened_files import OpenedFiles
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.store.journal_entries import Entry

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
            with reading(self.path) as connection:  # a connection with an empty cache, so that it reads the files
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
            "(named sessions: `moonpool session close --all`); the next one begins a new journal"
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
