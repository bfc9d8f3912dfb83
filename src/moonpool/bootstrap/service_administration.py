"""Administration over HTTP, on the service's database, journals and tenants."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from moonpool.bootstrap.administration import Administration
from moonpool.policy import CallFacts, Verdict, decide
from moonpool.store.journals import journal_reader
from moonpool.store.paths import tenant_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from moonpool.bootstrap.database import ServiceData
    from moonpool.bootstrap.session_tenants import TenantsOfSessions
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.catalog.catalog import Catalog
    from moonpool.core.audit import AuditRow
    from moonpool.core.manifest import ToolDefinition
    from moonpool.features.approvals.model import Answerer
    from moonpool.features.keys.model import ApiKey
    from moonpool.features.organisation_policies.model import OwnPolicy
    from moonpool.features.organisations.model import Organisation
    from moonpool.features.plans.model import StoredPlan
    from moonpool.features.plans.service import Plans
    from moonpool.features.sandbox_configurations.model import StoredConfiguration
    from moonpool.features.tool_switches.model import SwitchedOff, ToolSwitches
    from moonpool.policy import Layer
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.mcp.profiles import Profiles
    from moonpool.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAdministration:
    """See `moonpool.server.http.administration.base.Administered`."""

    data: ServiceData
    settings: Settings
    state: Path
    profiles: Profiles
    opened: Callable[[str], Awaitable[Tenant]]
    check_built: Callable[[str], Awaitable[None]]  # of an environment

    def changes(self, by: str, /) -> Administration:
        return Administration(
            opened=self.data, settings=self.settings, data=self.state, by=by, check_built=self.check_built
        )

    def check_profile(self, name: str, /) -> None:
        self.profiles.find(name)

    async def organisations(self) -> Sequence[Organisation]:
        return await self.data.organisations.all()

    async def keys(self, organisation: str, /) -> Sequence[ApiKey]:
        return await self.data.keys.all(organisation)

    async def sandboxes(self, organisation: str, /) -> Sequence[StoredConfiguration]:
        return await self.data.configurations.all(organisation)

    async def sandbox(self, organisation: str, name: str, /) -> StoredConfiguration:
        return await self.data.configurations.find(organisation, name)

    async def switched_off(self, organisation: str, /) -> Sequence[SwitchedOff]:
        return await self.data.switches.all(organisation)

    async def policy(self, organisation: str, /) -> OwnPolicy | None:
        return await self.data.policies.find(organisation)

    async def layers(self, organisation: str, /) -> Sequence[Layer]:
        tenant = await self.opened(organisation)
        return (*tenant.policy.layers, *tenant.caller_grants.own_layers)

    async def audit(self, organisation: str, /, *, before: int | None, limit: int) -> Sequence[AuditRow]:
        reader = journal_reader(self.settings, tenant_dir(self.state, organisation), organisation)

        def read() -> list[AuditRow]:
            if reader.identity() is None:
                return []
            if before is None:
                return list(reader.rows(tail=limit))[::-1]
            last = before - 1  # INVARIANT of the journal: its numbers have no gaps
            return list(takewhile(lambda row: row.seq <= last, reader.rows(after=max(0, last - limit))))[::-1]

        return await asyncio.to_thread(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOffers:
    """See `moonpool.server.http.administration.base.Offered`."""

    opened: Callable[[str], Awaitable[Tenant]]
    of_sessions: TenantsOfSessions
    switches: ToolSwitches

    async def catalog(self, caller: HttpCaller, /) -> tuple[Catalog, Callable[[ToolDefinition], bool]]:
        tenant = await self.opened(caller.organisation)
        grant = tenant.caller_grants.grant(
            caller.principal, roles=caller.roles, client_id=caller.client_id, hides_host=not caller.is_terminal
        )
        off = await self.switches.disabled_tools(caller.organisation)

        def may_use(tool: ToolDefinition) -> bool:
            trust = grant.servers.get(tool.server_id)
            trusted = trust is not None and trust.trusted
            facts = CallFacts(tool=tool, trusted=trusted, principal=grant.principal, look_alikes="")
            denied = decide(grant.policy.loosest, facts).verdict is Verdict.DENY
            return not denied and f"{tool.server_id}.{tool.name}" not in off

        return await (await self.of_sessions.tenant(caller.organisation)).catalog.get(), may_use

    async def plans(self, organisation: str, /) -> Sequence[StoredPlan]:
        return await asyncio.to_thread((await self._plans(organisation)).plans)

    async def answer_plan(self, organisation: str, plan_id: str, answerer: Answerer, /, *, approve: bool) -> None:
        plans = await self._plans(organisation)
        await asyncio.to_thread(plans.approve if approve else plans.deny, plan_id, answerer)

    async def _plans(self, organisation: str) -> Plans:
        plans = (await self.opened(organisation)).runtime.plans
        assert plans is not None
        return plans
