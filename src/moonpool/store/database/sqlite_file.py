"""Connections to the service's SQLite file, what its errors mean, and whether it is still the one at its path."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from moonpool.store.database.base import DatabaseError
from moonpool.store.database.schema import check_current
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from moonpool.store.database.addresses import SqliteAddress

_OPEN_ATTEMPT_COUNT: Final = 50


def make_file(address: SqliteAddress) -> None:
    """Create the file if it is missing, readable by its owner only. Raises DatabaseError.

    SECURITY: a link, or a file of another user, is refused: its owner could change keys. SQLite gives its two other
    files the mode of this one.
    """
    path = address.path
    try:
        if address.is_default:
            private_folder(path.parent)
        create_private_file(path)
        state = path.stat(follow_symlinks=False)
    except StoreFolderError as error:
        raise DatabaseError(str(error)) from error
    except OSError as error:
        raise DatabaseError(f"the database {path} cannot be made: {error.strerror or error}") from error
    if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid():
        raise DatabaseError(f"the database {path} is not a file of this user; name another one")


def writing_connection(path: Path, *, busy_timeout_s: float) -> Connection:
    """A connection whose transactions begin with the lock for writing. Raises what SQLite does."""
    engine = _engine(path, "rw", busy_timeout_s)
    event.listen(engine, "begin", _begin)
    connection = engine.connect()
    try:
        _use_log(connection)
        _execute(connection, "PRAGMA foreign_keys=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def reading_connection(path: Path) -> Connection:
    """A connection that cannot write and does not wait; each query sees what was committed before it."""
    connection = _engine(path, "ro", 0.0).connect()
    connection.execution_options(isolation_level="AUTOCOMMIT")
    return connection


def checked(connection: Connection) -> Connection:
    """`connection`, whose tables are those of this program; else it is closed. Raises DatabaseSchemaError."""
    try:
        with connection.begin():
            check_current(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def identity(path: Path) -> tuple[int, int]:
    """Which file is at `path`. Raises OSError."""
    state = os.stat(path)  # noqa: PTH116  once for each query
    return state.st_ino, state.st_dev


def transaction_is_open(connection: Connection) -> bool:
    """Whether SQLite has not rolled back by itself, as it does when the disk is full or fails."""
    driver = _driver(connection)
    return driver.in_transaction


def wait_for_disk(connection: Connection, *, durable: bool) -> None:
    """Between transactions: whether the next commit waits until it is on the disk."""
    _driver(connection).execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")


def is_own_error(error: Exception) -> bool:
    """Whether it is about what the caller wanted, and not about the database."""
    return isinstance(error, IntegrityError) or not isinstance(error, SQLAlchemyError | sqlite3.Error | OSError)


def sqlite_error(path: Path, error: Exception) -> Exception:
    """What the caller gets for `error`."""
    if is_own_error(error):
        return error
    original = error.orig if isinstance(error, DBAPIError) else error
    return DatabaseError(f"the database {path} {_fault(original or error)}")


def _fault(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError):
        gone = isinstance(error, FileNotFoundError)
        return "is gone; put it back, or restore a backup" if gone else f"cannot be used: {error.strerror or error}"
    for mark, said in _FAULTS.items():
        if mark in text:
            return said
    return f"cannot be used: {text}"


_FAULTS: Final = {
    "locked": "is locked by another process; end that process, or wait until it is done, and try again",
    "busy": "is locked by another process; end that process, or wait until it is done, and try again",
    "full": "cannot grow because the disk is full; free some space and try again",
    "disk I/O": "cannot be used: disk I/O error. Its disk may be full: free some space and try again",
    "malformed": "is damaged; restore a backup",
    "not a database": "is no SQLite database, or damaged; restore a backup, or name another file",
    "unable to open": "cannot be opened; make it and its folder writable for this user, or restore a backup",
    "readonly": "cannot be written; make it and its folder writable for this user",
}


def _engine(path: Path, mode: str, timeout_s: float) -> Engine:
    """INVARIANT: opening never makes a file: one that was lost is noticed, and not begun anew without its keys."""
    place = f"file:{quote(str(path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            place, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    return create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _driver(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _execute(connection: Connection, statement: str) -> object:
    return _driver(connection).execute(statement).fetchone()


def _use_log(connection: Connection) -> None:
    """Switch to write-ahead logging. It does not wait for another process that switches, too. Raises DatabaseError."""
    mode: object = None
    for attempt in range(_OPEN_ATTEMPT_COUNT):
        try:
            mode = _execute(connection, "PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError:
            if attempt == _OPEN_ATTEMPT_COUNT - 1:
                raise
            time.sleep(0.02)
    if mode != ("wal",):
        raise DatabaseError(
            "the database is on a file system that cannot share memory between processes; choose another folder"
        )
