"""Records of executions by one call: kept, found, listed, swept; and of those that were lost with their service."""

from __future__ import annotations

import time
from secrets import token_hex
from typing import TYPE_CHECKING

from moonpool.core.errors import InputError
from moonpool.features.execution_records.model import KEPT_S, LISTED_MAX, RunPage, cursor_of, place_of
from moonpool.features.execution_records.table import RecordTable
from moonpool.store.process_marks import is_gone, own_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.features.execution_records.model import ExecutionRecord, RunQuery
    from moonpool.store.database.base import Database


class ExecutionRecords:
    """Of all organisations of one database. Every method raises DatabaseError."""

    def __init__(
        self, database: Database, *, replica: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """`replica`: the id of this process's lease, where replicas share the database."""
        self._table, self._clock, self._replica = RecordTable(database), clock, replica
        self.process = f"{token_hex(8)}@{own_mark()}" if replica is None else f"replica/{replica}"
        self._touched: set[str] = set()  # organisations that have new records

    async def add(self, organisation: str, record: ExecutionRecord, *, durable: bool = True) -> None:
        """Keep one that begins here, or is over."""
        await self._table.add(organisation, record, process=self.process, durable=durable)
        self._touched.add(organisation)

    async def end(self, organisation: str, record: ExecutionRecord) -> bool:
        """Keep how one that began here ended; its webhook is delivered. False: it was taken for lost before."""
        return await self._table.end(organisation, record)

    async def remove(self, organisation: str, trace_id: str) -> None:
        """One whose code never started, and whose id nobody has."""
        await self._table.remove(organisation, trace_id)

    async def find(
        self, organisation: str, trace_id: str, principal: str | None
    ) -> tuple[ExecutionRecord, bool] | None:
        """It, and whether it is of this process. `principal` None: whoever began it; another's is None, as none is."""
        found = await self._table.find(organisation, trace_id, principal)
        return None if found is None else (found[0], found[1] == self.process)

    async def page(self, organisation: str, principal: str | None, query: RunQuery) -> RunPage:
        """Raises InputError."""
        if not 1 <= query.limit <= LISTED_MAX:
            raise InputError(f"limit must be 1 to {LISTED_MAX}")
        after = None if query.cursor is None else place_of(query.cursor, query, principal)
        found = await self._table.page(organisation, principal, query, after, query.limit + 1)
        kept = found[: query.limit]
        return RunPage(
            records=kept, next_cursor=cursor_of(kept[-1], query, principal) if len(found) > len(kept) else None
        )

    async def ask_cancel(self, organisation: str, trace_id: str) -> None:
        """Have it cancelled where it runs."""
        await self._table.ask_cancel(organisation, trace_id)

    async def cancels_asked(self) -> Sequence[tuple[str, str]]:
        """Organisation and trace id of those that this process is to cancel."""
        return await self._table.cancels_asked(self.process)

    async def lose_ended(self) -> int:
        """End the records of executions whose process has ended; how many. They are never run again."""
        others = [one for one in await self._table.running_processes() if one != self.process]
        if self._replica is not None:
            return await self._table.lose(None) if others else 0
        gone = [one for one in others if _has_ended(one)]
        return await self._table.lose(gone) if gone else 0

    async def sweep(self) -> int:
        """Remove what is kept no longer; how many."""
        touched, self._touched = self._touched, set()
        return await self._table.sweep(touched, self._clock() - KEPT_S)


def _has_ended(process: str) -> bool:
    """A file's database has one service, so what cannot be told has ended; as has what ran in this very process."""
    mark = process.partition("@")[2]
    return mark == own_mark() or is_gone(mark) is not False
