"""Signals between processes that share a database."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.store.postgres_connections import open_connections
from moonpool.store.signals import open_signals
from store.journals import address_of

if TYPE_CHECKING:
    from moonpool.store.signals import Signals
    from postgres import PostgresServer

pytestmark = pytest.mark.anyio
TOPIC = "approvals/acme"


async def send(url: str, topic: str = TOPIC) -> None:
    async with open_connections(address_of(url)) as connections:
        await connections.fetch("SELECT pg_notify('moonpool', $1)", topic, within_s=30)


async def stands(signals: Signals, url: str) -> None:
    """Wait until signals come: a topic of its own is heard, and everybody is no longer woken in between."""
    with signals.listening("here") as heard, anyio.fail_after(30):
        while not signals.are_heard:
            await send(url, "here")
            await heard.wait()


async def test_a_signal_wakes_who_listens_to_its_topic_in_every_process(database: str) -> None:
    address = address_of(database)
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(open_signals(address)) for _ in range(2)]
        for signals in processes:
            await stands(signals, database)
        waiting = [stack.enter_context(signals.listening(TOPIC)) for signals in processes]
        others = stack.enter_context(processes[0].listening("approvals/other"))
        await send(database)
        with anyio.fail_after(30):
            for one in waiting:
                await one.wait()
        with anyio.move_on_after(0.05) as quiet:
            await others.wait()
        assert quiet.cancelled_caught


async def test_who_listens_is_woken_while_no_signals_come(postgres: PostgresServer) -> None:
    async with open_signals(address_of(postgres.url())) as signals:
        await stands(signals, postgres.url())
        postgres.pause()
        try:
            with signals.listening(TOPIC) as one, anyio.fail_after(30):
                await one.wait()
                await one.wait()
        finally:
            postgres.resume()
        await stands(signals, postgres.url())
