"""The PostgreSQL server of tests: what is promised of it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import asyncpg
import pytest

from postgres import PASSWORD, new_server

if TYPE_CHECKING:
    from postgres import PostgresServer

pytestmark = pytest.mark.anyio


async def test_what_was_committed_is_there_after_a_crash(postgres: PostgresServer, database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("CREATE TABLE kept (number int); INSERT INTO kept VALUES (7)")
    postgres.kill()
    postgres.start()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.fetchval("SELECT number FROM kept")
    again = await asyncpg.connect(database)
    assert await again.fetchval("SELECT number FROM kept") == 7
    await again.close()


async def test_the_next_test_finds_nothing_of_this_one(postgres: PostgresServer) -> None:
    name = await postgres.take_database()
    left = await asyncpg.connect(postgres.url(name))
    await left.execute("CREATE SCHEMA other; CREATE TABLE kept (number int); BEGIN; SELECT * FROM kept")
    await postgres.return_database(name)
    assert await postgres.take_database() == name
    again = await asyncpg.connect(postgres.url(name))
    found = await again.fetchval(
        "SELECT count(*) FROM pg_class WHERE relnamespace >= 16384 OR relnamespace = to_regnamespace('other')"
    )
    assert found == 0
    await again.close()
    left.terminate()
    await postgres.return_database(name)


async def test_on_loopback_a_password_is_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with new_server(tcp_port=port) as server:
        connection = await asyncpg.connect(server.tcp_url())
        assert await connection.fetchval("SHOW fsync") == "on"
        await connection.close()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(server.tcp_url().replace(PASSWORD, "guessed"))
