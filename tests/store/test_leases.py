"""Leases of replicas in PostgreSQL: who is taken for dead, what is recorded of it, and what it can still do."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.to_thread import run_sync

from moonpool.core.audit import JournalLostError
from moonpool.features.receipts.model import State
from moonpool.features.receipts.service import execution_states
from moonpool.store.postgres_connections import open_connections
from moonpool.store.postgres_journal import PostgresJournalPlace
from moonpool.store.postgres_leases import Lease, open_lease
from store.audit_records import intent, start
from store.journals import address_of, journal_database, reader_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from moonpool.core.audit import AuditRow
    from moonpool.store.postgres_connections import PostgresConnections
    from postgres import PostgresServer

pytestmark = pytest.mark.anyio
LEASE_S = 0.4


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncGenerator[str]:
    async with journal_database(postgres) as found:
        yield found


def unexpected(why: str) -> None:
    raise AssertionError(why)


def place_of(connections: PostgresConnections, lease: Lease, tenant_id: str = "default") -> PostgresJournalPlace:
    return PostgresJournalPlace(connections, tenant_id, replica_id=lease.replica_id)


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(60):
        while not await holds():  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def rows_of(url: str, kind: str, tenant_id: str = "default") -> list[AuditRow]:
    found = await run_sync(lambda: list(reader_of(url, tenant_id).rows()))
    return [row for row in found if row.kind == kind]


@pytest.mark.req("H-058")
async def test_what_a_dead_replica_ran_is_recorded_as_lost_once(url: str) -> None:
    """Several living ones see it, and the tenant of one is none of theirs. What the dead one sends late is refused."""
    address = address_of(url)
    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(open_connections(address))
        dead = Lease(connections, LEASE_S)
        await dead.register()
        living = [await stack.enter_async_context(open_lease(address, LEASE_S, unexpected)) for _ in range(3)]
        for lease, tenant_id, run_id in (
            (dead, "default", "run_dead"), (dead, "acme", "run_acme"), (living[0], "default", "run_living"),
        ):  # fmt: skip
            place = place_of(connections, lease, tenant_id)
            journal = await stack.enter_async_context(place.open(lazily=False))
            await journal.record(replace(start(run_id), process=place.process))
            if run_id == "run_dead":
                late = journal
                await journal.record(intent(1, run_id))
        reader = reader_of(url)
        mark = place_of(connections, dead).process
        assert not await run_sync(reader.is_gone, place_of(connections, living[0]).process)
        for tenant_id in ("acme", "default"):
            await until(partial(rows_of, url, "execution_lost", tenant_id))
        await until(partial(run_sync, reader.is_gone, mark))
        with pytest.raises(JournalLostError, match="taken it for dead"):
            await late.record(intent(2, "run_dead"))
        states = await run_sync(lambda: execution_states(reader, reader.rows()))
        assert states == {"run_dead": State.LOST, "run_living": State.RUNNING}
        # the living one leaves without an end on record: it is lost, too, and nothing is recorded twice
    lost = [row.run_id for row in await rows_of(url, "execution_lost")]
    assert lost == ["run_dead", "run_living"]
    assert [row.run_id for row in await rows_of(url, "execution_lost", "acme")] == ["run_acme"]
    assert len(await rows_of(url, "call_intent")) == 1
    assert (await run_sync(reader.verify)).ok


@pytest.mark.slow
async def test_replicas_outlive_a_database_that_is_away_for_longer_than_their_leases(
    url: str, postgres: PostgresServer
) -> None:
    address = address_of(url)
    async with AsyncExitStack() as stack:
        living = [await stack.enter_async_context(open_lease(address, LEASE_S, unexpected)) for _ in range(2)]
        postgres.pause()
        try:
            await anyio.sleep(LEASE_S * 3)
        finally:
            postgres.resume()
        connections = await stack.enter_async_context(open_connections(address))
        for lease in living:
            place = place_of(connections, lease)
            assert await run_sync(place.reader().is_gone, place.process) is not True
            async with place.open(lazily=False) as journal:
                await journal.record(intent())
