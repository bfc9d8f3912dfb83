"""A tenant as sessions over HTTP use it: environments, limits and packages of one session, within the operator's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from moonpool.bootstrap.narrowed_runtimes import NarrowedRuntimes, WantedRuntime
from moonpool.core.errors import InputError
from moonpool.engine.current_catalog import CurrentCatalog
from moonpool.engine.missing_tools import tell_missing_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from moonpool.bootstrap.tenant import Tenant
    from moonpool.engine.runtime import Runtime
    from moonpool.features.approvals.events import EventApprover
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.messages import CreateSession, TerminalOrder
    from moonpool.server.http.sessions.tenants import TerminalTenant


class TenantOfSessions:
    """What `moonpool.server.http.sessions` needs of a tenant. Close it before the tenant."""

    def __init__(self, tenant: Tenant, events: EventApprover) -> None:
        """`events` is the approver that the tenant was opened with."""
        self.events, self.approvals = events, tenant.approvals
        self.catalog = CurrentCatalog(tenant.tool_registry, tenant.vectors)
        self._tenant = tenant
        self._runtimes = NarrowedRuntimes(tenant)

    async def close(self) -> None:
        """Stop listing tools."""
        await self.catalog.close()

    def tell_missing_tools(self, say: Callable[[str], None], /) -> Coroutine[None, None, None]:
        """See `SessionTenant`."""
        return tell_missing_tools(self._tenant.tool_registry, say)

    def grant(self, caller: HttpCaller, wanted: CreateSession) -> CallerGrant:
        """See `SessionTenant`."""
        return self._tenant.caller_grants.grant(
            caller.principal,
            roles=caller.roles,
            client_id=caller.client_id,
            calls_max=wanted.limits.tool_calls,
            hides_host=not caller.is_terminal,
        )

    async def runtime_for(self, wanted: CreateSession) -> Runtime:
        """See `SessionTenant`."""
        limits = msgspec.structs.asdict(wanted.limits)
        return await self._runtimes.runtime(
            WantedRuntime(environment=wanted.environment, limits=limits, packages=wanted.packages)
        )


class TenantsOfSessions:
    """The tenants of a service, by organisation. Close it before them, and after all sessions."""

    def __init__(
        self,
        opened: Callable[[str], Awaitable[tuple[Tenant, EventApprover]]],
        for_terminal: Callable[[TerminalOrder], Awaitable[TerminalTenant]] | None = None,
    ) -> None:
        """`opened` gives the tenant of an organisation, opened if need be, and the approver that it was opened with;
        `for_terminal` that of an order.
        """
        self._opened, self._for_terminal = opened, for_terminal
        self._tenants: dict[str, tuple[Tenant, TenantOfSessions]] = {}

    async def tenant(self, organisation: str, /) -> TenantOfSessions:
        """See `SessionTenants`. Raises what opening it raises."""
        tenant, events = await self._opened(organisation)
        known = self._tenants.get(organisation)
        if known is None or known[0] is not tenant:  # it was closed, and opened again
            known = self._tenants[organisation] = tenant, TenantOfSessions(tenant, events)
        return known[1]

    async def end_organisation(self, organisation: str) -> None:
        """Its tenant is closed soon."""
        if (known := self._tenants.pop(organisation, None)) is not None:
            await known[1].close()

    async def for_terminal(self, order: TerminalOrder, /) -> TerminalTenant:
        """See `SessionTenants`."""
        if self._for_terminal is None:
            raise InputError("this service has no sessions of terminals")
        return await self._for_terminal(order)

    async def close(self) -> None:
        """Stop what they do."""
        tenants, self._tenants = self._tenants, {}
        await asyncio.gather(*(of_sessions.close() for _, of_sessions in tenants.values()))
