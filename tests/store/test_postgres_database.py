"""The service's database on PostgreSQL: restarts, faults and what is said of them, versions, the bound of the pool."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import anyio
import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError

from databases import database_address, opened
from moonpool.core.errors import ConfigError
from moonpool.store.database import schema
from moonpool.store.database.addresses import PostgresAddress
from moonpool.store.database.addresses import database_address as address_of
from moonpool.store.database.base import DatabaseError, DatabaseSchemaError
from moonpool.store.database.opening import open_database, upgrade_database
from moonpool.store.database.postgres_database import check_server
from moonpool.store.database.tables import METADATA, ORGANISATION
from postgres import PASSWORD, new_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Connection

    from moonpool.store.database.base import Database
    from postgres import PostgresServer

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio

IDS = select(ORGANISATION.c.id).order_by(ORGANISATION.c.id)


def address(url: str) -> PostgresAddress:
    return PostgresAddress(url, shown="PostgreSQL, the test's")


def made(name: str) -> Callable[[Connection], object]:
    row = insert(ORGANISATION).values(id=name, name="x", created_at=1.0)
    return lambda connection: connection.execute(row)


def raising(state: str) -> Callable[[Connection], object]:
    """The server itself raises the error with this SQLSTATE, as it does when it happens."""
    statement = f"DO $$ BEGIN RAISE EXCEPTION 'so it is' USING ERRCODE = '{state}'; END $$"
    return lambda connection: connection.execute(text(statement))


async def ids(database: Database) -> list[str]:
    return [row.id for row in await database.read(IDS)]


async def test_the_migrated_tables_are_the_ones_that_the_program_uses(opened: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), METADATA))

    assert await opened.write(differences) == []


def test_the_newest_migration_is_the_head() -> None:
    names = sorted(path.name for path in (schema.MIGRATIONS / "versions").glob("r*.py"))
    assert names[-1].startswith(f"r{schema.HEAD}_")
    assert [name[1:5] for name in names] == [f"{number:04}" for number in range(1, len(names) + 1)]


async def test_replicas_that_start_together_make_the_tables_once(database: str) -> None:
    async def start() -> list[str]:
        async with open_database(address(database)) as one:
            return await ids(one)

    with anyio.fail_after(60):
        assert await asyncio.gather(*(start() for _ in range(5))) == [[]] * 5


async def test_an_older_schema_is_refused_and_upgraded_by_command(database: str) -> None:
    await upgrade_database(address(database))
    async with open_database(address(database)) as one:
        await one.write(METADATA.drop_all)
        await one.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '0000'")))
    with pytest.raises(DatabaseSchemaError, match=r"older Moonpool \(version 0000.*`moonpool db upgrade`"):
        async with open_database(address(database)):
            pass


async def test_a_newer_schema_is_refused_by_both(database: str) -> None:
    await upgrade_database(address(database))
    async with open_database(address(database)) as one:
        await one.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    for attempt in (upgrade_database(address(database)), _open_once(database)):
        with pytest.raises(DatabaseSchemaError, match="newer Moonpool"):
            await attempt


async def _open_once(url: str) -> None:
    async with open_database(address(url)):
        pass


async def test_a_restarted_server_is_used_again_without_an_error(database: str, postgres: PostgresServer) -> None:
    async with open_database(address(database), connections_max=4) as one:
        await asyncio.gather(*(one.write(made(f"org-{number}")) for number in range(8)))
        postgres.stop()
        postgres.start()
        with anyio.fail_after(60):
            outcomes = await asyncio.gather(*(one.read(IDS) for _ in range(8)))
            await one.write(made("after"))
        assert {len(rows) for rows in outcomes} == {8}


async def test_while_the_server_is_gone_it_is_said_and_what_was_written_is_kept(
    database: str, postgres: PostgresServer
) -> None:
    async with open_database(address(database)) as one:
        await one.write(made("acme"))
        postgres.kill()
        try:
            with anyio.fail_after(60):
                with pytest.raises(DatabaseError, match=r"cannot be reached|closed the connection"):
                    await one.write(made("lost"))
                with pytest.raises(DatabaseError, match="cannot be reached"):
                    await one.read(IDS)
        finally:
            postgres.start()
        assert await ids(one) == ["acme"]
        await one.write(made("zeta"))
        assert await ids(one) == ["acme", "zeta"]


@pytest.mark.slow
async def test_what_was_told_as_written_survives_kills_of_the_server(database: str, postgres: PostgresServer) -> None:
    told: set[str] = set()

    async def write(one: Database, name: str) -> None:
        try:
            await one.write(made(name))
        except DatabaseError:
            return
        told.add(name)

    async with open_database(address(database)) as one:
        for number in range(5):
            before = len(told)
            async with anyio.create_task_group() as tasks:
                for at in range(60):
                    tasks.start_soon(write, one, f"org-{number}-{at}")
                with anyio.fail_after(60):
                    while len(told) < before + 5:
                        await anyio.lowlevel.checkpoint()
                postgres.kill()
                postgres.start()  # in this thread: the server ends with the one that started it
        with anyio.fail_after(60):
            assert told <= set(await ids(one))
    assert len(told) >= 25


async def test_a_commit_that_nobody_heard_of_is_told_as_unknown(database: str, postgres: PostgresServer) -> None:
    def end_at_commit(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE fatal (id int)"))
        connection.execute(
            text(
                "CREATE FUNCTION fatal() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
        )
        connection.execute(
            text(
                "CREATE CONSTRAINT TRIGGER fatal AFTER INSERT ON fatal DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION fatal()"
            )
        )
        connection.execute(text("INSERT INTO fatal VALUES (1)"))

    async with open_database(address(database)) as one:
        with pytest.raises(DatabaseError, match="whether it was made is unknown"):
            await one.write(end_at_commit)
        await one.write(made("acme"))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("53100", "has no space left on its disk; free some"),
        ("53300", "accepts no more connections"),
        ("25006", "is read-only, perhaps a standby"),
        ("55P03", "is locked by another process"),
        ("57014", "took too long"),
        ("42501", "refuses it: so it is"),
    ],
)
async def test_faults_of_the_server_are_told_with_their_remedy(database: str, state: str, said: str) -> None:
    async with open_database(address(database)) as one:
        with pytest.raises(DatabaseError, match=said):
            await one.write(raising(state))
        assert await ids(one) == []


async def test_what_meets_a_deadlock_is_tried_again(database: str) -> None:
    attempts: list[int] = []

    def work(connection: Connection) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raising("40P01")(connection)
        made("acme")(connection)

    async with open_database(address(database)) as one:
        await one.write(work)
        assert await ids(one) == ["acme"]
    assert len(attempts) == 2


async def test_no_more_connections_than_agreed(database: str) -> None:
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'moonpool' AND datname = current_database()"
    async with open_database(address(database), connections_max=3) as one:
        with anyio.fail_after(60):
            await asyncio.gather(*(one.write(made(f"org-{number}")) for number in range(30)))
        assert await one.write(lambda connection: connection.execute(text(count)).scalar_one()) <= 3


async def test_a_server_that_cannot_be_reached_is_one_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    urls = [f"postgresql://me:s3cret@127.0.0.1:{port}/moon", f"postgresql://me:s3cret@/moon?host={tmp_path}"]
    for url in urls:
        with pytest.raises(DatabaseError, match=r"cannot be reached.*look whether it runs") as refused:
            await _open_url(url, tmp_path)
        assert "s3cret" not in str(refused.value)


async def _open_url(url: str, tmp_path: Path) -> None:
    async with open_database(address_of(url, tmp_path)):
        pass


async def test_logins_are_refused_without_the_password_in_the_message(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with new_server(tcp_port=port) as server:
        await _open_url(server.tcp_url(), tmp_path)
        wrong = [
            (server.tcp_url().replace(PASSWORD, "wr0ng"), "refuses the login: password authentication failed"),
            (server.tcp_url("none"), 'database "none" does not exist'),
            (server.tcp_url() + "?sslmode=require", "closed the connection|cannot be reached"),
            (server.tcp_url() + "?sslmode=verify-full", "cannot be used as its URL says: .*root"),
        ]
        for url, said in wrong:
            with pytest.raises(DatabaseError, match=said) as refused:
                await _open_url(url, tmp_path)
            assert "wr0ng" not in str(refused.value)
            assert PASSWORD not in str(refused.value)


async def test_a_server_that_is_too_old_is_refused() -> None:
    check_server("140000")
    check_server("180003")
    with pytest.raises(DatabaseSchemaError, match="PostgreSQL 13 is too old: Moonpool needs 14 or newer"):
        check_server("130022")


async def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("moonpool.store.database.opening.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'moonpool\[postgres\]'"):
        await _open_url("postgresql://h/moon", tmp_path)


async def test_a_user_who_may_not_make_tables_is_told(database: str) -> None:
    async with open_database(address(database)):
        pass
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await connection.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN")
        with pytest.raises(DatabaseError, match=r"refuses it: permission denied|refuses it: no schema"):
            await upgrade_database(address(database.replace("moonpool@", "reader@")))
    finally:
        await connection.execute("DROP ROLE reader")
        await connection.close()


async def test_who_waits_too_long_is_told_that_nobody_knows(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_database(address(database), connections_max=1) as one:
        monkeypatch.setattr("moonpool.store.database.postgres_database.ANSWER_S_MAX", 0.2)
        with anyio.fail_after(30):
            with pytest.raises(DatabaseError, match="whether a change was made is unknown"):
                await one.write(lambda connection: connection.execute(text("SELECT pg_sleep(60)")))
            monkeypatch.undo()
            await one.write(made("acme"))
            assert await ids(one) == ["acme"]


async def test_the_journals_tables_may_have_been_there_first(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("CREATE TABLE audit_head (tenant_id text PRIMARY KEY)")
    async with open_database(address(database)) as one:
        assert await ids(one) == []
    ours = ", ".join(["alembic_version", *METADATA.tables])
    await connection.execute(f"DROP TABLE {ours}; CREATE TABLE songs (name text)")
    await connection.close()
    with pytest.raises(DatabaseSchemaError, match=r"not Moonpool's \(songs\)"):
        await _open_once(database)


async def test_no_error_holds_what_was_written(opened: Database) -> None:
    await opened.write(made("acme"))
    with pytest.raises(IntegrityError) as refused:
        await opened.write(made("acme"))
    assert "parameters hidden" in str(refused.value)
