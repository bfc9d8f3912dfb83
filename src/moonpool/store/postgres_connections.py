"""The connections to PostgreSQL that all audit journals of a process share. Bare asyncpg, imported at first use.

A connection serves one statement at a time, and each statement is a transaction of its own. A connection about which
anything is uncertain is dropped. Whether it makes sense to try again is decided here, by SQLSTATE; what to do then is
decided by `moonpool.store.postgres_chain`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from moonpool.core.audit import JournalError
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from moonpool.store.database.addresses import PostgresAddress

Row = tuple[Any, ...]

VERSION_MIN: Final = 140_000
_PASSING: Final = ("08", "40", "57", "25006", "53300", "55P03")
"""How the SQLSTATE of what passes by itself begins: connections cut or refused, a lost race for a lock, a server that
starts, ends or is a standby."""
_SETTINGS: Final = {"application_name": "moonpool-journal", "default_transaction_isolation": "read committed"}


class DatabaseAwayError(Exception):
    """No answer from the database. `sent`: the statement had been sent, so it may have been carried out."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Connection(Protocol):
    """What is used of asyncpg's, which has no types."""

    async def fetch(self, query: str, /, *arguments: object) -> Sequence[Row]: ...
    async def execute(self, query: str, /) -> object: ...
    async def close(self, *, timeout: float) -> None: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


class PostgresConnections:
    """At most `count_max` connections, opened when they are needed. Used from one event loop."""

    def __init__(self, address: PostgresAddress, *, count_max: int = 4) -> None:
        """Raises ConfigError where asyncpg is missing."""
        self.address, self.name = address, str(address)
        self._turns = asyncio.Semaphore(count_max)
        self._free: list[Connection] = []
        self._asyncpg = load_asyncpg()

    async def fetch(self, query: str, *arguments: object, within_s: float) -> Sequence[Row]:
        """Carry out one statement. Raises DatabaseAwayError, and JournalError where trying again is of no use; then
        nothing was changed.
        """
        sent = False
        try:
            async with asyncio.timeout(within_s), self._turns:
                connection = await self._free_connection()
                sent = True
                rows = await self._fetch(connection, query, arguments)
        except TimeoutError:
            raise DatabaseAwayError(f"it did not answer within {within_s:.1f} s", sent=sent) from None
        except (OSError, self._asyncpg.InterfaceError, self._asyncpg.InternalClientError) as exc:
            raise DatabaseAwayError(on_one_line(exc), sent=sent) from exc
        except self._asyncpg.PostgresError as exc:
            if str(exc.sqlstate or "").startswith(_PASSING):
                raise DatabaseAwayError(on_one_line(exc), sent=sent) from exc
            raise JournalError(f"the audit journal in {self.name} cannot be used: {fault_of(exc)}") from exc
        return rows

    async def run(self, statements: Sequence[str]) -> None:
        """Carry out `statements` as one transaction. Raises JournalError."""
        try:
            async with asyncio.timeout(60), self._turns:
                connection = await self._free_connection()
                try:
                    await connection.execute("BEGIN;" + ";".join(statements) + ";COMMIT")
                except BaseException:
                    connection.terminate()
                    raise
                self._free.append(connection)
        except (OSError, TimeoutError, self._asyncpg.InterfaceError, self._asyncpg.PostgresError) as exc:
            raise JournalError(f"the audit journal in {self.name} cannot be used: {fault_of(exc)}") from exc

    async def close(self) -> None:
        """Close those that are free; all are, once the journals are closed."""
        free, self._free = self._free, []
        for connection in free:
            try:
                await connection.close(timeout=1.0)
            except (OSError, TimeoutError, self._asyncpg.InterfaceError, self._asyncpg.PostgresError):
                connection.terminate()

    async def _free_connection(self) -> Connection:
        while self._free:
            if not (connection := self._free.pop()).is_closed():
                return connection
        return await open_connection(self.address)

    async def _fetch(self, connection: Connection, query: str, arguments: Sequence[object]) -> Sequence[Row]:
        try:
            rows = await connection.fetch(query, *arguments)
        except BaseException:
            connection.terminate()
            raise
        self._free.append(connection)
        return rows


@asynccontextmanager
async def open_connections(address: PostgresAddress, *, count_max: int = 4) -> AsyncGenerator[PostgresConnections]:
    """Yield connections for journals, which end before this does. Raises ConfigError."""
    connections = PostgresConnections(address, count_max=count_max)
    try:
        yield connections
    finally:
        await connections.close()


async def open_connection(address: PostgresAddress, *, read_only: bool = False) -> Connection:
    """Connect. Raises asyncpg's errors, OSError, and JournalError for a URL that cannot be read.

    SECURITY: what is said of a URL may quote its password, so it is not passed on.
    """
    asyncpg = load_asyncpg()
    settings = _SETTINGS | {"default_transaction_read_only": "on" if read_only else "off"}
    try:
        opened = await asyncpg.connect(address.dsn, server_settings=settings)
    except (ValueError, asyncpg.ClientConfigurationError):
        raise JournalError(f"the audit journal in {address} cannot be reached: the URL cannot be read") from None
    return cast("Connection", opened)


def load_asyncpg() -> Any:
    """The module, which is not imported before somebody uses PostgreSQL. Raises ConfigError."""
    try:
        import asyncpg  # noqa: PLC0415  an extra
    except ImportError as exc:
        raise ConfigError("PostgreSQL needs the extra `postgres`; run: pip install 'moonpool[postgres]'") from exc
    return asyncpg


def fault_of(cause: BaseException) -> str:
    """What is wrong, with the remedy."""
    match str(getattr(cause, "sqlstate", "") or ""):
        case "42P01" | "42703" | "42883":
            return "its tables are missing (the first execution, or `moonpool serve`, makes them) or of another version"
        case "28P01" | "28000":
            return "the database refuses the user or the password of its URL"
        case "3D000":
            return "there is no such database; create it"
        case "42501":
            return f"the database's user may not do what it must: {on_one_line(cause)}"
        case "53100":
            return "the database's disk is full; free some space and try again"
        case _:
            return on_one_line(cause)


def on_one_line(cause: BaseException) -> str:
    """What the database, or the connection to it, said."""
    return " ".join((str(cause) or type(cause).__name__).split())[:300]
