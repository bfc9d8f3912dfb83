"""The SQLite file below the queue of approvals: schema, transactions, and what its errors mean.

One connection, opened at first use, guarded by a lock. Blocking; never on the loop.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moonpool.features.approvals.model import ApprovalQueueError
from moonpool.store.outbox import OUTBOX_SCHEMA
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder
from moonpool.store.sqlite_faults import sqlite_fault

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

SCHEMA_VERSION: Final = 4
_BUSY_S: Final = 5.0
_OPEN_ATTEMPT_COUNT: Final = 50

_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS request (
    request_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_id TEXT NOT NULL, principal TEXT NOT NULL,
    server_id TEXT NOT NULL, tool_name TEXT NOT NULL, tool_digest TEXT NOT NULL, arguments TEXT NOT NULL,
    arguments_digest TEXT NOT NULL, reason TEXT NOT NULL, rule_id TEXT NOT NULL, human_only INTEGER NOT NULL,
    cut INTEGER NOT NULL, whole TEXT NOT NULL, server_digest TEXT NOT NULL, server_address TEXT NOT NULL,
    config_file TEXT NOT NULL, code_line INTEGER NOT NULL,
    asked_at REAL NOT NULL, expires_at REAL NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL,
    approver TEXT NOT NULL, note TEXT NOT NULL, answered_at REAL, taken_at REAL
);
CREATE INDEX IF NOT EXISTS request_by_state ON request (state);
CREATE TABLE IF NOT EXISTS standing (
    answer_id TEXT PRIMARY KEY, principal TEXT NOT NULL, server_id TEXT NOT NULL, tool_name TEXT NOT NULL,
    tool_digest TEXT NOT NULL, server_digest TEXT NOT NULL, server_address TEXT NOT NULL, conditions TEXT NOT NULL,
    arguments_digest TEXT NOT NULL, human_only INTEGER NOT NULL, given_by TEXT NOT NULL,
    given_at REAL NOT NULL, expires_at REAL NOT NULL, request_id TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS standing_by_tool ON standing (principal, server_id, tool_name);
{OUTBOX_SCHEMA};
"""

# SECURITY: answers of version 1 do not say which server they were given for, so none of them counts any more.
# Those of version 2 are for the arguments that their conditions name, or any, as whoever gave them was told.
_FROM: Final = {
    1: "DROP TABLE IF EXISTS request; DROP TABLE IF EXISTS standing;",
    2: "ALTER TABLE standing ADD COLUMN arguments_digest TEXT NOT NULL DEFAULT '';",
}


class ApprovalsFile:
    """The file at `path`. Everything raises ApprovalQueueError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def exists(self) -> bool:
        """Whether there is a file; looking makes none."""
        return self._opened is not None or self.path.exists()

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """The connection, to one thread at a time."""
        with self._lock:
            try:
                yield self._connection()
            except sqlite3.Error as exc:
                raise self._error(exc) from exc

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One transaction, taken back on any error."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            try:
                private_folder(self.path.parent)
                create_private_file(self.path)
            except StoreFolderError as exc:
                raise ApprovalQueueError(f"the queue of approvals {self.path} cannot be opened: {exc}") from exc
            except OSError as exc:
                problem = f"cannot be opened: {exc.strerror or exc}"
                raise ApprovalQueueError(f"the queue of approvals {self.path} {problem}") from exc
            opened = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_S, check_same_thread=False)
            try:
                self._prepare(opened)
            except BaseException:
                opened.close()
                raise
            self._opened = opened
        return self._opened

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for attempt in range(_OPEN_ATTEMPT_COUNT):  # switching to WAL does not wait for another process that does so
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError:
                if attempt == _OPEN_ATTEMPT_COUNT - 1:
                    raise
                time.sleep(0.02)
        connection.execute("PRAGMA synchronous=FULL")  # an answer that was told is kept; some builds default to less
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise ApprovalQueueError(
                f"the queue of approvals {self.path} was written by a newer Moonpool; use that one"
            )
        for statement in f"{_FROM.get(version, '')}{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION}".split(";"):
            connection.execute(statement)
        connection.execute("COMMIT")

    def _error(self, cause: sqlite3.Error) -> ApprovalQueueError:
        return ApprovalQueueError(f"the queue of approvals {self.path} {sqlite_fault(cause)}")
