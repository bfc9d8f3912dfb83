"""Where a tenant's audit journal lies: in its folder, or in PostgreSQL where `database_url` names such a database.

Whoever writes or reads a journal asks here, the service as well as commands, so that both use the same one.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.store.database.addresses import PostgresAddress, database_address
from moonpool.store.journal import JournalFilePlace
from moonpool.store.journal_entries import entry_of
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import FileJournalReader
from moonpool.store.paths import DEFAULT_TENANT, journal_path, tenant_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.core.audit import JournalPlace, JournalReader
    from moonpool.core.audit_records import OutboxRecord
    from moonpool.settings import Settings


def postgres_address(settings: Settings, data: Path) -> PostgresAddress | None:
    """Of the database that holds the journals, if it is PostgreSQL. Raises ConfigError."""
    address = database_address(settings.database_url, data)
    return address if isinstance(address, PostgresAddress) else None


def journal_reader(settings: Settings, folder: Path, tenant_id: str = DEFAULT_TENANT) -> JournalReader:
    """The journal of a tenant with this folder, for those who read it. Raises ConfigError."""
    address = postgres_address(settings, folder)
    if address is None:
        return FileJournalReader(journal_path(folder))
    from moonpool.store.postgres_reading import PostgresJournalReader  # noqa: PLC0415  most commands need none

    return PostgresJournalReader(address, tenant_id)


@asynccontextmanager
async def open_journal_place(
    settings: Settings, folder: Path, tenant_id: str = DEFAULT_TENANT
) -> AsyncGenerator[JournalPlace]:
    """The journal of a tenant, for a process that is no replica of the service. Raises ConfigError, JournalError."""
    address = postgres_address(settings, folder)
    if address is None:
        yield JournalFilePlace(journal_path(folder))
        return
    from moonpool.store.postgres_connections import open_connections  # noqa: PLC0415
    from moonpool.store.postgres_journal import PostgresJournalPlace  # noqa: PLC0415
    from moonpool.store.postgres_schema import create_schema  # noqa: PLC0415  see above

    async with open_connections(address) as connections:
        await create_schema(connections)
        yield PostgresJournalPlace(connections, tenant_id)


def put_on_record(settings: Settings, data: Path, record: OutboxRecord, tenant_id: str = DEFAULT_TENANT) -> None:
    """Write one record of a tenant. Blocking, where no loop runs. Raises ConfigError, JournalError."""
    if postgres_address(settings, data) is None:
        journal = JournalFile(journal_path(tenant_dir(data, tenant_id)))
        try:
            journal.append([entry_of(record)], durable=True)
        finally:
            journal.close()
        return

    async def write() -> None:
        async with open_journal_place(settings, data, tenant_id) as place, place.open(lazily=False) as journal:
            await journal.record(record)

    asyncio.run(write())
