"""Which of the processes that share a database still live: a lease each, by the database's clock alone.

A replica of the service has a row while it lives, which it renews. One that has not done so in time is fenced by
another: its row is removed. Every statement that appends to a journal names the replica and locks that row
(`moonpool.store.postgres_chain`), so what a fenced replica sends afterwards is not appended, and it ends itself when it
finds out. Then its executions that have no end are recorded as lost. Those records are the same whoever makes them, and
a chain takes each once, so a replica that dies over it leaves nothing behind.

INVARIANT: a living replica is not fenced because the database was away: only who has renewed its own lease for a whole
lease's time, without a gap, may fence others. A replica that was away longer than its lease but was not fenced goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import ExecutionLostRecord, time_stamp
from moonpool.store.journal_entries import entry_of
from moonpool.store.postgres_chain import PostgresChain
from moonpool.store.postgres_connections import DatabaseAwayError, open_connections
from moonpool.store.postgres_reading import REPLICA

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncGenerator, Callable

    from moonpool.store.database.addresses import PostgresAddress
    from moonpool.store.postgres_connections import PostgresConnections, Row

_log = logging.getLogger(__name__)

BEATS: Final = 4
"""How often a lease is renewed in its time."""
_ANSWER_S_MIN: Final = 1.0
"""How long a renewal may take at least, however short the lease."""
_WITHIN_S: Final = 60.0
_LEAVE_S: Final = 5.0
"""The end of the process waits no longer; another replica does the rest."""
_PATIENCE_S: Final = 10.0
_LOST_COUNT: Final = 256

_REGISTER: Final = """
INSERT INTO replica (replica_id, name, expires_at, steady_since)
VALUES ($1, $2, now() + make_interval(secs => $3), now())"""
_RENEW: Final = """
UPDATE replica SET steady_since = CASE WHEN expires_at < now() THEN now() ELSE steady_since END,
    expires_at = now() + make_interval(secs => $2)
WHERE replica_id = $1 RETURNING 1"""
_FENCE: Final = """
WITH gone AS (
    DELETE FROM replica WHERE replica_id <> $1 AND expires_at < now() AND EXISTS (
        SELECT FROM replica mine WHERE mine.replica_id = $1 AND mine.expires_at >= now()
            AND mine.steady_since <= now() - make_interval(secs => $2)
    ) RETURNING replica_id, name, expires_at
)
INSERT INTO replica_gone (replica_id, name, expired_at) SELECT * FROM gone RETURNING name"""
_LEAVE: Final = """
WITH gone AS (DELETE FROM replica WHERE replica_id = $1 RETURNING replica_id, name, now())
INSERT INTO replica_gone (replica_id, name, expired_at) SELECT * FROM gone"""
_GONE: Final = """
SELECT g.replica_id, g.expired_at, t.tenant_id, t.after
FROM replica_gone g LEFT JOIN replica_tenant t ON t.replica_id = g.replica_id"""
_UNENDED: Final = """
SELECT s.run_id, s.body FROM audit_record s
WHERE s.tenant_id = $1 AND s.seq > $2 AND s.kind = 'execution_start' AND position($3::bytea IN s.body) > 0
    AND NOT EXISTS (SELECT FROM audit_record e WHERE e.tenant_id = $1 AND e.run_id = s.run_id
        AND e.kind IN ('execution_end', 'execution_lost'))
