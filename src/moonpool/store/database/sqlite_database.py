"""The service's database as an SQLite file: read on the event loop, written by one thread that commits for many.

A read takes 0.05 ms on the loop and 0.5 ms through a thread, so it is done on the loop, with a connection that never
waits: where it would, the writing thread does it instead. Everything that waited while the thread committed goes into
its next transaction together, each in a savepoint, so that one that fails fails alone.

INVARIANT: nothing is told as committed that a reader of the path would not find: a file that was removed, replaced or
cut off is noticed before each commit (`store.opened_files`), and the one that is there then is opened instead.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from moonpool.core.errors import STARVED
from moonpool.store.database.base import (
    ANSWER_S_MAX,
    ROWS_MAX,
    WAITING_MAX,
    DatabaseError,
    closed,
    too_many_waiting,
)
from moonpool.store.database.schema import upgrade
from moonpool.store.database.sqlite_file import (
    checked,
    identity,
    is_own_error,
    make_file,
    reading_connection,
    sqlite_error,
    transaction_is_open,
    wait_for_disk,
    writing_connection,
)
from moonpool.store.opened_files import OpenedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Row, Select

    from moonpool.store.database.addresses import SqliteAddress

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_BATCH_COUNT_MAX: Final = 64
_BUSY_S: Final = 5.0


class _Waiting(NamedTuple):
    work: Callable[[Connection], Any]
    durable: bool
    done: asyncio.Future[Any]


class _Outcome(NamedTuple):
    value: Any = None
    error: Exception | None = None


class SqliteDatabase:
    """The `Database` of one process. Opened by `open_sqlite`."""

    def __init__(self, address: SqliteAddress, *, busy_timeout_s: float) -> None:
        self._path, self._busy_timeout_s = address.path, busy_timeout_s
        self._loop = asyncio.get_running_loop()
        self._reader: Connection | None = None  # used on the loop
        self._read_file = (0, 0)
        self._writer: Connection | None = None  # used by the thread, with its files
        self._files: OpenedFiles | None = None
        self._durable = False
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting_count = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="moonpool-database", daemon=True)

    def start(self) -> None:
        """Raises DatabaseError."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._closed = True
            raise DatabaseError(f"the database cannot be written: {STARVED}") from error

    async def read(self, query: Select[Any], /) -> Sequence[Row[Any]]:
        if self._closed:
            raise closed()
        try:
            return _rows(self._reading(), query)
        except Exception:  # noqa: BLE001  whatever it is: the thread may wait, opens anew and says what is wrong
            self._close_reader()
        return await self.write(lambda connection: _rows(connection, query), durable=False)

    async def write(self, work: Callable[[Connection], _T], /, *, durable: bool = True) -> _T:
        if self._closed:
            raise closed()
        if self._waiting_count >= WAITING_MAX:
            raise too_many_waiting()
        done: asyncio.Future[_T] = self._loop.create_future()
        self._waiting_count += 1
        self._queue.put(_Waiting(work, durable, done))
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await done
        except TimeoutError:
            raise DatabaseError(
                f"the database {self._path} did not answer within {ANSWER_S_MAX:.0f} s; whether the change was made is "
                "unknown"
            ) from None

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        if self._thread.is_alive():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join)
        self._close_reader()

    def _reading(self) -> Connection:
        if self._reader is not None and identity(self._path) == self._read_file:
            return self._reader
        self._close_reader()
        self._read_file = identity(self._path)
        self._reader = checked(reading_connection(self._path))
        return self._reader

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _run(self) -> None:
        """The thread: take what waits, commit it, tell the loop; until the end mark."""
        running = True
        while running:
            batch = [self._queue.get()]
            while len(batch) < _BATCH_COUNT_MAX and not self._queue.empty():  # this thread is the only taker
                batch.append(self._queue.get())
            running = None not in batch
            if waiting := [one for one in batch if one is not None]:
                outcomes = self._outcomes(waiting)
                try:
                    self._loop.call_soon_threadsafe(self._tell, waiting, outcomes)
                except RuntimeError:  # the loop is closed: no callers are left
                    break
        self._close_writer()

    def _outcomes(self, batch: Sequence[_Waiting]) -> Sequence[_Outcome]:
        """Never raises: the thread must go on."""
        try:
            return self._committed(batch)
        except Exception as error:  # noqa: BLE001  nothing of the batch was kept
            if len(batch) == 1:
                return [_Outcome(error=sqlite_error(self._path, error))]
        return [outcome for one in batch for outcome in self._outcomes([one])]  # each gets an answer of its own

    def _committed(self, batch: Sequence[_Waiting]) -> Sequence[_Outcome]:
        """Do all in one transaction. Raises what took the whole of it back."""
        connection = self._writing(durable=any(one.durable for one in batch))
        try:
            with connection.begin():
                outcomes = [_done(connection, one.work, alone=len(batch) == 1) for one in batch]
                self._check_files()
        except Exception as error:
            if not is_own_error(error) or isinstance(error, DatabaseError):
                self._close_writer()  # what went wrong may not be of this transaction only
            raise
        if self._files is not None:
            self._files.note_log()
        return outcomes

    def _writing(self, *, durable: bool) -> Connection:
        connection = self._writer
        if connection is None:
            identity(self._path)  # says by its error that the file is gone
            connection = checked(writing_connection(self._path, busy_timeout_s=self._busy_timeout_s))
            self._writer, self._durable = connection, not durable
            self._files = OpenedFiles(self._path)
        if self._durable != durable:
            wait_for_disk(connection, durable=durable)
            self._durable = durable
        return connection

    def _check_files(self) -> None:
        assert self._files is not None
        if fault := self._files.fault():
            raise DatabaseError(f"the database was lost while it was used: {fault}; put it back, or restore a backup")

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            writer.close()
        except Exception as error:  # noqa: BLE001  it is given up anyhow
            _log.warning("a connection to the database %s could not be closed: %s", self._path, error)

    def _tell(self, batch: Sequence[_Waiting], outcomes: Sequence[_Outcome]) -> None:
        self._waiting_count -= len(batch)
        for one, outcome in zip(batch, outcomes, strict=True):
            if one.done.done():  # its caller was cancelled or waits no more
                continue
            if outcome.error is None:
                one.done.set_result(outcome.value)
            else:
                one.done.set_exception(outcome.error)


