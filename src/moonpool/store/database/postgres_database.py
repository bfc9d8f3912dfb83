"""The service's database on a PostgreSQL server: asyncpg below SQLAlchemy's async engine, a bounded pool.

Everything runs in a task of its own and is waited for: a caller that is cancelled leaves no half-used connection, and
its change is made or not, as with SQLite. A connection that turns out dead (the server was restarted) is replaced, and
what was begun on it is begun once more, unless its commit had been sent: then nobody knows, and the error says so.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from moonpool.store.database.base import (
    ANSWER_S_MAX,
    ROWS_MAX,
    WAITING_MAX,
    DatabaseError,
    DatabaseSchemaError,
    closed,
    too_many_waiting,
)
from moonpool.store.database.postgres_faults import is_own_error, postgres_fault, was_refused, was_taken_back
from moonpool.store.database.schema import check_current, upgrade

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from sqlalchemy import Connection, Row, Select

    from moonpool.store.database.addresses import PostgresAddress

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
VERSION_MIN: Final = 14
_CONNECT_S: Final = 5.0
_STATEMENT_S: Final = 20.0
_ATTEMPT_COUNT: Final = 3


class PostgresDatabase:
    """The `Database` of one process. Opened by `open_postgres`."""

    def __init__(self, address: PostgresAddress, engine: AsyncEngine) -> None:
        self._address, self._engine = address, engine
        self._reading = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def read(self, query: Select[Any], /) -> Sequence[Row[Any]]:
        async def attempt() -> Sequence[Row[Any]]:
            async with self._reading.connect() as connection:
                rows = (await connection.execute(query)).fetchmany(ROWS_MAX + 1)
            assert len(rows) <= ROWS_MAX, "tables bound what they ask for"
            return rows

        return await self._run(self._attempts(attempt))

    async def write(self, work: Callable[[Connection], _T], /, *, durable: bool = True) -> _T:
        return await self._run(self._attempts(lambda: self._transaction(work, durable=durable)))

    async def close(self) -> None:
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._engine.dispose()

    async def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """`work` in a task of its own, which goes on when the caller is cancelled."""
        if self._closed or len(self._tasks) >= WAITING_MAX:
            work.close()
            raise closed() if self._closed else too_many_waiting()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that was cancelled does not hear of it

    async def _attempts(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Raises DatabaseError, and what the caller's own work raises."""
        within = asyncio.timeout(ANSWER_S_MAX)
        try:
            async with within:
                for _ in range(_ATTEMPT_COUNT - 1):
                    try:
                        return await attempt()
                    except Exception as error:
                        if is_own_error(error) or not was_taken_back(error):
                            raise
                return await attempt()
        except Exception as error:
            if is_own_error(error) or isinstance(error, DatabaseError):
                raise
            if within.expired():
                unknown = f"did not answer within {ANSWER_S_MAX:.0f} s; whether a change was made is unknown"
                raise DatabaseError(f"{self._address} {unknown}") from error
            raise DatabaseError(f"{self._address} {postgres_fault(error)}") from error

    async def _transaction(self, work: Callable[[Connection], _T], *, durable: bool) -> _T:
        connection = await self._engine.connect()
        try:
            transaction = await connection.begin()
            if not durable:
                await connection.execute(text("SET LOCAL synchronous_commit = off"))
            result = await connection.run_sync(work)
            try:
                await transaction.commit()
            except Exception as error:
                if was_refused(error) or is_own_error(error):
                    raise
                raise DatabaseError(
                    f"{self._address} was lost while a change was committed; whether it was made is unknown"
                ) from error
            return result
        finally:
            await self._give_back(connection)

    async def _give_back(self, connection: AsyncConnection) -> None:
        """INVARIANT: never raises, or a change that was committed would be made once more."""
        try:
            await connection.close()
        except Exception as error:  # noqa: BLE001  the pool drops it
            _log.warning("a connection to %s could not be given back: %s", self._address, type(error).__name__)


def make_engine(address: PostgresAddress, connections_max: int) -> AsyncEngine:
    """An engine whose connections are asyncpg's, made from the URL as PostgreSQL's own clients read it."""
    driver: Any = asyncpg  # without types of its own

    async def connect() -> Any:
        return await driver.connect(
            address.dsn,
            timeout=_CONNECT_S,
            command_timeout=_STATEMENT_S,
            server_settings={
                "application_name": "moonpool",
                # a process that stops in the middle of a transaction holds its locks no longer than this
                "idle_in_transaction_session_timeout": "60000",
            },
        )

    return create_async_engine(
        "postgresql+asyncpg://", async_creator=connect, pool_size=connections_max, max_overflow=0, pool_timeout=10.0,
        pool_use_lifo=True, hide_parameters=True,
    )  # fmt: skip


async def open_postgres(address: PostgresAddress, *, connections_max: int) -> PostgresDatabase:
    """Connect, make the tables if there are none, and check them. Raises DatabaseError, DatabaseSchemaError."""

    def prepare(connection: Connection) -> None:
        upgrade(connection, only_empty=True)
        check_current(connection)

    return await _prepared(PostgresDatabase(address, make_engine(address, connections_max)), prepare)


async def upgrade_postgres(address: PostgresAddress) -> str:
    """Bring the tables up to date; returns the version that they had. Raises DatabaseError, DatabaseSchemaError."""
    versions: list[str] = []
    database = PostgresDatabase(address, make_engine(address, 1))
    await (await _prepared(database, lambda connection: versions.append(upgrade(connection)))).close()
    return versions[-1]


def check_server(number: str) -> None:
    """`number` is what the server says of its version, as 150018. Raises DatabaseSchemaError when it is too old."""
    major = int(number) // 10_000
    if major < VERSION_MIN:
        raise DatabaseSchemaError(f"PostgreSQL {major} is too old: Moonpool needs {VERSION_MIN} or newer; upgrade it")


async def _prepared(database: PostgresDatabase, prepare: Callable[[Connection], None]) -> PostgresDatabase:
    def checked(connection: Connection) -> None:
        check_server(connection.execute(text("SHOW server_version_num")).scalar_one())
        prepare(connection)

    try:
        await database.write(checked)
    except BaseException:
        await database.close()
        raise
    return database
