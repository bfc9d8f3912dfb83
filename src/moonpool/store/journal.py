"""Writer of the audit journal: one thread on bare `sqlite3`, many callers on the loop, group commit.

`record` hands an entry over at once and returns a future that is done when the entry is committed. The thread takes
what has gathered meanwhile, up to a batch, and commits it in one transaction; a batch that holds an intent waits for
the disk, others survive the death of the process but perhaps not a power loss.

INVARIANT: entries of one process are committed in the order of their `record` calls.
Fail closed: an entry that cannot be committed fails its future with JournalError, and whoever waits refuses the call.
The queue is bounded for entries that begin something; outcomes are always taken, because their number is bounded by
what has begun. File format and reading: `moonpool.store.journal_file`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.to_thread

from moonpool.core.audit import (
    AuditRecord,
    CallIntentRecord,
    CallOutcomeRecord,
    ExecutionEndRecord,
    JournalError,
    record_bytes,
)
from moonpool.store.journal_file import Entry, JournalFile, journal_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

_BATCH_COUNT_MAX: Final = 256


class _Waiting(NamedTuple):
    entry: Entry
    durable: bool
    committed: asyncio.Future[None]


class SqliteJournal:
    """The `Journal` of a running Moonpool. Opened by `open_journal`; used from one event loop."""

    def __init__(self, file: JournalFile, loop: asyncio.AbstractEventLoop, *, queue_count_max: int) -> None:
        self._file = file
        self._loop = loop
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._queue_count_max = queue_count_max
        self._waiting_count = 0  # touched on the loop only
        self._closed = False
        self._thread = threading.Thread(target=self._write, name="moonpool-journal", daemon=True)

    def record(self, entry: AuditRecord) -> asyncio.Future[None]:
        """See `moonpool.core.audit.Journal`."""
        if self._closed:
            raise JournalError("the audit journal is closed; Moonpool is shutting down")
        ends = isinstance(entry, CallOutcomeRecord | ExecutionEndRecord)
        if self._waiting_count >= self._queue_count_max and not ends:
            raise JournalError(f"{self._waiting_count} audit records wait to be written; the disk is too slow")
        body = record_bytes(entry)
        committed: asyncio.Future[None] = self._loop.create_future()
        self._waiting_count += 1
        durable = isinstance(entry, CallIntentRecord)
        self._queue.put(_Waiting(Entry(entry.kind, entry.run_id, body), durable, committed))
        return committed

    def start(self) -> None:
        self._thread.start()

    async def close(self) -> None:
        """Commit what was handed over, then close the file."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    def _write(self) -> None:
        """The thread: take a batch, commit it, tell the loop; until the end mark."""
        running = True
        while running:
            batch = [self._queue.get()]
            while len(batch) < _BATCH_COUNT_MAX and not self._queue.empty():  # this thread is the only taker
                batch.append(self._queue.get())
            running = None not in batch
            if waiting := [item for item in batch if item is not None]:
                self._commit(waiting)
        self._file.close()

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        error: JournalError | None = None
        try:
            self._file.append([item.entry for item in batch], durable=any(item.durable for item in batch))
        except Exception as exc:  # noqa: BLE001  whatever it is, the callers must learn it and the thread must go on
            error = journal_error(self._file.path, exc)
        try:
            self._loop.call_soon_threadsafe(self._tell, batch, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _tell(self, batch: Sequence[_Waiting], error: JournalError | None) -> None:
        self._waiting_count -= len(batch)
        for item in batch:
            if item.committed.done():  # its caller was cancelled; the entry is committed all the same
                continue
            if error is None:
                item.committed.set_result(None)
            else:
                item.committed.set_exception(JournalError(str(error)))
                item.committed.exception()  # a caller that does not wait is not warned about


@asynccontextmanager
async def open_journal(
    path: Path, *, busy_timeout_s: float = 5.0, queue_count_max: int = 10_000
) -> AsyncGenerator[SqliteJournal]:
    """Open or make the journal at `path`; on exit everything handed over is committed. Raises JournalError."""

    def start() -> SqliteJournal:
        file = JournalFile(path, busy_timeout_s=busy_timeout_s)
        journal = SqliteJournal(file, loop, queue_count_max=queue_count_max)
        journal.start()
        return journal

    loop = asyncio.get_running_loop()
    journal = await anyio.to_thread.run_sync(start)
    try:
        yield journal
    finally:
        await journal.close()
