"""The service's database on both of its engines, for tests: `database_address` is parametrised by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from moonpool.store.database.addresses import PostgresAddress, SqliteAddress
from moonpool.store.database.opening import open_database

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.store.database.addresses import DatabaseAddress
    from moonpool.store.database.base import Database


@pytest.fixture(params=["sqlite", "postgresql"])
async def database_address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[DatabaseAddress]:
    """Of a database with nothing in it."""
    if request.param == "sqlite":
        yield SqliteAddress(tmp_path / "private" / "service.sqlite3", is_default=True)
        return
    server = request.getfixturevalue("postgres")
    name = await server.take_database()
    yield PostgresAddress(server.url(name), shown=f"PostgreSQL, database {name}")
    await server.return_database(name)


@pytest.fixture
async def opened(database_address: DatabaseAddress) -> AsyncGenerator[Database]:
    """It, with the tables of the service."""
    async with open_database(database_address) as database:
        yield database
