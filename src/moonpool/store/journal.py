"""Writer of the audit journal: bare `sqlite3`, many callers on the event loop, group commit.

`record` returns at once with a future that is done when the entry is committed. Intents, outcomes of library changes
and records from an outbox wait for the disk; other entries survive the death of the process but perhaps not a power
loss.

There are two paths. Entries that need not wait for the disk are committed on the event loop, all of one loop turn in
one transaction: 0.07 ms into the page cache, whereas a thread costs 0.3 ms. Start and end of an execution do not wait
for the end of the turn: their callers continue at once. A thread commits everything else: intents, entries that arrive
while the thread has work, entries that find the file locked by another process, large batches, and everything for a
while after the disk was slow. The thread also does the checkpoints and the first write after each, which SQLite syncs;
so the loop never waits for the disk.

INVARIANT: entries of one process are committed in the order of their `record` calls. So nothing is committed on the
loop while the thread has something to commit. Fail closed: an entry that cannot be committed fails its future with
JournalError, and its caller refuses the call. The queue is bounded for entries that begin something; outcomes are
always taken, because their number is bounded by what has begun. File format: `moonpool.store.journal_file`.
"""

from __future__ import annotations

import asyncio
import queue
import resource
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.to_thread

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import ExecutionEndRecord, ExecutionStartRecord
from moonpool.core.errors import STARVED
from moonpool.store.journal_entries import ends_something, entry_of, waits_for_disk
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import FileJournalReader, journal_error
from moonpool.store.process_marks import own_mark

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from moonpool.core.audit_records import AuditRecord
    from moonpool.store.journal_entries import Entry

_BATCH_COUNT_MAX: Final = 256
_ON_LOOP_COUNT_MAX: Final = 16
_CHECKPOINT_EVERY: Final = 256
"""Commits on the loop between checkpoints; some 1,000 pages of the write-ahead log, SQLite's own default."""

_SLOW_S: Final = 0.02
_SLOW_FOR_S: Final = 10.0
"""After a slow commit on the loop the thread commits everything for this time."""


