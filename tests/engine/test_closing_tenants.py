"""Tenants are opened and closed by any task, at any moment; nothing that hangs holds up their end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from apps import fresh_data
from moonpool.bootstrap import open_engine
from moonpool.core.errors import InputError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.files.errors import FileTransferError
from moonpool.sandboxes import shielding
from moonpool.sandboxes.fake import FakeBackend
from moonpool.settings import Settings
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from tenants import PathsServer, calling_guest, enter_tenant, open_engine_of_fakes
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from moonpool.bootstrap import Engine, Tenant
    from moonpool.sandboxes.fake import FakeGuest

pytestmark = pytest.mark.anyio

CALL = CodeRequest(code=b'["only_t"]')


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return fresh_data(tmp_path / "data")


async def opened(engine: Engine, server: PathsServer, name: str = "t") -> tuple[Tenant, AsyncExitStack]:
    """A tenant, and the stack that closes it, opened by a task that is over."""
    stack = AsyncExitStack()
    return await asyncio.create_task(enter_tenant(stack, engine, server, name)), stack


async def test_any_task_closes_a_tenant_and_it_may_be_closed_again(data: Path) -> None:
    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine, asyncio.timeout(30):
        for by_id, by_stack, cancelled in ((0, 1, True), (1, 1, False), (2, 0, False)):
            tenant, stack = await opened(engine, server)
            assert (await tenant.runtime.run(CALL, tenant.caller_grant)).ok  # so there is a connection to close
            closings = [*(engine.close_tenant("t") for _ in range(by_id)), *(stack.aclose() for _ in range(by_stack))]
            tasks = [asyncio.create_task(closing) for closing in closings]
            await asyncio.sleep(0)
            if cancelled:
                tasks[0].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert (tenant.runtime.is_closed, tasks[0].cancelled()) == (True, cancelled)
            assert engine.tool_registries == {}  # it is closed to the end, also when who closes is cancelled
            await asyncio.gather(*tasks[cancelled:])
            await stack.aclose()
            await engine.close_tenant("t")
        assert engine.pool.statistics().alive == 0


async def test_a_tenant_that_still_opens_is_closed_or_given_up(data: Path) -> None:
    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine, asyncio.timeout(30):
        for steps in (*range(12), 20, 40):  # of the loop, into the opening
            for closed in (True, False):
                opening = asyncio.create_task(opened(engine, server))
                for _ in range(steps):
                    await asyncio.sleep(0)
                if closed:
                    await engine.close_tenant("t")
                else:
                    opening.cancel()
                (outcome,) = await asyncio.gather(opening, return_exceptions=True)
                if isinstance(outcome, tuple):  # it was open already, or not begun when it was closed
                    await outcome[1].aclose()
                elif closed:
                    with pytest.raises(InputError, match="'t' was closed while it opened"):
                        raise outcome
                else:
                    assert isinstance(outcome, asyncio.CancelledError), outcome
                _, stack = await opened(engine, server)  # the id is free, and nothing was left half-open
                await stack.aclose()


async def test_an_engine_closes_the_tenants_that_are_open(data: Path) -> None:
    async with PathsServer().serving() as server, asyncio.timeout(30):
        async with open_engine_of_fakes(data) as engine:
            tenants = [await opened(engine, server, name) for name in ("t", "u")]
            envelope = await tenants[0][0].runtime.run(CALL, tenants[0][0].caller_grant)
        for tenant, stack in tenants:
            assert tenant.runtime.is_closed
            await stack.aclose()
        rows = await asyncio.to_thread(lambda: list(read_rows(journal_path(tenants[0][0].data))))
        assert [row.kind for row in rows if row.run_id == envelope.run_id][-1] == "execution_end"
        with pytest.raises(InputError, match="cannot be opened: Moonpool is closing"):
            await opened(engine, server)


async def test_a_transfer_under_way_is_given_up_and_on_record(data: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"some"
        await asyncio.Event().wait()

    async with PathsServer().serving() as server, open_engine_of_fakes(data) as engine, asyncio.timeout(30):
        tenant, stack = await opened(engine, server)
        session = tenant.runtime.session(tenant.caller_grant)  # whose guest does not answer
        transfers = [
            asyncio.create_task(session.files.put("a", endless())),
            asyncio.create_task(session.files.put("waits-for-its-turn", endless())),
            asyncio.create_task(session.files.list()),
        ]
        await until(lambda: engine.pool.statistics().alive)
        await stack.aclose()
        for transfer in transfers:
            assert transfer.done()
            with pytest.raises(FileTransferError, match="Moonpool was closed during the transfer"):
                transfer.result()
        rows = await asyncio.to_thread(lambda: list(read_rows(journal_path(tenant.data))))
        assert [row.kind for row in rows] == ["file_transfer"] * 2


async def test_what_a_server_never_answers_does_not_hold_up_the_end(data: Path) -> None:
    for method in ("initialize", "tools/list", "tools/call"):
        server = PathsServer(silent=method)
        async with server.serving(), open_engine_of_fakes(data) as engine, asyncio.timeout(30):
            tenant, stack = await opened(engine, server)
            running = asyncio.create_task(tenant.runtime.run(CALL, tenant.caller_grant))
            await until(partial(server.asked.__contains__, method))
            await stack.aclose()
            assert running.done(), method
            assert (error := running.result().error), method
            assert error.type == "Cancelled", method


async def test_a_sandbox_that_does_not_die_does_not_hold_up_the_end(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shielding, "CLOSE_S", 0.05)
    dies = asyncio.Event()

    async def undying(guest: FakeGuest) -> None:
        try:
            await calling_guest(guest)
        finally:
            await dies.wait()

    backend = FakeBackend(undying)
    settings = Settings.load({}, data_dir=data)
    async with PathsServer().serving() as server, asyncio.timeout(30):
        async with open_engine(settings, environ={}, backend=backend) as engine:
            tenant, stack = await opened(engine, server)
            session = tenant.runtime.session(tenant.caller_grant)
            assert (await session.execute(CALL)).ok
            await stack.aclose()
            assert "an execution or a session did not end within 0.05 s and may be left behind" in caplog.text
            again, stack = await opened(engine, server)
            assert (await again.runtime.session(again.caller_grant).execute(CALL)).ok
            await stack.aclose()
        dies.set()
        await until(lambda: all(sandbox.has_ended for sandbox in backend.opened))
