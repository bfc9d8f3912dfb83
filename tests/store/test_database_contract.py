"""What the service's database does, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from databases import database_address, opened
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.opening import open_database
from moonpool.store.database.tables import ORGANISATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from moonpool.store.database.addresses import DatabaseAddress
    from moonpool.store.database.base import Database

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio

IDS = select(ORGANISATION.c.id).order_by(ORGANISATION.c.id)


def made(name: str, *, then: Exception | None = None) -> Callable[[Connection], str]:
    """Inserts an organisation; raises `then` afterwards."""

    def work(connection: Connection) -> str:
        connection.execute(insert(ORGANISATION).values(id=name, name=name.title(), created_at=1.5))
        if then is not None:
            raise then
        return name

    return work


async def ids(database: Database) -> list[str]:
    return [row.id for row in await database.read(IDS)]


async def test_what_was_written_is_read_at_once(opened: Database) -> None:
    assert await opened.write(made("acme")) == "acme"

    (row,) = await opened.read(select(ORGANISATION))
    assert tuple(row)[:4] == ("acme", "Acme", 1.5, None)


@pytest.mark.parametrize("durable", [True, False])
async def test_writes_that_wait_for_the_disk_and_others_are_kept(opened: Database, *, durable: bool) -> None:
    await opened.write(made("acme"), durable=durable)

    assert await ids(opened) == ["acme"]


async def test_work_that_fails_leaves_nothing_and_its_error_is_the_callers(opened: Database) -> None:
    with pytest.raises(ValueError, match="no more"):
        await opened.write(made("acme", then=ValueError("no more")))

    assert await ids(opened) == []


async def test_a_violated_constraint_is_the_callers_to_understand(opened: Database) -> None:
    await opened.write(made("acme"))

    with pytest.raises(IntegrityError):
        await opened.write(made("acme"))

    assert await ids(opened) == ["acme"]


async def test_of_many_at_once_those_that_fail_fail_alone(opened: Database) -> None:
    works = [
        made(f"org-{number:02}", then=ValueError(str(number)) if number % 3 == 0 else None) for number in range(30)
    ]
    works += [made("org-01")] * 3  # of which at most one can be kept

    with anyio.fail_after(30):
        outcomes = await asyncio.gather(*map(opened.write, works), return_exceptions=True)

    assert [str(one) for one in outcomes[:30:3]] == [str(number) for number in range(0, 30, 3)]
    assert sum(isinstance(one, IntegrityError) for one in outcomes) == 3
    assert await ids(opened) == [f"org-{number:02}" for number in range(30) if number % 3]


async def test_changes_of_the_same_row_are_all_counted(opened: Database) -> None:
    await opened.write(made("acme"))
    row = ORGANISATION.c.id == "acme"

    def add(connection: Connection) -> None:
        connection.execute(update(ORGANISATION).where(row).values(created_at=ORGANISATION.c.created_at + 1))

    with anyio.fail_after(30):
        await asyncio.gather(*(opened.write(add, durable=False) for _ in range(40)))

    (found,) = await opened.read(select(ORGANISATION.c.created_at).where(row))
    assert found == (41.5,)


async def test_another_process_of_the_same_database_sees_it_at_once(
    opened: Database, database_address: DatabaseAddress
) -> None:
    async with open_database(database_address) as other:
        assert await ids(other) == []
        await opened.write(made("acme"))
        assert await ids(other) == ["acme"]
        await other.write(made("zeta"))

    assert await ids(opened) == ["acme", "zeta"]


async def test_a_caller_that_is_cancelled_harms_nobody(opened: Database) -> None:
    async with asyncio.TaskGroup() as tasks:
        doomed = [tasks.create_task(opened.write(made(f"org-{number}"))) for number in range(20)]
        doomed += [tasks.create_task(opened.read(IDS)) for _ in range(20)]
        await asyncio.sleep(0)
        for one in doomed:
            one.cancel()

    with anyio.fail_after(30):
        await opened.write(made("acme"))
        assert "acme" in await ids(opened)
        with anyio.move_on_after(0):
            await opened.write(made("late"))
        (count,) = await opened.read(select(func.count()).select_from(ORGANISATION))
    assert count[0] >= 1


async def test_what_was_begun_is_finished_before_it_closes(database_address: DatabaseAddress) -> None:
    async with open_database(database_address) as database:
        begun = asyncio.gather(*(database.write(made(f"org-{number}")) for number in range(20)))
        await asyncio.sleep(0)
    await begun

    async with open_database(database_address) as again:
        assert len(await ids(again)) == 20


async def test_a_closed_database_says_so(database_address: DatabaseAddress) -> None:
    async with open_database(database_address) as database:
        pass
    with pytest.raises(DatabaseError, match="is closed"):
        await database.read(IDS)
    with pytest.raises(DatabaseError, match="is closed"):
        await database.write(made("acme"))


async def test_more_than_can_wait_is_refused(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moonpool.store.database.sqlite_database.WAITING_MAX", 5)
    monkeypatch.setattr("moonpool.store.database.postgres_database.WAITING_MAX", 5)

    with anyio.fail_after(30):
        works = (opened.write(made(f"org-{number}")) for number in range(20))
        outcomes = await asyncio.gather(*works, return_exceptions=True)

    refused = [one for one in outcomes if isinstance(one, DatabaseError)]
    assert len(refused) == 15
    assert len(await ids(opened)) == 5
