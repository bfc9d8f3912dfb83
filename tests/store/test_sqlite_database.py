"""The service's SQLite file: full disks, lost and replaced files, other processes, versions of tables, kills."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import anyio
import pytest
from sqlalchemy import insert, select, text

from moonpool.store.database import schema
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.base import DatabaseError, DatabaseSchemaError
from moonpool.store.database.opening import open_database, upgrade_database
from moonpool.store.database.sqlite_database import open_sqlite
from moonpool.store.database.tables import ORGANISATION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Connection

    from moonpool.store.database.base import Database

pytestmark = pytest.mark.anyio

IDS = select(ORGANISATION.c.id).order_by(ORGANISATION.c.id)


@pytest.fixture
def address(tmp_path: Path) -> SqliteAddress:
    return SqliteAddress(tmp_path / "private" / "service.sqlite3", is_default=True)


def made(name: str, *, long: int = 1) -> Callable[[Connection], object]:
    row = insert(ORGANISATION).values(id=name, name="x" * long, created_at=1.0)
    return lambda connection: connection.execute(row)


async def ids(database: Database) -> list[str]:
    return [row.id for row in await database.read(IDS)]


async def test_only_its_owner_may_read_it(address: SqliteAddress) -> None:
    async with open_database(address) as database:
        await database.write(made("acme"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in address.path.parent.iterdir()}

    assert modes == {"service.sqlite3": 0o600, "service.sqlite3-wal": 0o600, "service.sqlite3-shm": 0o600}
    assert stat.S_IMODE(address.path.parent.stat().st_mode) == 0o700


async def test_a_file_that_the_operator_named_leaves_its_folder_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    async with open_database(SqliteAddress(tmp_path / "mine.sqlite3")) as database:
        assert await ids(database) == []

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


async def test_a_link_or_a_missing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DatabaseError, match=r"is not a file of this user|cannot be made"):
        await upgrade_database(SqliteAddress(tmp_path / "link"))
    assert not (tmp_path / "elsewhere").exists()

    with pytest.raises(DatabaseError, match="cannot be made: No such file or directory"):
        await upgrade_database(SqliteAddress(tmp_path / "none" / "service.sqlite3"))


async def test_on_a_full_disk_nothing_is_half_written_and_later_it_works(address: SqliteAddress) -> None:
    def fill(connection: Connection) -> None:
        connection.execute(text("PRAGMA max_page_count = 1"))  # SQLite's own error of a full disk
        made("first", long=10)(connection)
        made("second", long=500_000)(connection)

    async with open_database(address) as database:
        with pytest.raises(DatabaseError, match="the disk is full; free some space"):
            await database.write(fill)
        assert await ids(database) == []

        await database.write(made("acme"))
        assert await ids(database) == ["acme"]


async def test_those_beside_one_that_fills_the_disk_are_kept(address: SqliteAddress) -> None:
    def fill(connection: Connection) -> None:
        connection.execute(text("PRAGMA max_page_count = 1"))
        made("big", long=500_000)(connection)

    async with open_database(address) as database:
        works = [made("one"), fill, made("two")]
        outcomes = await asyncio.gather(*map(database.write, works), return_exceptions=True)
        assert [isinstance(one, DatabaseError) for one in outcomes] == [False, True, False]
        assert await ids(database) == ["one", "two"]


async def test_a_file_that_is_taken_away_is_noticed_and_found_again(address: SqliteAddress) -> None:
    away = address.path.with_name("away")
    async with open_database(address) as database:
        await database.write(made("acme"))
        address.path.rename(away)
        with pytest.raises(DatabaseError, match="was removed; put it back, or restore a backup"):
            await database.write(made("zeta"))
        for _ in range(2):
            with pytest.raises(DatabaseError, match="is gone; put it back, or restore a backup"):
                await database.read(IDS)
        assert not address.path.exists()  # no empty one was begun

        away.rename(address.path)
        assert await ids(database) == ["acme"]
        await database.write(made("zeta"))
        assert await ids(database) == ["acme", "zeta"]


async def test_a_backup_put_in_its_place_is_what_is_read_and_written(address: SqliteAddress) -> None:
    backup = address.path.with_name("backup")
    async with open_database(address) as database:
        await database.write(made("acme"))
        with sqlite3.connect(address.path) as source, sqlite3.connect(backup) as target:
            source.backup(target)
        source.close()
        target.close()
        await database.write(made("zeta"))
        for name in ("-wal", "-shm"):
            (address.path.parent / f"{address.path.name}{name}").unlink()
        backup.rename(address.path)

        assert await ids(database) == ["acme"]
        with pytest.raises(DatabaseError, match="replaced by another file"):
            await database.write(made("lost"))
        await database.write(made("kept"))
        assert await ids(database) == ["acme", "kept"]


async def test_a_file_locked_by_another_process_is_told_and_can_be_read_meanwhile(address: SqliteAddress) -> None:
    async with open_database(address):
        pass
    database = await open_sqlite(address, busy_timeout_s=0.05)
    other = sqlite3.connect(address.path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="is locked by another process"):
            await database.write(made("acme"))
        assert await ids(database) == []
        other.execute("ROLLBACK")
        await database.write(made("acme"))
        assert await ids(database) == ["acme"]
    finally:
        other.close()
        await database.close()


@pytest.mark.parametrize("content", [b"no database at all, but long enough to have a header " * 40, b"\0" * 5000])
async def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match="is no SQLite database"):
        async with open_database(SqliteAddress(path)):
            pass
    assert path.read_bytes() == content


async def test_tables_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite3"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    with pytest.raises(
        DatabaseSchemaError, match=r"tables that are not Moonpool's \(songs\); give Moonpool a database"
    ):
        await upgrade_database(SqliteAddress(path))


async def test_a_newer_file_is_refused_with_the_remedy_and_not_touched(address: SqliteAddress) -> None:
    await upgrade_database(address)
    with sqlite3.connect(address.path) as newer:
        newer.execute("UPDATE alembic_version SET version_num = '9999'")
    newer.close()
    for attempt in (upgrade_database, _opened_once):
        with pytest.raises(DatabaseSchemaError, match=r"newer Moonpool \(version 9999, .* use that program"):
            await attempt(address)


async def _opened_once(address: SqliteAddress) -> str:
    async with open_database(address):
        return ""


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    address: SqliteAddress, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "migrations" / "versions").mkdir(parents=True)
    (tmp_path / "migrations" / "env.py").write_bytes((schema.MIGRATIONS / "env.py").read_bytes())
    first = (schema.MIGRATIONS / "versions" / "r0001_organisations_and_keys.py").read_text("utf-8")
    (tmp_path / "migrations" / "versions" / "r0001.py").write_text(f"{first}    op.drop_table('none')\n", "utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", tmp_path / "migrations")
        with pytest.raises(DatabaseError, match="no such table: none"):
            await upgrade_database(address)

    assert await upgrade_database(address) == ""
    assert await upgrade_database(address) == schema.HEAD


_WRITER = """
import asyncio, sys
from pathlib import Path
from sqlalchemy import insert
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.opening import open_database
from moonpool.store.database.tables import ORGANISATION

