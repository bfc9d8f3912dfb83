"""What a process of the service shares with the other replicas on its database: signals, a lease, journals, executions.

With PostgreSQL only. On SQLite there is one process, and an organisation's journal and executions are in its folder.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.store.journals import postgres_address

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from moonpool.core.audit import JournalPlace
    from moonpool.engine.executions import Executions
    from moonpool.engine.kept_executions import KeptExecutions
    from moonpool.settings import Settings
    from moonpool.store.postgres_connections import PostgresConnections
    from moonpool.store.signals import Signals


@dataclass(frozen=True, kw_only=True)
class Replica:
    """This process among the replicas on a PostgreSQL database."""

    connections: PostgresConnections
    signals: Signals
    replica_id: str
    running: dict[str, Executions] = field(default_factory=dict[str, "Executions"])  # by organisation

    def journal_place(self, organisation: str) -> JournalPlace:
        """Where its journal lies."""
        from moonpool.store.postgres_journal import PostgresJournalPlace  # noqa: PLC0415  asyncpg is an extra

        return PostgresJournalPlace(self.connections, organisation, replica_id=self.replica_id)

    def kept(self, organisation: str) -> KeptExecutions:
        """Its executions that outlive requests."""
        from moonpool.engine.shared_executions import SharedExecutions  # noqa: PLC0415  see above

        process = self.journal_place(organisation).process
        return SharedExecutions(self.connections, self.signals, organisation, process)


@asynccontextmanager
async def open_replica(
    settings: Settings, state: Path, on_lost: Callable[[str], None]
) -> AsyncGenerator[Replica | None]:
    """Open it; leave it when all tenants are closed. `on_lost` is told when the others have taken this one for dead.

    None: the database is not PostgreSQL.

    Raises ConfigError, JournalError.
    """
    address = postgres_address(settings, state)
    if address is None:
        yield None
        return
    from moonpool.engine.shared_executions import end_cancelled  # noqa: PLC0415  see above
    from moonpool.store.postgres_connections import open_connections  # noqa: PLC0415
    from moonpool.store.postgres_leases import open_lease  # noqa: PLC0415
    from moonpool.store.postgres_reading import REPLICA  # noqa: PLC0415
    from moonpool.store.postgres_schema import create_schema  # noqa: PLC0415
    from moonpool.store.signals import open_signals  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(open_connections(address))
        await create_schema(connections)
        lease = await stack.enter_async_context(open_lease(address, settings.replica_lease_s, on_lost))
        signals = await stack.enter_async_context(open_signals(address))
        replica = Replica(connections=connections, signals=signals, replica_id=lease.replica_id)
        process = f"{REPLICA}{lease.replica_id}"
        ending = asyncio.create_task(end_cancelled(connections, signals, process, replica.running))
        try:
            yield replica
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
