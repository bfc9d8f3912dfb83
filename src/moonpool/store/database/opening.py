"""Opens the database that a URL names, with its tables up to date."""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from moonpool.core.errors import ConfigError
from moonpool.store.database.addresses import SqliteAddress

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.store.database.addresses import DatabaseAddress
    from moonpool.store.database.base import Database


@asynccontextmanager
async def open_database(address: DatabaseAddress, *, connections_max: int = 10) -> AsyncGenerator[Database]:
    """On exit what was begun is finished. `connections_max`: of PostgreSQL; SQLite needs two.

    Raises ConfigError, DatabaseError, DatabaseSchemaError.
    """
    database = await _opened(address, connections_max)
    try:
        yield database
    finally:
        with anyio.CancelScope(shield=True):
            await database.close()


async def upgrade_database(address: DatabaseAddress) -> str:
    """Bring the tables up to date; returns the version that they had, empty for none.

    Raises ConfigError, DatabaseError, DatabaseSchemaError.
    """
    if isinstance(address, SqliteAddress):
        from moonpool.store.database.sqlite_database import upgrade_sqlite  # noqa: PLC0415  see below

        return await anyio.to_thread.run_sync(upgrade_sqlite, address)
    _need_extra()
    from moonpool.store.database.postgres_database import upgrade_postgres  # noqa: PLC0415

    return await upgrade_postgres(address)


async def _opened(address: DatabaseAddress, connections_max: int) -> Database:
    """Only what the address needs is imported: asyncpg is an extra."""
    if isinstance(address, SqliteAddress):
        from moonpool.store.database.sqlite_database import open_sqlite  # noqa: PLC0415

        return await open_sqlite(address)
    _need_extra()
    from moonpool.store.database.postgres_database import open_postgres  # noqa: PLC0415

    return await open_postgres(address, connections_max=connections_max)


def _need_extra() -> None:
    if missing := [name for name in ("asyncpg", "greenlet") if find_spec(name) is None]:
        raise ConfigError(
            f"PostgreSQL needs {' and '.join(missing)}, which is not installed: pip install 'moonpool[postgres]'"
        )