async def one(database, number):
    name = f"{sys.argv[2]}-{number}"
    row = insert(ORGANISATION).values(id=name, name="x", created_at=1.0)
    await database.write(lambda connection: connection.execute(row))
    print(name, flush=True)

async def main():
    async with open_database(SqliteAddress(Path(sys.argv[1]))) as database:
        number = 0
        while True:
            await asyncio.gather(*(one(database, number + at) for at in range(8)))
            number += 8

asyncio.run(main())
"""


@pytest.mark.slow
async def test_what_was_told_as_written_survives_kills(address: SqliteAddress) -> None:
    async with open_database(address):
        pass
    told: set[str] = set()
    for number in range(8):
        with subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", _WRITER, str(address.path), f"p{number}"], stdout=subprocess.PIPE, encoding="utf-8"
        ) as process:
            assert process.stdout is not None
            with anyio.fail_after(60):
                for _ in range(20 + number * 7):
                    told.add((await anyio.to_thread.run_sync(process.stdout.readline)).strip())
                os.kill(process.pid, signal.SIGKILL)
                told |= {line.strip() for line in process.stdout if line.endswith("\n")}
    async with open_database(address) as database:
        assert told <= set(await ids(database))
        assert len(told) > 300
        assert [
            tuple(row) for row in await database.write(lambda c: c.execute(text("PRAGMA integrity_check")).all())
        ] == [("ok",)]


async def test_who_waits_too_long_is_told_that_nobody_knows(
    address: SqliteAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def slow(connection: Connection) -> None:
        made("slow")(connection)
        assert goes_on.wait(30)

    async with open_database(address) as database:
        monkeypatch.setattr("moonpool.store.database.sqlite_database.ANSWER_S_MAX", 0.05)
        with anyio.fail_after(30):
            with pytest.raises(DatabaseError, match="whether the change was made is unknown"):
                await database.write(slow)
            monkeypatch.undo()
            goes_on.set()
            await database.write(made("acme"))
            assert await ids(database) == ["acme", "slow"]
