"""The service: one engine, the tenants of organisations, their callers' tools, and the routes over them.

Closing goes the other way round: calls, tenants, engine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import literal, select

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.database import open_service_database
from moonpool.bootstrap.engine import open_engine
from moonpool.bootstrap.folders import data_folder
from moonpool.bootstrap.organisation_rules import OrganisationRules
from moonpool.bootstrap.organisations import Organisations
from moonpool.bootstrap.replicas import open_replica
from moonpool.bootstrap.sandbox_runs import open_sandbox_runs
from moonpool.bootstrap.sandbox_services import CallerServices
from moonpool.bootstrap.service_routes import ServiceFaces, administered, affairs_of, metrics_app
from moonpool.bootstrap.session_tenants import TenantOfSessions, TenantsOfSessions
from moonpool.bootstrap.storage import open_trees
from moonpool.bootstrap.stored_files import StorageOfService, storage_face
from moonpool.bootstrap.stores import open_stores
from moonpool.bootstrap.terminal_tenants import TerminalTenants
from moonpool.configuration.policies import policy_in_force
from moonpool.core.scopes import SCOPES
from moonpool.features.caller_limits.service import CallerLimiter
from moonpool.features.caller_limits.table import QuotasInMemory
from moonpool.features.sandbox_configurations.model import AlwaysConfigured
from moonpool.features.tool_switches.model import AllSwitchedOn
from moonpool.sandboxes.identity import serves_several_tenants
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.admission import Everybody
from moonpool.server.http.callers import HttpCaller
from moonpool.server.http.lapsed_callers import lapsed_callers_ended
from moonpool.server.http.mcp_endpoint import McpEndpoints
from moonpool.server.http.principal_servers import TIDY_S, PrincipalServers
from moonpool.server.http.sandbox.routes import SandboxRoutes
from moonpool.server.http.sessions.registry import open_sessions
from moonpool.server.http.sessions.tenants import SessionBounds
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.profiles import PROFILES
from moonpool.store.journals import journal_reader
from moonpool.store.paths import DEFAULT_TENANT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from moonpool.bootstrap.admission import Admitted
    from moonpool.bootstrap.engine import Engine
    from moonpool.bootstrap.sandbox_runs import ServiceRuns
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.configuration.servers import McpConfig
    from moonpool.environments.base import ProgressSink
    from moonpool.features.approvals.events import EventApprover
    from moonpool.features.sandbox_configurations.model import Configured
    from moonpool.features.tool_switches.model import ToolSwitches
    from moonpool.sandboxes.base import SandboxBackend
    from moonpool.server.http.admission import Admission
    from moonpool.server.http.sessions.registry import SessionRegistry
    from moonpool.server.mcp.profiles import Profile, Profiles
    from moonpool.server.mcp.server import OwnServer, ServedTools
    from moonpool.server.mcp.stateless import StatelessTools
    from moonpool.settings import Settings
    from moonpool.store.database.base import Database

_FIRST_USE_S: Final = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Service:
    """An open service."""

    engine: Engine
    organisations: Organisations
    servers: PrincipalServers
    sessions: SessionRegistry
    routes: Sequence[BaseRoute]
    public: Sequence[BaseRoute]  # of these, for everybody
    check_environment: Callable[[], Awaitable[None]]
    """Raises when the default environment's files are not there any more."""
    check_database: Callable[[], Awaitable[None]]
    """Raises DatabaseError when it cannot be asked."""
    limiter: CallerLimiter
    sandbox_runs: ServiceRuns
    configured: Configured  # what a caller's code runs with
    switches: ToolSwitches  # tools that are off

    @property
    def is_busy(self) -> bool:
        """Whether a call is in progress or an execution goes on, also if no request waits for it."""
        in_calls = self.servers.open_calls > 0 or self.sessions.is_busy or self.sandbox_runs.is_busy
        return in_calls or self.organisations.executes_in_background

    async def unused(self) -> None:
        """Return once there is no session and no client of MCP any more; the first may take a while to come."""
        sessions = self.sessions
        wait_s = _FIRST_USE_S
        while wait_s == _FIRST_USE_S or not (sessions.is_empty and self.servers.is_idle):
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await sessions.changed.wait()
            sessions.changed.clear()
            wait_s = TIDY_S


