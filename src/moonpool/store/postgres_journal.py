"""Writer of the audit journal in PostgreSQL, the twin of `moonpool.store.journal`: many callers, group commit.

`record` returns at once with a future that is done when the entry is committed. One task of each tenant appends what
waits, one batch after the other; what comes meanwhile makes the next batch. So entries of one process are committed in
the order of their `record` calls. A batch waits for the disk if one of its entries must; otherwise its commit is
asynchronous.

Fail closed: an entry that cannot be committed fails its future with JournalError, and its caller refuses the call.
After a batch that the database did not take, everything that waits has waited as long, and fails with it. The queue is
bounded for entries that begin something. How a batch is appended, also beside other processes and after a crash of the
server: `moonpool.store.postgres_chain`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from moonpool.core.audit import JournalError
from moonpool.store.journal_entries import ends_something, entry_of, waits_for_disk
from moonpool.store.postgres_chain import PostgresChain
from moonpool.store.postgres_connections import on_one_line
from moonpool.store.postgres_reading import REPLICA, PostgresJournalReader
from moonpool.store.process_marks import own_mark

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager

    from moonpool.core.audit_records import AuditRecord
    from moonpool.store.journal_entries import Entry
    from moonpool.store.postgres_connections import PostgresConnections

_log = logging.getLogger(__name__)

_BATCH_COUNT_MAX: Final = 256
PATIENCE_S: Final = 10.0
"""How long a record waits for a database that is away."""


class _Waiting(NamedTuple):
    entry: Entry
    durable: bool
    committed: asyncio.Future[None]


class PostgresJournal:
    """The `Journal` of one tenant. Opened by `open_postgres_journal`; used from one event loop."""

    def __init__(self, chain: PostgresChain, *, queue_count_max: int) -> None:
        self._chain = chain
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._queue_count_max = queue_count_max
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    def record(self, entry: AuditRecord) -> asyncio.Future[None]:
        if self._closed:
            raise JournalError("the audit journal is closed; Moonpool is shutting down")
        if len(self._waiting) >= self._queue_count_max and not ends_something(entry):
            raise JournalError(f"{len(self._waiting)} audit records wait to be written; the database is too slow")
        committed: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(_Waiting(entry_of(entry), waits_for_disk(entry), committed))
        if self._writer is None:
            self._writer = self._loop.create_task(self._write())
        return committed

    async def close(self) -> None:
        """Commit all pending entries."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            if self._writer is not None:
                await self._writer
            try:
                await self._chain.close()
            except JournalError as exc:
                _log.warning("at its end: %s", exc)

    async def _write(self) -> None:
        """Append batch after batch while entries wait."""
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH_COUNT_MAX))]
                error = await self._append(batch)
                _tell(batch, error)
                if error is not None:
                    self._fail_waiting(error)
        finally:
            self._writer = None
            if self._waiting or batch:  # the loop is being closed
                left = JournalError("the audit journal was closed under way")
                _tell(batch, left)
                self._fail_waiting(left)

    async def _append(self, batch: Sequence[_Waiting]) -> JournalError | None:
        try:
            await self._chain.append([item.entry for item in batch], durable=any(item.durable for item in batch))
        except JournalError as exc:
            return exc
        except Exception as exc:  # noqa: BLE001  the callers must get the error and the next batch must be tried
            return JournalError(f"{self._chain.name} cannot be used: {on_one_line(exc)}")
        return None

    def _fail_waiting(self, error: JournalError) -> None:
        """They have not been sent, whatever is known of those before them."""
        waiting, self._waiting = self._waiting, deque()
        _tell(waiting, JournalError(str(error)) if type(error) is not JournalError else error)


@dataclass(frozen=True, slots=True)
class PostgresJournalPlace:
    """The `JournalPlace` of a tenant in a database."""

    connections: PostgresConnections
    tenant_id: str
    patience_s: float = PATIENCE_S
    replica_id: str | None = None  # of this process; None: it is no replica of the service

    @property
    def process(self) -> str:
        return own_mark() if self.replica_id is None else f"{REPLICA}{self.replica_id}"

    def open(self, *, lazily: bool) -> AbstractAsyncContextManager[PostgresJournal]:
        return open_postgres_journal(
            self.connections, self.tenant_id, lazily=lazily, patience_s=self.patience_s, replica_id=self.replica_id
        )

    def reader(self) -> PostgresJournalReader:
        return PostgresJournalReader(self.connections.address, self.tenant_id)


@asynccontextmanager
async def open_postgres_journal(
    connections: PostgresConnections,
    tenant_id: str,
    *,
    lazily: bool = False,
    patience_s: float = PATIENCE_S,
    queue_count_max: int = 10_000,
    replica_id: str | None = None,
) -> AsyncGenerator[PostgresJournal]:
    """Open or begin the journal of a tenant; on exit all pending entries are committed. Raises JournalError.

    `lazily`: the first record opens it, and fails if that is not possible.
    """
    chain = PostgresChain(connections, tenant_id, patience_s=patience_s, replica_id=replica_id)
    if not lazily:
        await chain.open()
    journal = PostgresJournal(chain, queue_count_max=queue_count_max)
    try:
        yield journal
    finally:
        await journal.close()


def _tell(batch: Sequence[_Waiting] | deque[_Waiting], error: JournalError | None) -> None:
    for item in batch:
        if item.committed.done():  # its caller was cancelled; the entry is committed nevertheless
            continue
        if error is None:
            item.committed.set_result(None)
        else:
            item.committed.set_exception(type(error)(str(error)))
            item.committed.exception()  # a caller that does not wait is not warned about
