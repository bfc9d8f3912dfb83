"""Signals between the processes that share a database: "this topic has changed", so that nobody who waits polls it.

A topic is a word such as `approvals/acme`. Who changes something sends its topic in the transaction of the change; who
waits for a change listens first, looks, and looks again each time it is woken. A signal carries nothing else: what
counts is what the tables say.

A signal is sent by `SELECT pg_notify('moonpool', TOPIC)`; one connection of each process listens. INVARIANT: while that
connection does not stand, everybody who listens is woken every `POLL_S`. It is asked every `PING_S` whether it stands,
which must be answered within `PONG_S`. Together they are a second at most, within which a change is seen also by who
hears no signal.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.audit import JournalError
from moonpool.store.postgres_connections import load_asyncpg, on_one_line, open_connection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from moonpool.store.database.addresses import PostgresAddress

POLL_S: Final = 0.25
PING_S: Final = 0.25
PONG_S: Final = 0.5
_CONNECT_S: Final = 5.0
_CHANNEL: Final = "moonpool"
TOPIC_CHARS_MAX: Final = 400
_log = logging.getLogger(__name__)


class Listening:
    """Of one topic. A signal that came since the last `wait`, or since it began, is not missed."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    async def wait(self) -> None:
        """Return when the topic may have changed."""
        await self._woken.wait()
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()


class Signals:
    """Of one process, on one event loop. Opened by `open_signals`."""

    def __init__(self) -> None:
        self._listening: dict[str, set[Listening]] = {}
        self.are_heard = False  # those of other processes

    @contextmanager
    def listening(self, topic: str) -> Generator[Listening]:
        """Listen to `topic`."""
        assert len(topic.encode()) <= TOPIC_CHARS_MAX, "PostgreSQL bounds what a signal says"
        one = Listening()
        of_topic = self._listening.setdefault(topic, set())
        of_topic.add(one)
        try:
            yield one
        finally:
            of_topic.discard(one)
            if not of_topic and self._listening.get(topic) is of_topic:
                del self._listening[topic]

    def wake(self, topic: str) -> None:
        """Wake who listens to `topic` in this process."""
        for one in self._listening.get(topic, ()):
            one.wake()

    def _wake_all(self) -> None:
        for topic in self._listening:
            self.wake(topic)

    async def tick(self) -> None:
        """Wake everybody now and then while no signals come from elsewhere."""
        while True:
            await asyncio.sleep(POLL_S)
            if not self.are_heard:
                self._wake_all()

    async def hear(self, address: PostgresAddress) -> None:
        """Keep a connection that listens, and wake who is concerned."""
        asyncpg = load_asyncpg()
        was_told = False
        while True:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    connection: Any = await open_connection(address)
                try:
                    await self._heard(connection)
                finally:
                    self.are_heard = False
                    connection.terminate()
            except (OSError, TimeoutError, JournalError, asyncpg.PostgresError, asyncpg.InterfaceError) as exc:
                log = _log.debug if was_told else _log.warning
                log("signals from %s do not come, so it is asked more often: %s", address, on_one_line(exc))
                was_told = True
            await asyncio.sleep(POLL_S)

    async def _heard(self, connection: Any) -> None:
        """Raises the errors of the connection when it does not stand any more."""

        def on_signal(_connection: object, _pid: int, _channel: str, topic: str) -> None:
            self.wake(topic)

        async with asyncio.timeout(_CONNECT_S):
            await connection.add_listener(_CHANNEL, on_signal)
        self.are_heard = True
        self._wake_all()  # for what was sent before
        while True:
            await asyncio.sleep(PING_S)
            async with asyncio.timeout(PONG_S):
                await connection.fetch("SELECT 1")


@asynccontextmanager
async def open_signals(address: PostgresAddress) -> AsyncGenerator[Signals]:
    """Signals of all processes that use the database at `address`. Raises ConfigError."""
    load_asyncpg()
    signals = Signals()
    tasks = [asyncio.create_task(work) for work in (signals.tick(), signals.hear(address))]
    try:
        yield signals
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
