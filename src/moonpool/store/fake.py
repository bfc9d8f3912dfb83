"""In-memory twins of what the store keeps on disk; each passes the same contract tests as the real one."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from moonpool.core.audit import GENESIS, AuditRow, JournalError, chain_hash, record_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.acceptance import Accepted
    from moonpool.core.audit import AuditRecord


class MemoryJournal:
    """Keeps rows in a list. `broken` makes every later record fail as a full disk would."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []
        self.entries: list[AuditRecord] = []
        self.broken = ""
        self._closed = False

    def record(self, entry: AuditRecord) -> asyncio.Future[None]:
        """See `moonpool.core.audit.Journal`."""
        if self._closed:
            raise JournalError("the audit journal is closed; Moonpool is shutting down")
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        body = record_bytes(entry)
        if self.broken:
            committed.set_exception(JournalError(self.broken))
            committed.exception()  # a caller that does not wait is not warned about
            return committed
        seq = len(self.rows) + 1
        digest = chain_hash(self.rows[-1].hash if self.rows else GENESIS, seq, body)
        self.rows.append(AuditRow(seq=seq, kind=entry.kind, run_id=entry.run_id, body=body, hash=digest))
        self.entries.append(entry)
        committed.set_result(None)
        return committed

    async def close(self) -> None:
        self._closed = True


class MemoryAcceptances:
    """What was accepted, in a dict; passes the same contract tests as `moonpool.store.acceptances`."""

    def __init__(self) -> None:
        self._kept: dict[str, Accepted] = {}
        self._changes: Counter[str] = Counter()

    def load(self, key: str) -> Accepted | None:
        return self._kept.get(key)

    def update(self, key: str, change: Callable[[Accepted | None], Accepted]) -> bool:
        before = self._kept.get(key)
        after = self._kept[key] = change(before)
        self._changes[key] += after != before
        return True

    def stamp(self, key: str) -> int:
        return self._changes[key]
