"""Sandbox configurations in the service's database.

INVARIANT: no key names a configuration that is not there: a key is added and a configuration is removed under the lock
of the configuration's row (`_locked`, `features.keys.table`), and it stays while keys use it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import and_, delete, func, insert, or_, select, update

from moonpool.features.sandbox_configurations.model import (
    CONFIGURATIONS_MAX,
    Language,
    SandboxConfiguration,
    StoredConfiguration,
    VolumeMount,
)
from moonpool.store.database.tables import API_KEY, ORGANISATION, SANDBOX_CONFIGURATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from moonpool.store.database.base import Database

_USERS_MAX: Final = 5
_C: Final = SANDBOX_CONFIGURATION.c
_JOINED: Final = select(SANDBOX_CONFIGURATION, ORGANISATION.c.default_configuration).join(
    ORGANISATION, ORGANISATION.c.id == _C.organisation_id
)


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """What a row keeps of a configuration beside its name and variables."""

    environment: str | None
    language: Language
    timeout_s: int
    timeout_s_max: int
    memory_bytes: int | None
    cpu_cores: float | None
    cpu_s: int | None
    disk_bytes: int | None
    processes: int | None
    network: tuple[str, ...] | None
    has_storage: bool
    volumes: tuple[tuple[str, bool], ...]


_decode: Final = msgspec.json.Decoder(_Body).decode


class ConfigurationTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, stored: StoredConfiguration, *, now: float, only_first: bool = False) -> str:
        """Keep a new one; returns why not, or nothing.

        `only_first`: as the default, where there is none. Raises IntegrityError for a name that is taken, and when
        there is no organisation.
        """
        organisation_id, of = stored.organisation_id, _C.organisation_id == stored.organisation_id
        values = {
            "organisation_id": organisation_id,
            "configuration_id": stored.configuration.configuration_id,
            **_values(stored, now),
        }

        def work(connection: Connection) -> str:
            one = select(ORGANISATION).where(ORGANISATION.c.id == organisation_id).with_for_update()
            row = connection.execute(one).one_or_none()
            if only_first and row is not None and row.default_configuration is not None:
                return "it has a default already"
            count = connection.execute(select(func.count()).select_from(SANDBOX_CONFIGURATION).where(of)).scalar_one()
            if count >= CONFIGURATIONS_MAX:
                return f"an organisation has at most {CONFIGURATIONS_MAX} sandbox configurations; delete some"
            connection.execute(insert(SANDBOX_CONFIGURATION).values(values))
            _mark_default(connection, stored)
            return ""

        return await self._database.write(work)

    async def change(self, was: StoredConfiguration, stored: StoredConfiguration, *, now: float) -> bool:
        """Make it what `stored` says; False: it is not what `was` says any more. Raises IntegrityError for a name."""
        one = and_(
            _is(was.organisation_id, was.configuration.configuration_id),
            _C.name == was.configuration.name,
            _C.body == _body(was.configuration),
            _C.variables == was.sealed,
        )

        def work(connection: Connection) -> bool:
            changed = connection.execute(update(SANDBOX_CONFIGURATION).where(one).values(_values(stored, now)))
            if not changed.rowcount:
                return False
            _mark_default(connection, stored)
            return True

        return await self._database.write(work)

    async def remove(self, organisation_id: str, configuration_id: str, *, now: float) -> Sequence[str] | None:
        """Empty: it is gone. Else it stays: some of the keys that use it, by id. None: there is none."""
        counted = and_(
            API_KEY.c.organisation_id == organisation_id,
            API_KEY.c.configuration_id == configuration_id,
            API_KEY.c.revoked_at.is_(None),
            or_(API_KEY.c.expires_at.is_(None), API_KEY.c.expires_at > now),
        )

        def work(connection: Connection) -> Sequence[str] | None:
            if not _locked(connection, organisation_id, configuration_id):
                return None
            query = select(API_KEY.c.id).where(counted).order_by(API_KEY.c.id).limit(_USERS_MAX)
            if users := connection.scalars(query).all():
                return users
            connection.execute(delete(SANDBOX_CONFIGURATION).where(_is(organisation_id, configuration_id)))
            _unmark(connection, organisation_id, configuration_id)
            return ()

        return await self._database.write(work)

    async def find(
        self, organisation_id: str, *, name: str | None = None, configuration_id: str | None = None
    ) -> StoredConfiguration | None:
        """By name or id; with neither the default."""
        query = _JOINED.where(_C.organisation_id == organisation_id)
        if name is not None:
            query = query.where(_C.name == name)
        else:
            wanted = ORGANISATION.c.default_configuration if configuration_id is None else configuration_id
            query = query.where(_C.configuration_id == wanted)
        rows = await self._database.read(query)
        return _stored(rows[0]) if rows else None

    async def all(self, organisation_id: str) -> Sequence[StoredConfiguration]:
        """By name."""
        query = _JOINED.where(_C.organisation_id == organisation_id).order_by(_C.name)
        return [_stored(row) for row in await self._database.read(query)]


def _locked(connection: Connection, organisation_id: str, configuration_id: str) -> bool:
    """Whether there is this configuration; it stays until this transaction ends."""
    one = select(_C.name).where(_is(organisation_id, configuration_id)).with_for_update()
    return connection.execute(one).first() is not None


def _is(organisation_id: str, configuration_id: str) -> Any:
    return and_(_C.organisation_id == organisation_id, _C.configuration_id == configuration_id)


def _mark_default(connection: Connection, stored: StoredConfiguration) -> None:
    organisation_id, configuration_id = stored.organisation_id, stored.configuration.configuration_id
    if not stored.configuration.is_default:
        _unmark(connection, organisation_id, configuration_id)
        return
    own = ORGANISATION.c.id == organisation_id
    connection.execute(update(ORGANISATION).where(own).values(default_configuration=configuration_id))


def _unmark(connection: Connection, organisation_id: str, configuration_id: str) -> None:
    own = and_(ORGANISATION.c.id == organisation_id, ORGANISATION.c.default_configuration == configuration_id)
    connection.execute(update(ORGANISATION).where(own).values(default_configuration=None))


def _values(stored: StoredConfiguration, now: float) -> dict[str, Any]:
    return {
        "name": stored.configuration.name,
        "body": _body(stored.configuration),
        "variable_names": "\n".join(stored.variable_names),
        "variables": stored.sealed,
        "changed_at": now,
    }


def _body(one: SandboxConfiguration) -> str:
    kept = {name: getattr(one, name) for name in _Body.__struct_fields__ if name != "volumes"}
    volumes = tuple((mount.slug, mount.writable) for mount in one.volumes)
    return msgspec.json.encode(_Body(**kept, volumes=volumes)).decode()


def _stored(row: Row[Any]) -> StoredConfiguration:
    body = _decode(row.body)
    kept = {name: getattr(body, name) for name in _Body.__struct_fields__ if name != "volumes"}
    configuration = SandboxConfiguration(
        configuration_id=row.configuration_id,
        name=row.name,
        **kept,
        volumes=tuple(VolumeMount(slug=slug, writable=writable) for slug, writable in body.volumes),
    )
    return StoredConfiguration(
        organisation_id=row.organisation_id,
        configuration=replace(configuration, is_default=row.default_configuration == row.configuration_id),
        variable_names=tuple(filter(None, row.variable_names.split("\n"))),
        sealed=row.variables,
    )
