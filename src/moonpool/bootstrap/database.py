"""The service's database, its organisations and keys, from settings."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.features.consents.service import UserConsents
from moonpool.features.keys import service as keys_service
from moonpool.features.keys.service import Keys
from moonpool.features.organisation_policies.service import OrganisationPolicies
from moonpool.features.organisations.service import Organisations
from moonpool.features.sandbox_configurations import service as configurations_service
from moonpool.features.sandbox_configurations.service import SandboxConfigurations
from moonpool.features.servers.service import KIND, OwnServers
from moonpool.features.tool_switches.service import OrganisationToolSwitches
from moonpool.sandboxes.identity import serves_several_tenants
from moonpool.store.database.addresses import database_address
from moonpool.store.database.opening import open_database, upgrade_database
from moonpool.store.paths import secrets_dir
from moonpool.store.secrets import SealedValues

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from moonpool.settings import Settings
    from moonpool.store.database.base import Database


@dataclass(frozen=True, slots=True)
class ServiceData:
    """What is kept for all organisations together."""

    database: Database
    organisations: Organisations
    keys: Keys
    consents: UserConsents
    servers: OwnServers
    configurations: SandboxConfigurations
    switches: OrganisationToolSwitches
    policies: OrganisationPolicies


def open_service_database(settings: Settings, data: Path) -> AbstractAsyncContextManager[Database]:
    """It alone, for a service without keys. Raises ConfigError, DatabaseError."""
    address = database_address(settings.database_url, data)
    return open_database(address, connections_max=settings.database_connections_max)


@asynccontextmanager
async def open_service_data(settings: Settings, data: Path, environ: Mapping[str, str]) -> AsyncGenerator[ServiceData]:
    """Open it; on exit everything is written. Raises ConfigError, DatabaseError."""
    async with open_service_database(settings, data) as database:
        secrets = secrets_dir(data)
        keys = Keys(database, sealed=SealedValues(secrets, environ, keys_service.KIND), region=settings.key_region)
        try:
            organisations = Organisations(database, several=serves_several_tenants())
            yield ServiceData(
                database=database,
                organisations=organisations,
                keys=keys,
                consents=UserConsents(database),
                servers=OwnServers(database, SealedValues(secrets, environ, KIND)),
                configurations=SandboxConfigurations(
                    database, SealedValues(secrets, environ, configurations_service.KIND)
                ),
                switches=OrganisationToolSwitches(database),
                policies=OrganisationPolicies(database),
            )
        finally:
            await keys.close()


async def upgrade_service_data(settings: Settings, data: Path) -> tuple[str, str]:
    """Bring its tables up to date; returns what it is, and the version that they had. Raises as `open_service_data`."""
    address = database_address(settings.database_url, data)
    return str(address), await upgrade_database(address)
