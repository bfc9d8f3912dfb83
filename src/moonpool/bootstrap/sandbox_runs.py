"""Executions by one call of a service: those of its organisations, their records, their webhooks.

What it needs of storage and of configurations is given to `open_sandbox_runs`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.bootstrap.tenant_sandboxes import TenantSandboxes
from moonpool.engine.sandbox_runs.base import RunOwner
from moonpool.engine.sandbox_runs.runs import OrganisationRuns
from moonpool.engine.stored_files.volumes import ShownVolumes
from moonpool.features.execution_records.model import status_body
from moonpool.features.execution_records.service import ExecutionRecords
from moonpool.features.storage.model import owner_of_threads
from moonpool.features.webhooks.delivering import Deliverer, webhook_destinations
from moonpool.features.webhooks.model import PrivateHosts
from moonpool.features.webhooks.service import KIND, WebhookSecrets
from moonpool.features.webhooks.table import WebhookTable
from moonpool.store.database.base import DatabaseError
from moonpool.store.paths import secrets_dir, shown_volumes_dir
from moonpool.store.secrets import SealedValues

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
    from pathlib import Path

    from moonpool.bootstrap.replicas import Replica
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.engine.sandbox_runs.base import SandboxRuns
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration
    from moonpool.features.storage.base import Trees
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.lapsed_callers import Owner
    from moonpool.settings import Settings
    from moonpool.store.database.base import Database

    ConfigurationOf = Callable[[HttpCaller], Awaitable[SandboxConfiguration]]

LOOK_S: float = 5.0
"""How often it is looked whether executions were lost with their replica."""
_SWEEP_EVERY: Final = 12
"""Of these looks, one removes what is kept no longer."""
_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class ServiceRuns:
    """See `moonpool.server.http.sandbox.tenants.SandboxTenants`. Opened by `open_sandbox_runs`."""

    opened: Callable[[str], Awaitable[Tenant]]
    records: ExecutionRecords
    webhooks: WebhookSecrets
    deliverer: Deliverer
    trees: Trees
    volumes: ShownVolumes
    replica: Replica | None
    configuration_of: ConfigurationOf
    _runs: dict[str, OrganisationRuns] = field(default_factory=dict[str, OrganisationRuns], init=False)
    _sources: dict[str, TenantSandboxes] = field(default_factory=dict[str, TenantSandboxes], init=False)

    async def of(self, caller: HttpCaller, /) -> tuple[SandboxRuns, RunOwner]:
        tenant = (await self._source(caller.organisation)).tenant
        owner = RunOwner(
            principal=caller.principal,
            thread_owner=owner_of_threads(caller.principal),
            grant=tenant.caller_grants.grant(
                caller.principal, roles=caller.roles, client_id=caller.client_id, hides_host=not caller.is_terminal
            ),
            configuration=await self.configuration_of(caller),
            variables=caller.variables,
            sees_all="admin" in caller.scopes,
        )
        return self.runs(caller.organisation), owner

    def runs(self, organisation: str) -> OrganisationRuns:
        """Those of one organisation."""
        if (known := self._runs.get(organisation)) is None:
            known = self._runs[organisation] = OrganisationRuns(
                organisation,
                self.records,
                lambda: self._source(organisation),
                self.trees.of(organisation),
                None if self.replica is None else self.replica.signals,
                self.deliverer.wake,
            )
        return known

    async def _source(self, organisation: str) -> TenantSandboxes:
        tenant = await self.opened(organisation)
        known = self._sources.get(organisation)
        if known is None or known.tenant is not tenant:  # it was closed, and opened again
            known = self._sources[organisation] = TenantSandboxes(tenant, self.volumes)
        return known

    @property
    def is_busy(self) -> bool:
        return any(one.is_running for one in self._runs.values())

    def uses(self, organisation: str) -> bool:
        """Whether something of an organisation runs."""
        known = self._runs.get(organisation)
        return known is not None and known.is_running

    @property
    def owners(self) -> set[Owner]:
        """See `moonpool.server.http.lapsed_callers.OpenWork`."""
        return {(one, principal) for one, runs in self._runs.items() for principal in runs.principals}

    def end_owner(self, organisation: str, principal: str) -> None:
        """End what runs of this principal, whose credential counts no more."""
        if (known := self._runs.get(organisation)) is not None:
            known.end_principal(principal)

    async def end_organisation(self, organisation: str) -> None:
        """Its tenant is closed soon."""
        self._sources.pop(organisation, None)
        if (known := self._runs.pop(organisation, None)) is not None:
            await known.close()

    async def close(self) -> None:
        """End what runs; all of it is on record when this returns."""
        await asyncio.gather(*(one.close() for one in self._runs.values()))

    # --- beside requests

    async def look_after_records(self) -> None:
        """End the records of what was lost, and remove those that are kept no longer. Until cancelled."""
        count = 0
        while True:
            try:
                if await self.records.lose_ended():  # which a webhook may tell of
                    self.deliverer.wake()
                if count % _SWEEP_EVERY == 0:
                    await self.records.sweep()
            except DatabaseError as error:
                _log.warning("records of executions are not looked after: %s", error)
            count += 1
            await asyncio.sleep(LOOK_S)

    async def end_cancelled(self, replica: Replica) -> None:
        """End what was cancelled at other replicas. Until cancelled itself."""
        with replica.signals.listening(f"sandbox-cancels/{self.records.process}") as changed:
            while True:
                await changed.wait()
                try:
                    for organisation, trace_id in await self.records.cancels_asked():
                        self.runs(organisation).cancel_here(trace_id)
                except DatabaseError as error:
                    _log.warning("whether an execution was cancelled is not known: %s", error)


@asynccontextmanager
async def open_sandbox_runs(  # noqa: PLR0913  parts of the composition
    settings: Settings,
    state: Path,
    database: Database,
    opened: Callable[[str], Awaitable[Tenant]],
    *,
    environ: Mapping[str, str],
    replica: Replica | None,
    trees: Trees,
    configuration_of: ConfigurationOf,
) -> AsyncGenerator[ServiceRuns]:
    """Open them; on exit what runs is ended and on record. `opened` gives the tenant of an organisation.

    Raises DatabaseError.
    """
    records = ExecutionRecords(database, replica=None if replica is None else replica.replica_id)
    await records.lose_ended()
    table = WebhookTable(database)
    secrets = WebhookSecrets(table, SealedValues(secrets_dir(state), environ, KIND))

    async def body_of(organisation: str, trace_id: str) -> bytes | None:
        found = await records.find(organisation, trace_id, None)
        return None if found is None else msgspec.json.encode(status_body(found[0]))

    listed = PrivateHosts.parse(settings.webhook_private_hosts)
    runs = ServiceRuns(
        opened=opened,
        records=records,
        webhooks=secrets,
        deliverer=Deliverer(table, secrets, body_of, webhook_destinations(listed)),
        trees=trees,
        volumes=ShownVolumes(shown_volumes_dir(state)),
        replica=replica,
        configuration_of=configuration_of,
    )
    beside = [runs.look_after_records(), runs.deliverer.run()]
    if replica is not None:
        beside.append(runs.end_cancelled(replica))
    tasks = [asyncio.create_task(one) for one in beside]
    try:
        yield runs
    finally:
        await runs.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