@dataclass(slots=True)
class _Tools:
    """The `ToolsSource` of a service."""

    organisations: Organisations
    switches: ToolSwitches
    sandbox_runs: ServiceRuns | None = None  # once they are open

    async def open_tools(self, caller: HttpCaller, profile: Profile, /) -> ServedTools | OwnServer | StatelessTools:
        """See `ToolsSource`. Raises ServiceBusyError, InputError, ProfileUnavailableError."""
        tenant = (await self.organisations.get(caller.organisation)).tenant
        grant = tenant.caller_grants.grant(
            caller.principal, roles=caller.roles, client_id=caller.client_id, hides_host=not caller.is_terminal
        )
        # SECURITY: nobody approves the calls of their own code, so its client is not asked about them, whoever has
        # logged in there: the questions wait in the queue. What servers ask is relayed to the client.
        runs = self.sandbox_runs
        services = None if runs is None else CallerServices(runs, self.switches, caller)
        own = dataclasses.replace(tenant, caller_grant=grant, sandbox_services=services)
        return profile.make_tools(own, Bindings())


@asynccontextmanager
async def open_service(  # noqa: PLR0913  what a service is made of
    settings: Settings,
    *,
    environ: Mapping[str, str],
    config: McpConfig | None,
    report: Callable[[str], None],
    state: Path | None = None,
    profiles: Profiles = PROFILES,
    progress: ProgressSink | None = None,
    backend: SandboxBackend | None = None,
    is_open: bool = False,
    admitted: Admitted | None = None,
    storage: StorageOfService | None = None,
    on_lost: Callable[[str], None] = _log.error,
) -> AsyncGenerator[Service]:
    """Open it and prove that code can be isolated. Raises the errors of `open_engine`, ConfigError, SandboxStartError.

    `state` is the folder of what organisations own. `is_open`: without authentication, for one organisation and its
    figures for everybody. Without `admitted`, from `open_admission`, no OAuth client uses a login to a server, no
    organisation has servers but the operator's, quotas are counted in memory, and nobody looks whether keys still
    count. `storage`: threads and volumes; None: as settings say.
    `on_lost` is told when other replicas have taken this one for dead: nothing is recorded any more, so it should end.
    """
    state = state or data_folder(settings, environ)
    await asyncio.to_thread(policy_in_force, settings, config)  # first: nothing may start without a policy
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(
            open_engine(settings, environ=environ, serving=True, progress=progress, backend=backend, state=state)
        )
        await engine.prove()
        is_alone = not serves_several_tenants()
        if is_alone and not is_open:
            await engine.backend.close_scope(engine.sandbox_spec.scope)  # its uid is wanted for the organisation
        consents = None if admitted is None else admitted.consents
        own_servers = None if admitted is None else admitted.servers
        database = None if admitted is None else admitted.database
        stores = await stack.enter_async_context(open_stores(settings, state, environ, database, checks_key=True))
        replica = await stack.enter_async_context(open_replica(settings, state, on_lost))
        data = None if admitted is None else admitted.opened
        switches: ToolSwitches = AllSwitchedOn() if data is None else data.switches
        configured: Configured = AlwaysConfigured() if data is None else data.configurations
        if database is None:
            database = await stack.enter_async_context(open_service_database(settings, state))
        if storage is None:
            trees = await stack.enter_async_context(open_trees(settings, state, environ, database, alone=not is_open))
            storage = StorageOfService(trees=trees, configuration_of=configured.configuration_of)
        organisations = Organisations(
            engine,
            config,
            report,
            is_alone=is_alone,
            consents=consents,
            servers=own_servers,
            replica=replica,
            stores=stores,
            rules=None if data is None else OrganisationRules(data.policies, data.switches),
        )
        stack.push_async_callback(lambda: finish(organisations.close()))
        tools = _Tools(organisations, switches)
        servers = PrincipalServers(tools)
        stack.push_async_callback(lambda: finish(servers.close()))
        limiter = CallerLimiter(
            (admitted and admitted.quotas) or QuotasInMemory(),
            caller=settings.caller_limits,
            organisation=settings.organisation_limits,
            limits_of=admitted and admitted.limits_of,
            background=organisations.background_count,
        )
        may_be_default = is_open or not is_alone  # else the one tenant that there can be is an organisation's
        opening = _sessions(engine, config, organisations, limiter, may_be_default)
        sessions, of_sessions = await stack.enter_async_context(opening)
        find_lapsed = None if admitted is None else admitted.find_lapsed
        stored = storage_face(
            storage, settings, state=state, stores=stores, tenant_of=organisations.tenant, limiter=limiter,
            find_lapsed=find_lapsed,
        )  # fmt: skip
        sandbox_runs = await stack.enter_async_context(
            open_sandbox_runs(
                settings, state, database, organisations.tenant, environ=environ, replica=replica,
                trees=storage.trees, configuration_of=storage.configuration_of,
            )
        )  # fmt: skip
        tools.sandbox_runs = sandbox_runs
        organisations.use = (servers.uses, sessions.uses, stored.transfers.uses, sandbox_runs.uses)
        organisations.end_use = (
            servers.end_organisation, of_sessions.end_organisation, sandbox_runs.end_organisation,
        )  # fmt: skip
        by_one_call = SandboxRoutes(sandbox_runs, limiter, sandbox_runs.webhooks, switches)
        if find_lapsed is not None:
            works = (sessions, stored.transfers, sandbox_runs, by_one_call)
            await stack.enter_async_context(lapsed_callers_ended(servers, works, find_lapsed))
        if is_open:
            await organisations.get(DEFAULT_TENANT)
        operations = (
            *stored.operations,
            *by_one_call.operations(),
            *administered(organisations, of_sessions, data, profiles, switches, state, engine),
        )
        faces = ServiceFaces(
            mcp=McpEndpoints(servers, profiles, limiter, body_bytes_max=settings.request_bytes_max),
            metrics=metrics_app(engine, limiter, journal_reader(settings, state)),
            sessions=sessions,
            affairs=affairs_of(organisations, consents),
            operations=operations,
            is_open=is_open,
        )
        yield Service(
            engine=engine,
            organisations=organisations,
            servers=servers,
            sessions=sessions,
            routes=faces.routes(),
            public=(faces.openapi(), *stored.public),
            check_environment=partial(_check_environment, engine),
            check_database=partial(_check_database, database),
            limiter=limiter,
            sandbox_runs=sandbox_runs,
            configured=configured,
            switches=switches,
        )


