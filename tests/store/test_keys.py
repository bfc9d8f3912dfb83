"""Organisations and keys in the service's database, on both of its engines."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, TypeVar

import anyio
import pytest
from sqlalchemy import Select, select

from databases import database_address, opened
from moonpool.core.errors import InputError
from moonpool.features.keys import service as keys_service
from moonpool.features.keys.model import KeySpec, digest_of
from moonpool.features.keys.service import LAST_USED_S, REMEMBERED_S, Keys
from moonpool.features.organisations import service as organisations_service
from moonpool.features.organisations.model import OneOrganisationError
from moonpool.features.organisations.service import Organisations
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.opening import open_database
from moonpool.store.database.tables import API_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Row

    from moonpool.store.database.addresses import DatabaseAddress
    from moonpool.store.database.base import Database

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio


_T = TypeVar("_T")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A database that counts what is asked of it, and may be gone."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.read_count = self.write_count = 0
        self.is_gone = False

    async def read(self, query: Select[tuple[object]], /) -> Sequence[Row[tuple[object]]]:
        self.read_count += 1
        if self.is_gone:
            raise DatabaseError("gone")
        return await self._database.read(query)

    async def write(self, work: Callable[[Connection], _T], /, *, durable: bool = True) -> _T:
        self.write_count += 1
        if self.is_gone:
            raise DatabaseError("gone")
        return await self._database.write(work, durable=durable)

    async def close(self) -> None:
        await self._database.close()


def spec(organisation_id: str = "acme", *, lifetime_s: float | None = None) -> KeySpec:
    return KeySpec(organisation_id=organisation_id, lifetime_s=lifetime_s)


async def organisations(database: Database, *ids: str, several: bool = True) -> Organisations:
    found = Organisations(database, several=several)
    for one in ids:
        await found.create(one)
    return found


@pytest.mark.claim("C-KEY-1")
@pytest.mark.req("J-040", "E-005")
async def test_a_key_is_shown_once_and_kept_as_its_hash_alone(opened: Database) -> None:
    await organisations(opened, "acme")
    keys = Keys(opened, region="eu")
    new = await keys.create(KeySpec(organisation_id="acme", scopes=frozenset({"admin"}), profile="code", name="ci"))

    assert re.fullmatch(r"sk-eu-[A-Za-z0-9]{43}", new.text)
    assert new.text not in repr(new)
    (row,) = await opened.read(select(API_KEY))
    assert row.digest == digest_of(new.text)
    assert new.text not in str(tuple(row))
    assert row.prefix == new.text[: len("sk-eu-") + 4]
    assert await keys.verify(new.text) == new.stored
    await keys.close()


async def test_no_two_keys_are_alike(opened: Database) -> None:
    await organisations(opened, "acme")
    keys = Keys(opened)
    texts = [(await keys.create(spec())).text for _ in range(20)]

    assert len({text[:20] for text in texts}) == 20


@pytest.mark.req("J-038", "E-013")
async def test_what_is_no_key_is_none(opened: Database) -> None:
    await organisations(opened, "acme")
    keys = Keys(opened)
    text = (await keys.create(spec())).text
    other = text[:-1] + ("a" if text[-1] != "a" else "b")

    wrong = [
        other, text[:-1], text + "a", text.upper(), f" {text}", f"{text}\n", text.replace("local", "us"), "", "sk-",
        "sk-local-" + "\ud800" * 43, "sk-local-" + "٣" * 43, "' OR 1=1 --",
    ]  # fmt: skip
    assert [await keys.verify(one) for one in wrong] == [None] * len(wrong)
    await keys.close()


@pytest.mark.claim("C-KEY-2")
@pytest.mark.req("J-040")
async def test_a_revoked_key_is_refused_at_once_here_and_within_a_second_elsewhere(
    opened: Database, database_address: DatabaseAddress
) -> None:
    await organisations(opened, "acme")
    monotonic = Clock()
    async with open_database(database_address) as replica:
        here, there = Keys(opened), Keys(replica, monotonic=monotonic)
        new = await here.create(spec())
        assert await here.verify(new.text)
        assert await there.verify(new.text)

        assert await here.revoke(new.stored.key_id)
        assert await here.verify(new.text) is None
        monotonic.now += REMEMBERED_S
        assert REMEMBERED_S < 1.0
        assert await there.verify(new.text) is None
        assert not await there.revoke(new.stored.key_id)
        await there.close()
    await here.close()


@pytest.mark.claim("C-KEY-2")
async def test_keys_of_a_disabled_organisation_are_refused_until_it_is_enabled(opened: Database) -> None:
    known = await organisations(opened, "acme", "zeta")
    monotonic = Clock()
    keys = Keys(opened, monotonic=monotonic)
    acme, zeta = [(await keys.create(spec(one))).text for one in ("acme", "zeta")]

    await known.disable("acme")
    monotonic.now += 1
    assert await keys.verify(acme) is None
    assert await keys.verify(zeta)
    await known.enable("acme")
    assert await keys.verify(acme)
    await keys.close()


@pytest.mark.claim("C-KEY-2")
@pytest.mark.req("E-011")
async def test_an_expired_key_is_refused_also_when_it_was_good_a_moment_ago(opened: Database) -> None:
    await organisations(opened, "acme")
    clock = Clock()
    keys = Keys(opened, clock=clock, monotonic=Clock())
    text = (await keys.create(spec(lifetime_s=60))).text

    assert await keys.verify(text)
    clock.now += 60
    assert await keys.verify(text) is None
    assert [one.state(clock.now) for one in await keys.all()] == ["expired"]
    await keys.close()


@pytest.mark.claim("C-KEY-2")
async def test_which_keys_count_no_more_is_asked_of_the_database(opened: Database) -> None:
    now = 100.0
    here, there = (Keys(opened, clock=lambda: now) for _ in range(2))
    await Organisations(opened, several=True).create("acme")
    good, ending, revoked = [await here.create(spec(lifetime_s=life)) for life in (None, 50.0, None)]
    ids = [one.stored.key_id for one in (good, ending, revoked)]
    assert await here.lapsed(ids) == set()
    assert await here.verify(revoked.text)
    await there.revoke(ids[2])
    now = 150.0
    assert await here.lapsed([*ids, "unknown"]) == {ids[1], ids[2], "unknown"}
    assert await here.verify(revoked.text) is None
    await Organisations(opened, several=True).disable("acme")
    assert await here.lapsed(ids) == set(ids)


async def test_a_key_is_asked_for_once_a_second_and_its_use_noted_once_a_minute(opened: Database) -> None:
    await organisations(opened, "acme")
    watched, clock, monotonic = Watched(opened), Clock(), Clock()
    keys = Keys(watched, clock=clock, monotonic=monotonic)
    new = await keys.create(spec())
    watched.write_count = 0

    for _ in range(50):
        assert await keys.verify(new.text)
    assert watched.read_count == 1
    for _ in range(3):
        monotonic.now += REMEMBERED_S
        assert await keys.verify(new.text)
    await keys.close()
    assert (watched.read_count, watched.write_count) == (4, 1)
    assert [one.last_used_at for one in await keys.all()] == [clock.now]

    clock.now += LAST_USED_S
    assert await keys.verify(new.text)
    await keys.close()
    assert [one.last_used_at for one in await keys.all()] == [clock.now]


async def test_two_replicas_note_the_use_of_a_key_once(opened: Database) -> None:
    await organisations(opened, "acme")
    clock = Clock()
    replicas = [Keys(opened, clock=clock) for _ in range(2)]
    new = await replicas[0].create(spec())
    await replicas[0].verify(new.text)
    await replicas[0].close()
    first = clock.now
    clock.now += 10
    await replicas[1].verify(new.text)
    await replicas[1].close()

    assert [one.last_used_at for one in await replicas[0].all()] == [first]


@pytest.mark.claim("C-KEY-2")
async def test_a_lost_database_is_an_error_and_never_a_yes(opened: Database) -> None:
    await organisations(opened, "acme")
    watched, monotonic = Watched(opened), Clock()
    keys = Keys(watched, monotonic=monotonic)
    new = await keys.create(spec())
    assert await keys.verify(new.text)
    await keys.close()

    watched.is_gone = True
    monotonic.now += 1
    with pytest.raises(DatabaseError):
        await keys.verify(new.text)


async def test_that_a_use_cannot_be_noted_harms_no_request(
    opened: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await organisations(opened, "acme")
    keys = Keys(opened)
    new = await keys.create(spec())

    async def fail(*_args: object, **_named: object) -> None:
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(keys_service.KeyTable, "note_use", fail)
    assert await keys.verify(new.text)
    await keys.close()
    assert "cannot be kept: the disk is full" in caplog.text
    assert new.text not in caplog.text


async def test_memory_of_keys_is_bounded(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await organisations(opened, "acme")
    monkeypatch.setattr(keys_service, "REMEMBERED_MAX", 3)
    keys = Keys(opened)
    texts = [(await keys.create(spec())).text for _ in range(8)]
    for text in texts * 2:
        assert await keys.verify(text)
        assert len(keys._remembered) <= 3
    await keys.close()


async def test_keys_are_bounded_and_belong_to_an_organisation(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await organisations(opened, "acme", "zeta")
    monkeypatch.setattr("moonpool.features.keys.table.KEYS_MAX", 2)
    keys = Keys(opened)
    with pytest.raises(InputError, match="no organisation nobody; `moonpool orgs create`"):
        await keys.create(spec("nobody"))
    for _ in range(2):
        await keys.create(spec())
    with pytest.raises(InputError, match="which is the most"):
        await keys.create(spec())
    await keys.create(spec("zeta"))

    assert [len(await keys.all(one)) for one in ("acme", "zeta", "nobody", None)] == [2, 1, 0, 3]


async def test_a_key_that_is_not_there_cannot_be_revoked(opened: Database) -> None:
    with pytest.raises(InputError, match="there is no key 'x'; `moonpool keys list`"):
        await Keys(opened).revoke("x")


@pytest.mark.parametrize("wrong", ["", "Acme", "-a", "a b", "../x", "a/b", "é", "a" * 64, "a\n", "٣"])
async def test_an_id_that_cannot_be_a_tenants_is_refused(opened: Database, wrong: str) -> None:
    with pytest.raises(InputError, match="cannot be the id of an organisation"):
        await Organisations(opened, several=True).create(wrong)
    with pytest.raises(InputError, match="cannot be the id of an organisation"):
        await Organisations(opened, several=True).ensure(wrong)


async def test_organisations_are_made_once_whoever_comes_first(opened: Database) -> None:
    known = Organisations(opened, several=True)
    with anyio.fail_after(30):
        found = await asyncio.gather(*(known.ensure("acme") for _ in range(10)))
    assert len({one.created_at for one in found}) == 1
    with pytest.raises(InputError, match="there is an organisation acme already"):
        await known.create("acme")
    with pytest.raises(InputError, match="no organisation 'zeta'; `moonpool orgs list`"):
        await known.disable("zeta")


async def test_where_tenants_cannot_be_kept_apart_there_is_one_organisation(opened: Database) -> None:
    known = await organisations(opened, "acme", several=False)
    for attempt in (known.create("zeta"), known.ensure("zeta")):
        with pytest.raises(OneOrganisationError, match="without root all sandboxes have one uid"):
            await attempt
    assert (await known.ensure("acme")).organisation_id == "acme"

    await known.disable("acme")
    await known.create("zeta")
    with pytest.raises(OneOrganisationError, match="which is zeta"):
        await known.enable("acme")
    assert [(one.organisation_id, one.disabled_at is None) for one in await known.all()] == [
        ("acme", False), ("zeta", True),
    ]  # fmt: skip


async def test_organisations_are_bounded(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organisations_service, "ORGANISATIONS_MAX", 2)
    known = await organisations(opened, "acme", "zeta")
    with pytest.raises(InputError, match="which is the most"):
        await known.create("more")
