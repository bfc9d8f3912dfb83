"""Making, changing, deleting and finding sandbox configurations, and which of them a caller's code runs with.

What a caller has is remembered for `REMEMBERED_S`, so that a row of executions asks the database once a second.
INVARIANT: no longer: a change or a removal counts at every replica within one second.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import IntegrityError

from moonpool.core.errors import InputError
from moonpool.features.organisations.model import check_id
from moonpool.features.sandbox_configurations.model import (
    BUILT_IN,
    ConfigurationLostError,
    ConfigurationUsedError,
    SandboxConfiguration,
    StoredConfiguration,
    UnknownConfigurationError,
    is_name,
)
from moonpool.features.sandbox_configurations.table import ConfigurationTable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from moonpool.features.sandbox_configurations.model import ConfiguredCaller
    from moonpool.store.database.base import Database
    from moonpool.store.secrets import SealedValues

KIND: Final = "variables of a sandbox configuration"
REMEMBERED_S: Final = 0.8
REMEMBERED_MAX: Final = 10_000
DEFAULT_NAME: Final = "default"
_ATTEMPTS: Final = 5


class SandboxConfigurations:
    """Of all organisations of one database. Used from one event loop. Every method raises DatabaseError."""

    def __init__(
        self,
        database: Database,
        sealed: SealedValues,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table, self._sealed = ConfigurationTable(database), sealed
        self._clock, self._monotonic = clock, monotonic
        self._remembered: dict[tuple[str, str | None], tuple[float, SandboxConfiguration]] = {}

    async def create(self, organisation_id: str, wanted: SandboxConfiguration) -> StoredConfiguration:
        """Keep it under an id of its own. Raises InputError, ConfigurationUsedError, SecretStoreError."""
        stored = await self._add(organisation_id, wanted)
        assert stored is not None
        return stored

    async def ensure_default(self, organisation_id: str) -> StoredConfiguration | None:
        """Make a default with storage where there is no default; None: there is one, or it is called otherwise.

        Raises InputError.
        """
        wanted = replace(BUILT_IN, name=DEFAULT_NAME, has_storage=True, is_default=True)
        try:
            return await self._add(organisation_id, wanted, only_first=True)
        except ConfigurationUsedError:
            return None

    async def change(
        self,
        organisation_id: str,
        name: str,
        alter: Callable[[SandboxConfiguration], SandboxConfiguration],
        *,
        check: Callable[[SandboxConfiguration], Awaitable[None]] | None = None,
    ) -> StoredConfiguration:
        """Make it what `alter`, which may be called again, makes of it: here at once, elsewhere within a second.

        `check` raises when it may not be so.

        Raises UnknownConfigurationError, ConfigurationUsedError, InputError, SecretStoreError.
        """
        for _ in range(_ATTEMPTS):
            was = await self.find(organisation_id, name)
            wanted = alter(await self._opened(was))
            if check is not None:
                await check(wanted)
            stored = await self._sealed_as(organisation_id, replace(wanted, configuration_id=_id_of(was)))
            try:
                done = await self._table.change(was, stored, now=self._clock())
            except IntegrityError:
                raise _taken(wanted.name) from None
            self._remembered.clear()
            if done:
                return stored
        raise ConfigurationUsedError("somebody else changes this configuration; try again")

    async def delete(self, organisation_id: str, name: str) -> None:
        """Refused while keys use it. Raises UnknownConfigurationError, ConfigurationUsedError."""
        stored = await self.find(organisation_id, name)
        users = await self._table.remove(organisation_id, _id_of(stored), now=self._clock())
        self._remembered.clear()
        if users is None:
            raise UnknownConfigurationError(name)
        if users:
            raise ConfigurationUsedError(f"keys use the configuration {name!r}: {', '.join(users)}; revoke them first")

    async def all(self, organisation_id: str) -> Sequence[StoredConfiguration]:
        return await self._table.all(organisation_id)

    async def find(self, organisation_id: str, name: str) -> StoredConfiguration:
        """Raises UnknownConfigurationError."""
        found = await self._table.find(organisation_id, name=name) if is_name(name) else None
        if found is None:
            raise UnknownConfigurationError(name)
        return found

    async def configuration_of(self, caller: ConfiguredCaller, /) -> SandboxConfiguration:
        """See `Configured`."""
        now, wanted = self._monotonic(), (caller.organisation, caller.configuration_id)
        known = self._remembered.get(wanted)
        if known is not None and 0 <= now - known[0] < REMEMBERED_S:
            return known[1]
        self._remembered.pop(wanted, None)
        found = await self._table.find(caller.organisation, configuration_id=caller.configuration_id)
        if found is None and caller.configuration_id is not None:
            # SECURITY: never another one instead, which might allow more.
            raise ConfigurationLostError
        configuration = BUILT_IN if found is None else await self._opened(found)
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[wanted] = now, configuration
        return configuration

    async def _add(
        self, organisation_id: str, wanted: SandboxConfiguration, *, only_first: bool = False
    ) -> StoredConfiguration | None:
        """None: `only_first`, and there is a default."""
        check_id(organisation_id)
        made = replace(wanted, configuration_id=f"sandbox_{token_hex(16)}")
        stored = await self._sealed_as(organisation_id, made)
        try:
            problem = await self._table.add(stored, now=self._clock(), only_first=only_first)
        except IntegrityError:
            if await self._table.find(organisation_id, name=wanted.name) is not None:
                raise _taken(wanted.name) from None
            raise InputError(f"there is no organisation {organisation_id}; `moonpool orgs create` makes it") from None
        self._remembered.clear()
        if problem and only_first:
            return None
        if problem:
            raise ConfigurationUsedError(problem)
        return stored

    async def _sealed_as(self, organisation_id: str, configuration: SandboxConfiguration) -> StoredConfiguration:
        stored = StoredConfiguration(
            organisation_id=organisation_id,
            configuration=replace(configuration, variables={}),
            variable_names=tuple(sorted(configuration.variables)),
        )
        if not configuration.variables:
            return stored
        text = json.dumps(dict(configuration.variables), ensure_ascii=False)
        return replace(stored, sealed=await asyncio.to_thread(self._sealed.seal, stored.place, text))

    async def _opened(self, stored: StoredConfiguration) -> SandboxConfiguration:
        if not stored.sealed:
            return stored.configuration
        text = await asyncio.to_thread(self._sealed.open, stored.place, stored.sealed)
        return replace(stored.configuration, variables=json.loads(text))


def _id_of(stored: StoredConfiguration) -> str:
    return stored.configuration.configuration_id


def _taken(name: str) -> ConfigurationUsedError:
    return ConfigurationUsedError(f"there is a sandbox configuration {name!r} already; choose another name")