async def open_sqlite(address: SqliteAddress, *, busy_timeout_s: float = _BUSY_S) -> SqliteDatabase:
    """Open or make the file and bring its tables up to date. Raises DatabaseError, DatabaseSchemaError."""
    await anyio.to_thread.run_sync(upgrade_sqlite, address)
    database = SqliteDatabase(address, busy_timeout_s=busy_timeout_s)
    database.start()
    return database


def upgrade_sqlite(address: SqliteAddress) -> str:
    """Bring the tables up to date; returns the version that they had. Raises DatabaseError, DatabaseSchemaError."""
    make_file(address)
    try:
        connection = writing_connection(address.path, busy_timeout_s=_BUSY_S)
        try:
            with connection.begin():
                return upgrade(connection)
        finally:
            connection.close()
    except DatabaseError:
        raise
    except Exception as error:
        raise sqlite_error(address.path, error) from error


def _done(connection: Connection, work: Callable[[Connection], Any], *, alone: bool) -> _Outcome:
    """What `work` returned or raised. Raises what took the whole transaction back; `alone`, that is anything."""
    if alone:
        return _Outcome(work(connection))
    try:
        with connection.begin_nested():
            return _Outcome(work(connection))
    except Exception as error:
        if not transaction_is_open(connection) or not is_own_error(error):
            raise
        return _Outcome(error=error)


def _rows(connection: Connection, query: Select[Any]) -> Sequence[Row[Any]]:
    rows = connection.execute(query).fetchmany(ROWS_MAX + 1)
    assert len(rows) <= ROWS_MAX, "tables bound what they ask for"
    return rows
