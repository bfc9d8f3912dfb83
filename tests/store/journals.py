"""Every kind of audit journal, opened for a test: the SQLite file, PostgreSQL, and the one in memory."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from moonpool.store.database.addresses import PostgresAddress
from moonpool.store.fake import MemoryJournal
from moonpool.store.journal import open_journal
from moonpool.store.journal_reading import FileJournalReader
from moonpool.store.postgres_connections import open_connections
from moonpool.store.postgres_journal import open_postgres_journal
from moonpool.store.postgres_reading import PostgresJournalReader
from moonpool.store.postgres_schema import create_schema

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pytest

    from moonpool.core.audit import AuditRow, Journal, JournalReader
    from moonpool.store.postgres_journal import PostgresJournal
    from postgres import PostgresServer


def address_of(url: str) -> PostgresAddress:
    return PostgresAddress(url, shown="the tests' database")


class Opened:
    """A journal that is written to, and its reader."""

    def __init__(self, stack: AsyncExitStack, journal: Journal, reader: JournalReader, where: str) -> None:
        """`where`: see `journal_at`."""
        self.journal, self.reader, self.where, self._stack = journal, reader, where, stack

    async def rows(self) -> list[AuditRow]:
        return await run_sync(lambda: list(self.reader.rows()))

    async def close(self) -> None:
        await self._stack.aclose()


class MemoryOpened:
    def __init__(self) -> None:
        self.journal = MemoryJournal()

    async def rows(self) -> list[AuditRow]:
        return self.journal.rows

    async def close(self) -> None:
        await self.journal.close()


def reader_of(url: str, tenant_id: str = "default") -> PostgresJournalReader:
    return PostgresJournalReader(address_of(url), tenant_id)


@asynccontextmanager
async def journal_database(server: PostgresServer) -> AsyncGenerator[str]:
    """The URL of a database with the journal's tables."""
    async with server.empty_database() as url:
        async with open_connections(address_of(url)) as connections:
            await create_schema(connections)
        yield url


@asynccontextmanager
async def postgres_journal(
    url: str, tenant_id: str = "default", *, patience_s: float = 10.0, queue_count_max: int = 10_000
) -> AsyncGenerator[PostgresJournal]:
    """One of a process of its own, as far as the database can tell. The tables are there: see `journal_database`."""
    async with (
        open_connections(address_of(url)) as connections,
        open_postgres_journal(
            connections, tenant_id, patience_s=patience_s, queue_count_max=queue_count_max
        ) as journal,
    ):
        yield journal


@asynccontextmanager
async def journal_at(where: str) -> AsyncGenerator[Journal]:
    """The journal in a file, or of the default tenant in the database of a URL."""
    opened = postgres_journal(where) if where.startswith("postgresql:") else open_journal(Path(where))
    async with opened as journal:
        yield journal


@asynccontextmanager
async def opened_journal(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncGenerator[Opened]:
    """`kind` is `sqlite` or `postgres`."""
    async with AsyncExitStack() as stack:
        if kind == "sqlite":
            path = folder / "private" / "audit.sqlite3"
            yield Opened(stack, await stack.enter_async_context(open_journal(path)), FileJournalReader(path), str(path))
        else:
            async with journal_database(request.getfixturevalue("postgres")) as url, stack:
                yield Opened(stack, await stack.enter_async_context(postgres_journal(url)), reader_of(url), url)