ORDER BY s.seq LIMIT $4"""
_SETTLED: Final = """
WITH tenants AS (DELETE FROM replica_tenant WHERE replica_id = $1)
DELETE FROM replica_gone WHERE replica_id = $1"""


class Lease:
    """Of this process. Opened by `open_lease`."""

    def __init__(self, connections: PostgresConnections, lease_s: float) -> None:
        self._connections, self._lease_s = connections, lease_s
        self._answer_s = max(lease_s / BEATS, _ANSWER_S_MIN)  # one that hangs leaves time for another
        self.replica_id = secrets.token_hex(16)
        self.name = f"{socket.gethostname()[:200]}, process {os.getpid()}"

    async def register(self) -> None:
        """Raises JournalError."""
        try:
            await self._fetch(_REGISTER, self.replica_id, self.name, self._lease_s)
        except DatabaseAwayError as exc:
            raise JournalError(f"{self._connections.name} cannot be reached: {exc}") from exc

    async def keep(self, on_lost: Callable[[str], None]) -> None:
        """Renew it until it is lost, and fence those that have not; `on_lost` is told why."""
        while True:
            await asyncio.sleep(self._lease_s / BEATS)
            try:
                if not await self._fetch(_RENEW, self.replica_id, self._lease_s, within_s=self._answer_s):
                    on_lost(
                        f"another replica has taken this one for dead, because it did not renew its lease in "
                        f"{self._connections.name} within {self._lease_s:g} s: what runs here is on record as lost"
                    )
                    return
                for (name,) in await self._fetch(_FENCE, self.replica_id, self._lease_s, within_s=self._answer_s):
                    _log.warning("the replica %s has ended; its executions are lost", name)
            except (DatabaseAwayError, JournalError) as exc:
                _log.warning("the lease in %s cannot be renewed: %s", self._connections.name, exc)

    async def settle(self) -> None:
        """Record what replicas that are gone have left, now and then. Beside `keep`, which must not wait for it."""
        while True:
            await asyncio.sleep(self._lease_s / BEATS)
            try:
                await self._settle()
            except (DatabaseAwayError, JournalError) as exc:
                _log.warning("what replicas that are gone left in %s is not recorded: %s", self._connections.name, exc)

    async def leave(self) -> None:
        """Give it up. What this replica could not record the end of is recorded as lost, now or by another."""
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self._fetch(_LEAVE, self.replica_id)
                await self._settle()
        except (DatabaseAwayError, JournalError, TimeoutError) as exc:
            _log.warning("the lease in %s cannot be given up: %s", self._connections.name, exc)

    async def _settle(self) -> None:
        """Record what replicas that are gone have left. Raises DatabaseAwayError, JournalError."""
        rows = await self._fetch(_GONE)
        for replica_id, expired_at, tenant_id, after in rows:
            if tenant_id is not None:
                await self._record_lost(replica_id, expired_at, tenant_id, after)
        for replica_id in {row[0] for row in rows}:
            await self._fetch(_SETTLED, replica_id)

    async def _record_lost(self, replica_id: str, expired_at: dt.datetime, tenant_id: str, after: int) -> None:
        mark = f"{REPLICA}{replica_id}"
        sought = f'"process":{json.dumps(mark)}'.encode()
        while rows := await self._fetch(_UNENDED, tenant_id, after, sought, _LOST_COUNT):
            chain = PostgresChain(self._connections, tenant_id, patience_s=_PATIENCE_S)
            await chain.open()
            # INVARIANT: made of what is in the database alone, so that whoever makes it makes the same bytes.
            lost = [_lost(run_id, body, mark, time_stamp(expired_at)) for run_id, body in rows]
            await chain.append([entry_of(record) for record in lost], durable=True)

    async def _fetch(self, query: str, *arguments: object, within_s: float = _WITHIN_S) -> list[Row]:
        return list(await self._connections.fetch(query, *arguments, within_s=within_s))


def _lost(run_id: str, start: bytes, process: str, at: str) -> ExecutionLostRecord:
    members = json.loads(start)
    return ExecutionLostRecord(run_id=run_id, trace_id=str(members.get("trace_id", "")), at=at, process=process)


@asynccontextmanager
async def open_lease(address: PostgresAddress, lease_s: float, on_lost: Callable[[str], None]) -> AsyncGenerator[Lease]:
    """Have a lease until all of this process's journals are closed. The tables are there. Raises JournalError.

    It has connections of its own, so that it is renewed while the journals' are busy.
    """
    async with open_connections(address, count_max=2) as connections:
        lease = Lease(connections, lease_s)
        await lease.register()
        tasks = [asyncio.create_task(work) for work in (lease.keep(on_lost), lease.settle())]
        try:
            yield lease
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await lease.leave()