def _waits() -> int:
    """How often this thread has waited so far for the disk or a lock (not for a processor)."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class _Waiting(NamedTuple):
    entry: Entry
    durable: bool
    committed: asyncio.Future[None]
    checkpoint: bool = False  # do one first


class SqliteJournal:
    """The `Journal` of a running Moonpool. Opened by `open_journal`; used from one event loop."""

    def __init__(
        self, path: Path, loop: asyncio.AbstractEventLoop, *, busy_timeout_s: float, queue_count_max: int
    ) -> None:
        self._path, self._busy_timeout_s = path, busy_timeout_s
        self._file: JournalFile | None = None  # used by the thread
        self._on_loop: JournalFile | None = None  # never waits
        self._loop = loop
        self._soon: list[_Waiting] = []  # committed in the loop's next turn
        self._with_thread = 0
        self._since_checkpoint = 0
        self._slow_until = 0.0
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._queue_count_max = queue_count_max
        self._waiting_count = 0  # used only on the loop
        self._closed = False
        self._thread: threading.Thread | None = None

    def record(self, entry: AuditRecord) -> asyncio.Future[None]:
        if self._closed:
            raise JournalError("the audit journal is closed; Moonpool is shutting down")
        if self._waiting_count >= self._queue_count_max and not ends_something(entry):
            raise JournalError(f"{self._waiting_count} audit records wait to be written; the disk is too slow")
        encoded = entry_of(entry)
        if self._thread is None:
            self.start()
        committed: asyncio.Future[None] = self._loop.create_future()
        self._waiting_count += 1
        at_once = isinstance(entry, ExecutionStartRecord | ExecutionEndRecord)
        self._hand_over(_Waiting(encoded, waits_for_disk(entry), committed), at_once=at_once)
        return committed

    def _hand_over(self, item: _Waiting, *, at_once: bool) -> None:
        if (
            item.durable
            or self._with_thread
            or self._on_loop is None
            or len(self._soon) >= _ON_LOOP_COUNT_MAX
            or self._loop.time() < self._slow_until
        ):
            self._to_thread([*self._soon, item])
            self._soon = []
        elif self._since_checkpoint >= _CHECKPOINT_EVERY:
            self._since_checkpoint = 0
            self._to_thread([*self._soon, item._replace(checkpoint=True)])
            self._soon = []
        else:
            self._soon.append(item)
            if at_once:
                self._commit_gathered()
            elif len(self._soon) == 1:
                self._loop.call_soon(self._commit_gathered)

    def _to_thread(self, items: Sequence[_Waiting]) -> None:
        self._with_thread += len(items)
        for item in items:
            self._queue.put(item)

    def _commit_gathered(self) -> None:
        """Commit the gathered entries on the loop; on any obstacle leave them to the thread."""
        batch, self._soon = self._soon, []
        if not batch:
            return
        began, waits = self._loop.time(), _waits()
        assert self._on_loop is not None, "what comes before it is open goes to the thread"
        try:
            self._on_loop.append([item.entry for item in batch], durable=False)
        except Exception:  # noqa: BLE001  nothing was committed; the thread tries again and reports its own error
            self._to_thread(batch)
            return
        self._since_checkpoint += 1
        if self._loop.time() - began > _SLOW_S and _waits() > waits:
            self._slow_until = self._loop.time() + _SLOW_FOR_S
        self._tell(batch, None)

    def open(self) -> None:
        """Open or create the file. Blocking; the first record does it, too. Raises JournalError."""
        file = JournalFile(self._path, busy_timeout_s=self._busy_timeout_s)
        try:
            self._on_loop = JournalFile(self._path, busy_timeout_s=0.0, checkpoints=False)
        except BaseException:
            file.close()
            raise
        self._file = file

    def start(self) -> None:
        """Start the thread; the first record does it, too. Raises JournalError."""
        thread = threading.Thread(target=self._write, name="moonpool-journal", daemon=True)
        try:
            thread.start()
        except RuntimeError as exc:  # the system allows no more threads
            raise JournalError(f"the audit journal cannot be written: {STARVED}") from exc
        self._thread = thread

    async def close(self) -> None:
        """Commit all pending entries, then close the file."""
        if not self._closed:
            self._closed = True
            self._commit_gathered()
            self._queue.put(None)
        if self._thread is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join)
        for file in (self._file, self._on_loop):
            if file is not None:
                file.close()

    def _write(self) -> None:
        """The thread: take a batch, commit it, notify the loop; until the end mark."""
        running = True
        while running:
            batch = [self._queue.get()]
            while len(batch) < _BATCH_COUNT_MAX and not self._queue.empty():  # this thread is the only taker
                batch.append(self._queue.get())
            running = None not in batch
            if waiting := [item for item in batch if item is not None]:
                self._commit(waiting)

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        error: JournalError | None = None
        try:
            if self._file is None:
                self.open()
            file = self._file
            assert file is not None
            if any(item.checkpoint for item in batch):
                file.checkpoint()
            file.append([item.entry for item in batch], durable=any(item.durable for item in batch))
        except Exception as exc:  # noqa: BLE001  the callers must get the error and the thread must continue
            error = journal_error(self._path, exc)
        try:
            self._loop.call_soon_threadsafe(self._thread_done, batch, error)
        except RuntimeError:  # the loop is closed: no callers are left
            return

    def _thread_done(self, batch: Sequence[_Waiting], error: JournalError | None) -> None:
        self._with_thread -= len(batch)
        self._tell(batch, error)

    def _tell(self, batch: Sequence[_Waiting], error: JournalError | None) -> None:
        self._waiting_count -= len(batch)
        for item in batch:
            if item.committed.done():  # its caller was cancelled; the entry is committed nevertheless
                continue
            if error is None:
                item.committed.set_result(None)
            else:
                item.committed.set_exception(type(error)(str(error)))
                item.committed.exception()  # a caller that does not wait is not warned about


@dataclass(frozen=True, slots=True)
class JournalFilePlace:
    """The `JournalPlace` of a file."""

    path: Path

    @property
    def process(self) -> str:
        return own_mark()

    def open(self, *, lazily: bool) -> AbstractAsyncContextManager[SqliteJournal]:
        return open_journal(self.path, lazily=lazily)

    def reader(self) -> FileJournalReader:
        return FileJournalReader(self.path)


@asynccontextmanager
async def open_journal(
    path: Path, *, lazily: bool = False, busy_timeout_s: float = 5.0, queue_count_max: int = 10_000
) -> AsyncGenerator[SqliteJournal]:
    """Open or create the journal at `path`; on exit all pending entries are committed. Raises JournalError.

    `lazily`: the first record opens it, and fails if that is not possible.
    """
    loop = asyncio.get_running_loop()
    journal = SqliteJournal(path, loop, busy_timeout_s=busy_timeout_s, queue_count_max=queue_count_max)
    try:
        if not lazily:
            await anyio.to_thread.run_sync(journal.open)
            journal.start()
        yield journal
    finally:
        await journal.close()
