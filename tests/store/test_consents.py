"""Consents of users to OAuth clients, in the service's database on both of its engines, and at calls of tools."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from databases import database_address, opened
from moonpool.core.errors import InputError
from moonpool.features.consents import table
from moonpool.features.consents.model import PairConsent
from moonpool.features.consents.service import REMEMBERED_S, UserConsents
from moonpool.features.organisations.service import Organisations
from moonpool.store.database.base import DatabaseError
from pipeline.test_pipeline import Bench, type_of

if TYPE_CHECKING:
    from moonpool.store.database.base import Database

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio
ALICE, BOB = "user:https://login.example.com#alice", "user:https://login.example.com#bob"
PAIR = ("acme", ALICE, "app", "s")


@pytest.fixture
async def database(opened: Database) -> Database:
    organisations = Organisations(opened, several=True)
    await organisations.create("acme")
    await organisations.create("globex")
    return opened


@pytest.mark.req("F-001")
async def test_a_consent_is_of_one_user_one_client_and_one_server_as_it_is_configured(database: Database) -> None:
    consents = UserConsents(database)
    await consents.give(*PAIR, "sha256:a", given_by="terminal:alice")
    assert await consents.holds(*PAIR, "sha256:a")
    others = [
        ("globex", ALICE, "app", "s", "sha256:a"),
        ("acme", BOB, "app", "s", "sha256:a"),
        ("acme", ALICE, "app-2", "s", "sha256:a"),
        ("acme", ALICE, "app", "t", "sha256:a"),
        ("acme", ALICE, "app", "s", "sha256:b"),
    ]
    assert [one for one in others if await consents.holds(*one)] == []


async def test_a_withdrawn_consent_ends_everywhere_within_a_second_and_stays_on_record(database: Database) -> None:
    now = 0.0
    here, there = UserConsents(database, clock=lambda: 5.0), UserConsents(database, monotonic=lambda: now)
    await here.give(*PAIR, "sha256:a", given_by="terminal:alice")
    assert await there.holds(*PAIR, "sha256:a")
    assert await here.withdraw(*PAIR)
    assert not await here.withdraw(*PAIR)
    assert not await here.holds(*PAIR, "sha256:a")
    now = REMEMBERED_S
    assert not await there.holds(*PAIR, "sha256:a")
    (one,) = await there.all("acme")
    assert (one.given_by, one.withdrawn_at) == ("terminal:alice", 5.0)
    await here.give(*PAIR, "sha256:b", given_by="terminal:bob")
    assert await there.holds(*PAIR, "sha256:b")
    assert [(one.given_by, one.withdrawn_at) for one in await there.all()] == [("terminal:bob", None)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("nobody", ALICE, "app", "s"), "there is no organisation 'nobody'"),
        (("acme", "key:7", "app", "s"), "needs no consent"),
        (("acme", ALICE, "", "s"), "the name of the client"),
        (("acme", ALICE + "\n", "app", "s"), "the name of the user"),
        (("acme", ALICE, "app", "s" * 300), "the name of the server"),
    ],
)
async def test_what_cannot_be_a_consent_is_refused(
    database: Database, given: tuple[str, str, str, str], told: str
) -> None:
    consents = UserConsents(database)
    with pytest.raises(InputError, match=told):
        await consents.give(*given, "sha256:a", given_by="terminal:alice")
    assert await consents.all() == []


async def test_one_user_uses_up_and_hides_no_consents_of_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "USER_CONSENTS_MAX", 2)
    monkeypatch.setattr(table, "LISTED_MAX", 2)
    consents = UserConsents(database)
    for client in ("a", "b", "b"):
        await consents.give("acme", ALICE, client, "s", "sha256:a", given_by="x")
    with pytest.raises(InputError, match="alice has 2 consents there, which is the most"):
        await consents.give("acme", ALICE, "c", "s", "sha256:a", given_by="x")
    await consents.give("acme", BOB, "a", "s", "sha256:a", given_by="x")
    assert [one.client_id for one in await consents.all("acme", BOB)] == ["a"]


async def test_a_disabled_organisation_is_closed_within_a_second(database: Database) -> None:
    now = 0.0
    here = Organisations(database, several=True)
    there = Organisations(database, several=True, monotonic=lambda: now)
    assert await there.is_open("acme")
    assert not await there.is_open("nobody")
    await here.disable("acme")
    assert not await here.is_open("acme")
    now = 0.8
    assert not await there.is_open("acme")
    await here.enable("acme")
    assert await there.is_open("acme")


@pytest.mark.req("F-001")
async def test_a_second_client_of_the_same_user_does_not_reach_the_server(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    consents = UserConsents(database)
    await consents.give(*PAIR, "sha256:d", given_by="terminal:alice")
    first, second = (
        Bench(may_log_in=True, digest="sha256:d", consent=PairConsent(consents, "acme", ALICE, client))
        for client in ("app", "it's new")
    )
    assert (await first.call()).ok
    refused = await second.call()
    assert (type_of(refused), second.upstream.calls) == ("PolicyDenied", [])
    assert refused.error is not None
    assert "the user has not agreed that this client uses its server" in refused.error.message
    assert "moonpool consents" not in refused.error.message  # no code and no model is told how to change a rule
    quoted = "--client 'it'\"'\"'s new'"
    assert f"moonpool consents give s --org acme --user '{ALICE}' {quoted}" in caplog.text
    assert [entry.error_type for entry in second.outcomes] == ["PolicyDenied"]


@pytest.mark.req("F-001")
async def test_a_consent_that_is_withdrawn_while_a_call_waits_stops_it(database: Database) -> None:
    consents = UserConsents(database)
    await consents.give(*PAIR, "sha256:d", given_by="terminal:alice")

    class Withdrawing:
        """Holds when the call is decided, and not any more when it is about to leave."""

        asked = 0

        async def holds(self, server_id: str, server_digest: str) -> bool:
            self.asked += 1
            if self.asked == 2:
                await consents.withdraw(*PAIR)
            return await consents.holds("acme", ALICE, "app", server_id, server_digest)

        def remedy(self, server_id: str) -> str:
            return server_id

    bench = Bench(may_log_in=True, digest="sha256:d", consent=Withdrawing())
    assert type_of(await bench.call("write")) == "PolicyDenied"
    assert bench.upstream.calls == []


async def test_without_consents_or_their_database_nothing_that_needs_one_is_called() -> None:
    class Gone(PairConsent):
        async def holds(self, server_id: str, server_digest: str) -> bool:
            raise DatabaseError(f"the database is gone, so nothing is known of {server_id} ({server_digest})")

    pair = ("acme", ALICE, "app")
    none = Bench(may_log_in=True, digest="sha256:d", consent=PairConsent(None, *pair))
    gone = Bench(may_log_in=True, digest="sha256:d", consent=Gone(None, *pair))
    other = Bench(may_log_in=False, digest="sha256:d", consent=PairConsent(None, *pair))
    key = Bench(may_log_in=True, digest="sha256:d")
    assert type_of(await none.call()) == "PolicyDenied"
    refused = await gone.call()
    assert (type_of(refused), refused.error is not None and refused.error.retryable) == ("Internal", True)
    assert none.upstream.calls == gone.upstream.calls == []
    assert (await other.call()).ok  # its server is never sent a login
    assert (await key.call()).ok  # no OAuth client
