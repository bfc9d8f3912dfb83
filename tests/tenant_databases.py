"""A PostgreSQL database with the service's tables, for what tenants keep: one for a module, a loop in a thread.

Each test has an organisation of its own (`organisation`), so nothing is emptied between them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal

from moonpool.store.database.addresses import PostgresAddress
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.blocking import TenantRows
from moonpool.store.database.opening import open_database

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.store.database.base import Database
    from postgres import PostgresServer

_NUMBERS = count(1)


@dataclass(frozen=True)
class OpenedDatabase:
    """An open database, and the loop that it runs in, which is another thread's."""

    database: Database
    loop: asyncio.AbstractEventLoop


@pytest.fixture(scope="module")
def tenant_database(postgres: PostgresServer) -> Generator[OpenedDatabase]:
    with start_blocking_portal() as portal:
        name = portal.call(postgres.take_database)
        opening = open_database(PostgresAddress(postgres.url(name), shown=f"PostgreSQL, database {name}"))
        with portal.wrap_async_context_manager(opening) as database:
            yield OpenedDatabase(database, portal.call(_running_loop))
        portal.call(postgres.return_database, name)


@pytest.fixture
def organisation() -> str:
    return f"org-{next(_NUMBERS)}"


@pytest.fixture
def tenant_rows(tenant_database: OpenedDatabase, organisation: str) -> TenantRows:
    return TenantRows(tenant_database.database, tenant_database.loop, organisation, "test", DatabaseError)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
