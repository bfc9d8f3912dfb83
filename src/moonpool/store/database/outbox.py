"""The transactional outbox in the service's database: as `moonpool.store.outbox`, whose steps and invariants hold here.

A process of another machine cannot be looked at, so a record is taken for one that an ended process left once it has
waited for `DELIVERED_WITHIN_S`. INVARIANT: a change is undone by the transaction that removes its record, and only
while that is still there: so a process that slept meanwhile does not undo what another has put on record for it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select

from moonpool.core.audit import JournalError, JournalUncertainError, record_bytes
from moonpool.store.database.blocking import SERVER_NOW
from moonpool.store.database.tables import OUTBOX
from moonpool.store.outbox import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Select

    from moonpool.core.audit_records import OutboxRecord
    from moonpool.store.database.blocking import TenantRows
    from moonpool.store.outbox import Delivery

_log = logging.getLogger(__name__)
DELIVERED_WITHIN_S: float = 60.0
"""Several times as long as a journal tries to write."""
_LEFT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class DatabaseOutbox:
    """The records of one kind of change of one organisation."""

    rows: TenantRows
    kind: str  # of the records

    def pending(self) -> Select[tuple[str]]:
        """Ids of changes that are not in force yet."""
        own = OUTBOX.c.organisation_id == self.rows.organisation_id
        return select(OUTBOX.c.change_id).where(own, OUTBOX.c.kind == self.kind)

    def put(self, connection: Connection, record: OutboxRecord) -> None:
        """Step 1, within the transaction of the change."""
        values = {
            "organisation_id": self.rows.organisation_id,
            "change_id": record.run_id,
            "kind": record.kind,
            "body": record_bytes(record),
            "put_at": SERVER_NOW,
        }
        connection.execute(insert(OUTBOX).values(values))

    def deliver(self, delivery: Delivery, undo: Callable[[Connection], object]) -> None:
        """Steps 2 and 3; see `moonpool.store.outbox.Outbox.deliver`."""
        record = delivery.record
        try:
            delivery.write(record)
        except JournalUncertainError:
            raise
        except JournalError:
            if self._remove(record.run_id, record_bytes(record), undo):
                raise
            return  # another process has put it on record
        self._remove(record.run_id, record_bytes(record))

    def deliver_left(self, write: Callable[..., None]) -> None:
        """Deliver the records of processes that ended. One that cannot be delivered stays, and its change pending."""
        own = OUTBOX.c.organisation_id == self.rows.organisation_id
        left = OUTBOX.c.put_at < SERVER_NOW - DELIVERED_WITHIN_S
        query = select(OUTBOX.c.change_id, OUTBOX.c.body).where(own, OUTBOX.c.kind == self.kind, left)
        for row in self.rows.read(query.order_by(OUTBOX.c.put_at).limit(_LEFT_MAX)):
            body = bytes(row["body"])
            try:
                members = json.loads(body)
                del members["kind"]
                write(TYPES[self.kind](**members))
            except (JournalError, ValueError, KeyError, TypeError) as error:
                _log.warning("a record that an ended process left cannot be written to the journal: %s", error)
                return  # in order
            self._remove(row["change_id"], body)

    def _remove(self, change_id: str, body: bytes, undo: Callable[[Connection], object] | None = None) -> bool:
        """False: it was not there any more, and nothing was undone."""
        columns = OUTBOX.c
        change = delete(OUTBOX).where(
            columns.organisation_id == self.rows.organisation_id, columns.change_id == change_id, columns.body == body
        )

        def work(connection: Connection) -> bool:
            removed = connection.execute(change).rowcount == 1
            if removed and undo is not None:
                undo(connection)
            return removed

        return self.rows.write(work)
