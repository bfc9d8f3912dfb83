"""Tenants whose journals are in PostgreSQL: a chain each, and no call that is not on record."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.to_thread import run_sync

from apps import fresh_data
from moonpool.engine.code_request import CodeRequest
from moonpool.store.postgres_connections import open_connections
from moonpool.store.postgres_journal import PostgresJournalPlace
from store.journals import address_of, journal_database
from tenants import PathsServer, enter_tenant, open_engine_of_fakes

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope
    from postgres import PostgresServer

pytestmark = pytest.mark.anyio


async def call(tenant: Tenant) -> Envelope:
    """Calls the tenant's only tool, which may change something."""
    code = json.dumps([f"only_{tenant.tenant_id}"]).encode()
    return await tenant.runtime.run(CodeRequest(code=code), tenant.caller_grant)


@pytest.mark.req("H-058")
async def test_each_tenant_records_its_calls_in_its_chain(postgres: PostgresServer, tmp_path: Path) -> None:
    with anyio.fail_after(100):
        async with journal_database(postgres) as url, AsyncExitStack() as stack:
            server = await stack.enter_async_context(PathsServer().serving())
            engine = await stack.enter_async_context(open_engine_of_fakes(fresh_data(tmp_path / "data")))
            connections = await stack.enter_async_context(open_connections(address_of(url)))
            tenants = [
                await enter_tenant(stack, engine, server, name, journal_place=PostgresJournalPlace(connections, name))
                for name in ("a", "b")
            ]
            for tenant in tenants:
                envelope: Any = (await call(tenant)).to_json()
                assert envelope["result"]["ok"], envelope
                reader = tenant.journal_place.reader()
                assert (await run_sync(reader.verify)).ok
                kinds = [row.kind for _, row in await run_sync(reader.run, envelope["run_id"])]
                assert kinds == ["execution_start", "call_intent", "call_outcome", "execution_end"]
    assert list((tmp_path / "data").glob("**/audit.sqlite3")) == []


async def test_without_its_database_a_tenant_calls_nothing(postgres: PostgresServer, tmp_path: Path) -> None:
    with anyio.fail_after(100):
        async with journal_database(postgres) as url, AsyncExitStack() as stack:
            server = await stack.enter_async_context(PathsServer().serving())
            engine = await stack.enter_async_context(open_engine_of_fakes(fresh_data(tmp_path / "data")))
            connections = await stack.enter_async_context(open_connections(address_of(url)))
            place = PostgresJournalPlace(connections, "a", patience_s=2)
            tenant = await enter_tenant(stack, engine, server, "a", journal_place=place)
            assert (await call(tenant)).to_json()["result"]["ok"]
            made = len(server.calls)
            postgres.kill()
            try:
                refused = (await call(tenant)).to_json()["result"]
            finally:
                postgres.start()
            assert "cannot be reached" in json.dumps(refused)
            assert len(server.calls) == made
            while not (await call(tenant)).ok:  # a busy machine may not answer in time
                pass
            assert (await run_sync(place.reader().verify)).ok
