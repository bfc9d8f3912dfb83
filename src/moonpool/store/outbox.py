"""Transactional outbox: records of changes in one SQLite file on their way into the audit journal, which is another.

1. One transaction makes the change and puts its record into the table `outbox` of the same file.
2. The record is appended to the journal, and waits for the disk. No transaction is open meanwhile.
3. A second transaction removes it from the outbox. A journal that refuses the record makes it undo the change, too.

INVARIANT: what a record in the outbox is about is not in force. Readers leave it out (`PENDING`), so nothing counts
before it is on record. What a process leaves that dies between the steps is delivered by the next one that
looks (`deliver_left`): the record then stands in the journal once, as that knows it by its bytes (`Entry.once`).
Nobody else delivers or undoes a record whose process lives. Blocking; see docs/decisions/0056.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import JournalError, record_bytes
from moonpool.core.audit_records import ApprovalGrantRecord, OutboxRecord, PlanRecord
from moonpool.store.process_marks import is_gone, own_mark

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_log = logging.getLogger(__name__)

OUTBOX_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS outbox (
    body BLOB PRIMARY KEY, kind TEXT NOT NULL, run_id TEXT NOT NULL, owner TEXT NOT NULL
)"""
PENDING: Final = "(SELECT run_id FROM outbox)"
"""Ids of what is not in force yet."""
_TYPES: Final = {kind.kind: kind for kind in (ApprovalGrantRecord, PlanRecord)}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record, and what appends it to the journal or raises JournalError: then it was not kept. Blocking."""

    record: OutboxRecord
    write: Callable[..., None]


class Outbox:
    """The table `outbox` of one file. `transaction` opens one there, and its errors are those of the file."""

    def __init__(self, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
        self._transaction = transaction

    @staticmethod
    def put(connection: sqlite3.Connection, record: OutboxRecord) -> None:
        """Step 1, within the transaction of the change."""
        row = (record_bytes(record), record.kind, record.run_id, own_mark())
        connection.execute("INSERT INTO outbox (body, kind, run_id, owner) VALUES (?, ?, ?, ?)", row)

    def deliver(self, delivery: Delivery, undo: Callable[[sqlite3.Connection], object]) -> None:
        """Steps 2 and 3. Raises JournalError: the change was undone.

        After any other error nobody knows what the journal holds. The change stays pending until this process ended.
        """
        try:
            delivery.write(delivery.record)
        except JournalError:
            with self._transaction() as connection:
                undo(connection)
                _remove(connection, record_bytes(delivery.record))
            raise
        with self._transaction() as connection:
            _remove(connection, record_bytes(delivery.record))

    def deliver_left(self, write: Callable[..., None]) -> None:
        """Deliver the records of processes that ended. One that cannot be delivered stays, and what it is about too."""
        with self._transaction() as connection:
            rows = connection.execute("SELECT body, kind, owner FROM outbox ORDER BY rowid").fetchall()
        for body, kind, owner in rows:
            if not is_gone(owner):
                continue
            try:
                members = json.loads(body)
                del members["kind"]
                write(_TYPES[kind](**members))
            except (JournalError, ValueError, KeyError, TypeError) as error:
                _log.warning("a record that an ended process left cannot be written to the journal: %s", error)
                return  # in order
            with self._transaction() as connection:
                _remove(connection, body)


def _remove(connection: sqlite3.Connection, body: bytes) -> None:
    connection.execute("DELETE FROM outbox WHERE body = ?", (body,))
