"""Sandbox configurations, what keys use of them, and tools that are switched off, on both engines."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from databases import database_address, opened
from moonpool.core.errors import InputError
from moonpool.core.variables import VARIABLES_MAX
from moonpool.features.keys import service as keys_service
from moonpool.features.keys.model import KeySpec
from moonpool.features.keys.service import Keys
from moonpool.features.organisations.service import Organisations
from moonpool.features.sandbox_configurations import service, table
from moonpool.features.sandbox_configurations.model import (
    BUILT_IN,
    WITHOUT_KEYS,
    AlwaysConfigured,
    ConfigurationLostError,
    ConfigurationUsedError,
    SandboxConfiguration,
    UnknownConfigurationError,
    VolumeMount,
    merged_variables,
)
from moonpool.features.sandbox_configurations.service import REMEMBERED_S, SandboxConfigurations
from moonpool.features.tool_switches import service as switches_service
from moonpool.features.tool_switches import table as switches_table
from moonpool.features.tool_switches.service import OrganisationToolSwitches
from moonpool.server.http.authentication.keys import KeyAuthenticator
from moonpool.store.database.opening import open_database
from moonpool.store.database.tables import API_KEY, SANDBOX_CONFIGURATION
from moonpool.store.secret_key import SecretStoreError
from moonpool.store.secrets import SealedValues

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.store.database.addresses import DatabaseAddress
    from moonpool.store.database.base import Database

__all__ = ["database_address", "opened"]
pytestmark = pytest.mark.anyio
SECRET = "s3cret-of-acme"


@dataclass(frozen=True)
class Caller:
    organisation: str = "acme"
    configuration_id: str | None = None


@dataclass
class Replica:
    """What one process of the service has of the tables."""

    database: Database
    secrets: Path
    now: float = 1_000.0
    configurations: SandboxConfigurations = field(init=False)
    switches: OrganisationToolSwitches = field(init=False)
    keys: Keys = field(init=False)

    def __post_init__(self) -> None:
        clock: dict[str, Any] = {"clock": lambda: self.now, "monotonic": lambda: self.now}
        self.configurations = SandboxConfigurations(self.database, self.sealed(service.KIND), **clock)
        self.switches = OrganisationToolSwitches(self.database, **clock)
        self.keys = Keys(self.database, sealed=self.sealed(keys_service.KIND), **clock)

    def sealed(self, kind: str) -> SealedValues:
        return SealedValues(self.secrets, {}, kind)


@pytest.fixture
async def here(opened: Database, tmp_path: Path) -> AsyncGenerator[Replica]:
    for one in ("acme", "zeta"):
        await Organisations(opened, several=True).create(one)
    replica = Replica(opened, tmp_path / "private" / "secrets")
    yield replica
    await replica.keys.close()


@asynccontextmanager
async def another(address: DatabaseAddress, here: Replica) -> AsyncGenerator[Replica]:
    async with open_database(address) as database:
        yield Replica(database, here.secrets)


def wanted(name: str = "data", **more: Any) -> SandboxConfiguration:
    return SandboxConfiguration(configuration_id="", name=name, **more)


FULL = wanted(
    environment="data",
    language="bash",
    timeout_s=30,
    timeout_s_max=90,
    memory_bytes=512 * 1024**2,
    cpu_cores=1.5,
    cpu_s=20,
    disk_bytes=1024**2,
    processes=9,
    variables={"TOKEN": SECRET, "B": ""},
    network=("example.com", "*.example.org"),
    has_storage=True,
    volumes=(VolumeMount(slug="models"), VolumeMount(slug="out", writable=True)),
    is_default=True,
)


async def test_what_was_made_is_what_code_runs_with(here: Replica) -> None:
    made = await here.configurations.create("acme", FULL)
    configuration_id = made.configuration.configuration_id
    assert made.variable_names == ("B", "TOKEN")

    found = await here.configurations.configuration_of(Caller())
    assert found == replace(FULL, configuration_id=configuration_id)
    assert await here.configurations.configuration_of(Caller(configuration_id=configuration_id)) == found
    (listed,) = await here.configurations.all("acme")
    assert listed == await here.configurations.find("acme", "data") == made
    assert await here.configurations.all("zeta") == []
    for text in (repr(found), repr(made), repr(listed)):
        assert SECRET not in text


async def test_an_organisation_without_any_has_what_is_built_in(here: Replica) -> None:
    assert await here.configurations.configuration_of(Caller()) == BUILT_IN
    assert await here.configurations.configuration_of(Caller("nobody")) == BUILT_IN
    await here.configurations.create("acme", wanted())
    assert await here.configurations.configuration_of(Caller()) == BUILT_IN  # it is not the default
    assert await AlwaysConfigured().configuration_of(Caller()) == WITHOUT_KEYS
    assert WITHOUT_KEYS.has_storage
    assert not BUILT_IN.has_storage


async def test_there_is_one_default_at_most(here: Replica) -> None:
    await here.configurations.create("acme", wanted("a", is_default=True))
    await here.configurations.create("acme", wanted("b", is_default=True))
    await here.configurations.create("zeta", wanted("b"))

    async def default() -> list[str]:
        return [one.configuration.name for one in await here.configurations.all("acme") if one.configuration.is_default]

    assert await default() == ["b"]
    assert (await here.configurations.configuration_of(Caller())).name == "b"
    await here.configurations.change("acme", "a", lambda one: replace(one, is_default=True))
    assert await default() == ["a"]
    await here.configurations.change("acme", "b", lambda one: replace(one, timeout_s=5))
    assert await default() == ["a"]
    await here.configurations.change("acme", "a", lambda one: replace(one, is_default=False))
    assert await default() == []
    await here.configurations.change("acme", "a", lambda one: replace(one, is_default=True))
    await here.configurations.delete("acme", "a")
    assert (await default(), await here.configurations.configuration_of(Caller())) == ([], BUILT_IN)


async def test_a_default_with_storage_is_made_where_there_is_none(here: Replica) -> None:
    made = await asyncio.gather(*(here.configurations.ensure_default("acme") for _ in range(3)))
    assert sum(one is not None for one in made) == 1
    assert (await here.configurations.configuration_of(Caller())).has_storage
    assert await here.configurations.ensure_default("acme") is None
    await here.configurations.create("zeta", wanted("default"))
    assert await here.configurations.ensure_default("zeta") is None
    assert await here.configurations.configuration_of(Caller("zeta")) == BUILT_IN
    with pytest.raises(InputError, match="no organisation nobody"):
        await here.configurations.ensure_default("nobody")


async def test_a_change_keeps_variables_that_nobody_names(here: Replica) -> None:
    made = await here.configurations.create("acme", FULL)
    changed = await here.configurations.change(
        "acme", "data", lambda one: replace(one, name="other", variables={**one.variables, "B": "2"})
    )
    assert changed.sealed != made.sealed
    found = await here.configurations.configuration_of(Caller())
    assert (found.name, found.variables) == ("other", {"TOKEN": SECRET, "B": "2"})
    assert found.configuration_id == made.configuration.configuration_id


async def test_changes_at_the_same_time_are_all_made(here: Replica, database_address: DatabaseAddress) -> None:
    await here.configurations.create("acme", wanted())
    async with another(database_address, here) as there:

        async def add(replica: Replica, name: str) -> None:
            await replica.configurations.change(
                "acme", "data", lambda one: replace(one, variables={**one.variables, name: name})
            )

        await asyncio.gather(add(here, "A"), add(there, "B"), add(here, "C"))
    assert (await here.configurations.find("acme", "data")).variable_names == ("A", "B", "C")


async def test_conflicts_and_unknown_ones(here: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "CONFIGURATIONS_MAX", 2)
    for name in ("a", "b"):
        await here.configurations.create("acme", wanted(name))
    with pytest.raises(ConfigurationUsedError, match="at most 2"):
        await here.configurations.create("acme", wanted("c"))
    await here.configurations.create("zeta", wanted("a"))
    with pytest.raises(ConfigurationUsedError, match="'a' already"):
        await here.configurations.create("zeta", wanted("a"))
    with pytest.raises(ConfigurationUsedError, match="'a' already"):
        await here.configurations.change("acme", "b", lambda one: replace(one, name="a"))
    with pytest.raises(InputError, match="no organisation nobody; `moonpool orgs create`"):
        await here.configurations.create("nobody", wanted())
    for unknown in (
        here.configurations.find("zeta", "b"),  # acme's
        here.configurations.delete("zeta", "b"),
        here.configurations.change("zeta", "b", lambda one: one),
    ):
        with pytest.raises(UnknownConfigurationError, match="'b'"):
            await unknown


async def test_a_configuration_stays_while_keys_use_it(here: Replica) -> None:
    made = await here.configurations.create("acme", wanted())
    spec = KeySpec(organisation_id="acme", configuration_id=made.configuration.configuration_id)
    kept, ending = await here.keys.create(spec), await here.keys.create(replace(spec, lifetime_s=60))
    first, second = sorted((kept.stored.key_id, ending.stored.key_id))
    with pytest.raises(ConfigurationUsedError, match=f"'data': {first}, {second}; revoke them first"):
        await here.configurations.delete("acme", "data")
    await here.keys.revoke(kept.stored.key_id)
    with pytest.raises(ConfigurationUsedError, match=f"'data': {ending.stored.key_id};"):
        await here.configurations.delete("acme", "data")
    here.now += 60
    assert await here.keys.verify(ending.text) is None
    await here.configurations.delete("acme", "data")
    with pytest.raises(InputError, match="not there any more"):
        await here.keys.create(spec)
    for organisation in ("acme", "zeta"):
        with pytest.raises(ConfigurationLostError):
            await here.configurations.configuration_of(Caller(organisation, spec.configuration_id))


async def test_no_key_names_a_configuration_that_is_deleted_meanwhile(
    here: Replica, database_address: DatabaseAddress
) -> None:
    async with another(database_address, here) as there:
        for number in range(5):
            made = await here.configurations.create("acme", wanted(f"one{number}"))
            spec = KeySpec(organisation_id="acme", configuration_id=made.configuration.configuration_id)
            outcomes = await asyncio.gather(
                there.keys.create(spec), here.configurations.delete("acme", f"one{number}"), return_exceptions=True
            )
            assert sum(isinstance(one, Exception) for one in outcomes) == 1, outcomes


async def test_a_key_of_another_organisation_cannot_name_it(here: Replica) -> None:
    made = await here.configurations.create("acme", wanted())
    with pytest.raises(InputError, match="not there"):
        await here.keys.create(KeySpec(organisation_id="zeta", configuration_id=made.configuration.configuration_id))


@pytest.mark.req("J-040")
async def test_variables_lie_sealed_and_cannot_be_moved(here: Replica, caplog: pytest.LogCaptureFixture) -> None:
    made = await here.configurations.create("acme", FULL)
    new = await here.keys.create(KeySpec(organisation_id="acme", variables={"KEY_TOKEN": SECRET}))
    rows = [*await here.database.read(select(SANDBOX_CONFIGURATION)), *await here.database.read(select(API_KEY))]
    assert "KEY_TOKEN" in str([tuple(row) for row in rows])
    for text in (str([tuple(row) for row in rows]), repr(new), repr(await here.keys.all()), caplog.text):
        assert SECRET not in text
    assert await here.keys.variables_of(new.stored) == {"KEY_TOKEN": SECRET}
    for moved in (replace(new.stored, key_id="other"), replace(new.stored, organisation_id="zeta")):
        with pytest.raises(SecretStoreError):
            await Replica(here.database, here.secrets).keys.variables_of(moved)
    for place in ("zeta/" + made.configuration.configuration_id, "acme/other"):
        with pytest.raises(SecretStoreError):
            here.sealed(service.KIND).open(place, made.sealed)


@pytest.mark.req("J-026")
async def test_a_keys_caller_has_its_configuration_variables_and_thread(here: Replica) -> None:
    made = await here.configurations.create("acme", wanted(variables={"A": "sandbox", "B": "sandbox", "C": "sandbox"}))
    spec = KeySpec(
        organisation_id="acme",
        configuration_id=made.configuration.configuration_id,
        variables={"A": "key", "B": "key"},
        workspace_thread="work-1",
    )
    new = await here.keys.create(spec)
    caller = await KeyAuthenticator(here.keys).authenticate(new.text)
    assert caller is not None
    assert (caller.workspace_thread, caller.variables) == ("work-1", {"A": "key", "B": "key"})
    assert SECRET not in repr(replace(caller, variables={"A": SECRET}))
    assert hash(caller)
    configuration = await here.configurations.configuration_of(caller)
    seen = merged_variables(configuration.variables, caller.variables, {"A": "request"})
    assert seen == {"A": "request", "B": "key", "C": "sandbox"}


def test_variables_of_three_sources_have_the_limits_of_one() -> None:
    one, other = ({f"{letter}{number}": "" for number in range(VARIABLES_MAX)} for letter in "AB")
    assert merged_variables(one, one, one) == one
    with pytest.raises(InputError, match="Too many"):
        merged_variables(one, other, {})
    with pytest.raises(InputError, match="reserved"):
        merged_variables({}, {}, {"PATH": "/x"})


async def test_every_replica_sees_a_change_within_a_second(here: Replica, database_address: DatabaseAddress) -> None:
    assert REMEMBERED_S < 1.0
    assert switches_service.REMEMBERED_S < 1.0
    made = await here.configurations.create("acme", wanted(is_default=True))
    own = Caller(configuration_id=made.configuration.configuration_id)
    async with another(database_address, here) as there:
        assert [(await there.configurations.configuration_of(one)).timeout_s for one in (Caller(), own)] == [60, 60]
        assert await there.switches.disabled_tools("acme") == frozenset()

        await here.configurations.change("acme", "data", lambda one: replace(one, timeout_s=7))
        await here.switches.switch_off("acme", "sandbox_execute", by="terminal:a")
        assert (await here.configurations.configuration_of(Caller())).timeout_s == 7
        assert await here.switches.disabled_tools("acme") == {"sandbox_execute"}
        there.now += 1
        assert [(await there.configurations.configuration_of(one)).timeout_s for one in (Caller(), own)] == [7, 7]
        assert await there.switches.disabled_tools("acme") == {"sandbox_execute"}

        await here.configurations.delete("acme", "data")
        await here.switches.switch_on("acme", "sandbox_execute")
        there.now += 1
        assert await there.configurations.configuration_of(Caller()) == BUILT_IN
        with pytest.raises(ConfigurationLostError):
            await there.configurations.configuration_of(own)
        assert await there.switches.disabled_tools("acme") == frozenset()


async def test_memory_of_callers_is_bounded(here: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "REMEMBERED_MAX", 3)
    for number in range(8):
        await here.configurations.configuration_of(Caller(f"org{number}"))
        assert len(here.configurations._remembered) <= 3


async def test_switches_are_an_organisations_own(here: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches_table, "SWITCHED_OFF_MAX", 2)
    switches = here.switches
    assert await switches.switch_off("acme", "Read", by="key:1")
    assert not await switches.switch_off("acme", "Read", by="key:2")
    assert await switches.switch_off("acme", "git.git_log", by="key:1")
    with pytest.raises(InputError, match="at most"):
        await switches.switch_off("acme", "more", by="key:1")
    assert [(one.tool, one.by, one.at) for one in await switches.all("acme")] == [
        ("Read", "key:1", here.now), ("git.git_log", "key:1", here.now),
    ]  # fmt: skip
    assert await switches.disabled_tools("zeta") == frozenset()
    assert not await switches.switch_on("zeta", "Read")
    assert await switches.switch_on("acme", "Read")
    for wrong in ("", "a b", "x" * 401, "a\x1b", "a\n"):
        with pytest.raises(InputError, match="cannot be a tool's name"):
            await switches.switch_off("acme", wrong, by="key:1")
    with pytest.raises(InputError, match="no organisation nobody"):
        await switches.switch_off("nobody", "Read", by="key:1")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": "A"}, "cannot be a configuration's name"),
        ({"name": ""}, "cannot be a configuration's name"),
        ({"name": "a" * 64}, "cannot be a configuration's name"),
        ({"environment": "../x"}, "environment"),
        ({"language": "ruby"}, "must be python, node, bash"),
        ({"timeout_s": 0}, "timeout"),
        ({"timeout_s": 61, "timeout_s_max": 60}, "timeout"),
        ({"timeout_s_max": 3601}, "timeout"),
        ({"memory_bytes": 1024}, "memory_bytes must be at least"),
        ({"cpu_cores": float("nan")}, "cpu_cores"),
        ({"processes": 0}, "processes"),
        ({"variables": {"PATH": "x"}}, "reserved by the system"),
        ({"variables": {"A": "\0"}}, "control"),
        ({"network": ("a.example",) * 101}, "at most 100 domains"),
        ({"volumes": (VolumeMount(slug="a"), VolumeMount(slug="a", writable=True))}, "each once"),
    ],
)
def test_what_cannot_be_a_configuration(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        wanted(**{"name": "data", **more})


def test_a_volume_is_named_by_a_slug() -> None:
    with pytest.raises(InputError, match="slug"):
        VolumeMount(slug="../x")
