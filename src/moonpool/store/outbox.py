"""Transactional outbox: passes records of changes in one SQLite file to the audit journal, which is another file.

1. One transaction makes the change and puts its record into the table `outbox` of the same file.
2. The record is appended to the journal, and waits for the disk. No transaction is open meanwhile.
3. A second transaction removes it from the outbox. If the journal refuses the record, this transaction also undoes the
   change.

INVARIANT: a change with a record in the outbox is not in force. Readers skip it (`PENDING`), so nothing counts before
it is on record. If a process dies between the steps, the next process that calls `deliver_left` delivers its records;
the journal holds each once, since it recognises it by its bytes (`Entry.once`). No process delivers or undoes a record
of another live process. Blocking; see docs/decisions/0056.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import JournalError, JournalUncertainError, record_bytes
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
"""Ids of changes that are not in force yet."""
TYPES: Final = {kind.kind: kind for kind in (ApprovalGrantRecord, PlanRecord)}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record, and a function that appends it to the journal or raises JournalError if it was not
    written. Blocking.
    """

    record: OutboxRecord
    write: Callable[..., None]


class Outbox:
    """The table `outbox` of one file. `transaction` opens a transaction in that file and raises the file's errors."""

    def __init__(self, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
        self._transaction = transaction

    @staticmethod
    def put(connection: sqlite3.Connection, record: OutboxRecord) -> None:
        """Step 1, within the transaction of the change."""
        row = (record_bytes(record), record.kind, record.run_id, own_mark())
        connection.execute("INSERT INTO outbox (body, kind, run_id, owner) VALUES (?, ?, ?, ?)", row)

    def deliver(self, delivery: Delivery, undo: Callable[[sqlite3.Connection], object]) -> None:
        """Steps 2 and 3. Raises JournalError: the change was undone.

        After JournalUncertainError and any other error it is unknown whether the journal has the record. The change
        stays pending until this process has ended.
        """
        try:
            delivery.write(delivery.record)
        except JournalUncertainError:
            raise
        except JournalError:
            with self._transaction() as connection:
                undo(connection)
                _remove(connection, record_bytes(delivery.record))
            raise
        with self._transaction() as connection:
            _remove(connection, record_bytes(delivery.record))

    def deliver_left(self, write: Callable[..., None]) -> None:
        """Deliver the records of processes that ended. A record that cannot be delivered stays, and its change stays
        pending.
        """
        with self._transaction() as connection:
            rows = connection.execute("SELECT body, kind, owner FROM outbox ORDER BY rowid").fetchall()
        for body, kind, owner in rows:
            if not is_gone(owner):
                continue
            try:
                members = json.loads(body)
                del members["kind"]
                write(TYPES[kind](**members))
            except (JournalError, ValueError, KeyError, TypeError) as error:
                _log.warning("a record that an ended process left cannot be written to the journal: %s", error)
                return  # in order
            with self._transaction() as connection:
                _remove(connection, body)


def _remove(connection: sqlite3.Connection, body: bytes) -> None:
    connection.execute("DELETE FROM outbox WHERE body = ?", (body,))
