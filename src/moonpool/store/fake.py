"""A journal in memory, which passes the same contract tests as the real ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.core.audit import GENESIS, AuditRow, JournalError, chain_hash, record_bytes
from moonpool.core.audit_records import OutboxRecord

if TYPE_CHECKING:
    from moonpool.core.audit_records import AuditRecord


class MemoryJournal:
    """Keeps rows in a list. `broken` makes every later record fail, as a full disk would."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []
        self.entries: list[AuditRecord] = []
        self.broken = ""
        self._closed = False

    def record(self, entry: AuditRecord) -> asyncio.Future[None]:
        if self._closed:
            raise JournalError("the audit journal is closed; Moonpool is shutting down")
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        body = record_bytes(entry)
        if self.broken:
            committed.set_exception(JournalError(self.broken))
            committed.exception()  # a caller that does not wait is not warned about
            return committed
        if isinstance(entry, OutboxRecord) and any(row.body == body for row in self.rows):
            committed.set_result(None)
            return committed
        seq = len(self.rows) + 1
        digest = chain_hash(self.rows[-1].hash if self.rows else GENESIS, seq, body)
        self.rows.append(AuditRow(seq=seq, kind=entry.kind, run_id=entry.run_id, body=body, hash=digest))
        self.entries.append(entry)
        committed.set_result(None)
        return committed

    async def close(self) -> None:
        self._closed = True
