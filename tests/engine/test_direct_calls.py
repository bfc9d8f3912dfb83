"""Calls that the application makes itself: each start on record has its end, which says what happened."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NoReturn

import pytest

from apps import fresh_data
from moonpool.core.errors import MoonpoolError
from moonpool.engine.direct_calls import call_directly
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from tenants import PathsServer, enter_tenant, open_engine_of_fakes

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap import Tenant

pytestmark = pytest.mark.anyio


async def _call(tenant: Tenant) -> None:
    await call_directly(tenant.runtime, tenant.caller_grant, "paths", "only_t", {}, begun=lambda _: None)


async def test_each_start_has_an_end_that_says_what_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> NoReturn:
        raise KeyError("a bug")

    async with PathsServer().serving() as server, AsyncExitStack() as stack, asyncio.timeout(60):
        engine = await stack.enter_async_context(open_engine_of_fakes(fresh_data(tmp_path / "data")))
        tenant = await enter_tenant(stack, engine, server, "t")
        await _call(tenant)
        for steps in (*range(12), 20, 40):  # of the loop, into the call
            calling = asyncio.create_task(_call(tenant))
            for _ in range(steps):
                await asyncio.sleep(0)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        monkeypatch.setattr(tenant.runtime.pipeline, "run", fail)
        with pytest.raises(KeyError):
            await _call(tenant)
        path = journal_path(tenant.data)
        await stack.aclose()
        rows = [row.to_json() for row in await asyncio.to_thread(lambda: list(read_rows(path)))]
    starts = [row["run_id"] for row in rows if row["kind"] == "execution_start"]
    ends = {row["run_id"]: row["error_type"] for row in rows if row["kind"] == "execution_end"}
    assert sorted(starts) == sorted(map(str, ends))
    assert (ends[starts[0]], ends[starts[-1]]) == ("", "Internal")
    assert set(ends.values()) <= {"", "Internal", "Cancelled"}


async def test_a_start_that_cannot_be_recorded_has_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with PathsServer().serving() as server, AsyncExitStack() as stack, asyncio.timeout(60):
        engine = await stack.enter_async_context(open_engine_of_fakes(fresh_data(tmp_path / "data")))
        tenant = await enter_tenant(stack, engine, server, "t")
        recorded: list[str] = []

        async def record(entry: object) -> None:
            recorded.append(type(entry).__name__)
            raise MoonpoolError("no space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(tenant.runtime.journal, "record", record)
            with pytest.raises(MoonpoolError, match="no space"):
                await _call(tenant)
    assert recorded == ["ExecutionStartRecord"]