@asynccontextmanager
async def _sessions(
    engine: Engine,
    config: McpConfig | None,
    organisations: Organisations,
    limiter: CallerLimiter,
    may_be_default: bool,
) -> AsyncGenerator[tuple[SessionRegistry, TenantsOfSessions]]:
    """Sessions over HTTP, and the tenants that they use. On exit they are closed, and with them their streams; the
    tenants stay open.
    """

    async def opened(organisation: str) -> tuple[Tenant, EventApprover]:
        one = await organisations.get(organisation)
        return one.tenant, one.events

    async def own() -> tuple[Tenant, TenantOfSessions]:
        return (await opened(DEFAULT_TENANT))[0], await tenants.tenant(DEFAULT_TENANT)

    terminals = TerminalTenants(engine, config, own if may_be_default else None)
    tenants = TenantsOfSessions(opened, terminals.tenant)
    try:
        bounds = SessionBounds(idle_s=engine.settings.session_idle_s)
        async with open_sessions(tenants, bounds, limiter=limiter) as registry:
            yield registry, tenants
    finally:
        await finish(tenants.close())


def everybody(profile: str | None, profiles: Profiles = PROFILES) -> Admission:
    """Admits everybody as one caller of the default tenant, to one profile or all. Raises UnknownProfileError.

    SECURITY: nobody is known to be a person, so what needs one waits in the queue.
    """
    if profile is not None:
        profiles.find(profile)
    return Everybody(
        HttpCaller(organisation=DEFAULT_TENANT, principal=local_principal(), scopes=frozenset(SCOPES), profile=profile)
    )


async def _check_database(database: Database) -> None:
    await database.read(select(literal(1)))


async def _check_environment(engine: Engine) -> None:
    """Raises OSError."""
    image = engine.sandbox_spec.image
    needed = (image.python, image.guest, *image.binds, *image.site_paths)
    await asyncio.to_thread(lambda: [path.stat() for path in needed])
