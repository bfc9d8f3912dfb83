"""The service: one engine, the tenants of organisations, their callers' tools, and the routes over them.

A tenant is opened when its organisation is first used and kept; its id is the organisation's. Without authentication
there is one, the command line's. Closing goes the other way round: calls, tenants, engine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.database import open_service_database
from moonpool.bootstrap.engine import open_engine
from moonpool.bootstrap.folders import data_folder
from moonpool.bootstrap.narrowed_runtimes import check_built
from moonpool.bootstrap.organisation_affairs import OrganisationAffairs
from moonpool.bootstrap.organisation_rules import OrganisationRules
from moonpool.bootstrap.organisation_servers import OrganisationServers
from moonpool.bootstrap.replicas import open_replica
from moonpool.bootstrap.sandbox_runs import open_sandbox_runs
from moonpool.bootstrap.sandbox_services import CallerServices
from moonpool.bootstrap.service_administration import ServiceAdministration, ServiceOffers
from moonpool.bootstrap.session_tenants import TenantOfSessions, TenantsOfSessions
from moonpool.bootstrap.storage import open_trees
from moonpool.bootstrap.stored_files import StorageOfService, storage_face
from moonpool.bootstrap.stores import open_stores
from moonpool.bootstrap.tenant import open_tenant
from moonpool.bootstrap.terminal_tenants import TerminalTenants
from moonpool.configuration.policies import policy_in_force
from moonpool.core.scopes import SCOPES
from moonpool.core.version import VERSION
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.files import open_queue
from moonpool.features.caller_limits.service import CallerLimiter
from moonpool.features.caller_limits.table import QuotasInMemory
from moonpool.features.sandbox_configurations.model import AlwaysConfigured
from moonpool.features.tool_switches.model import AllSwitchedOn
from moonpool.sandboxes.identity import serves_several_tenants
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.administration.offered_routes import OfferedRoutes
from moonpool.server.http.administration.operator_routes import OperatorRoutes
from moonpool.server.http.administration.routes import AdministrationRoutes
from moonpool.server.http.admission import Everybody, caller_in
from moonpool.server.http.application import admins_only, asgi_route, mounted
from moonpool.server.http.callers import HttpCaller
from moonpool.server.http.exposition import Exposed, LimitFigures, PoolGauges
from moonpool.server.http.figures import Metrics
from moonpool.server.http.lapsed_callers import lapsed_callers_ended
from moonpool.server.http.mcp_endpoint import McpEndpoints
from moonpool.server.http.metrics import PATH, MetricsApp
from moonpool.server.http.principal_servers import TIDY_S, PrincipalServers, ServiceBusyError
from moonpool.server.http.sandbox.routes import SandboxRoutes
from moonpool.server.http.sessions.application import openapi_route, sessions_application
from moonpool.server.http.sessions.registry import open_sessions
from moonpool.server.http.sessions.tenants import SessionBounds
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.profiles import PROFILES
from moonpool.store.journals import journal_reader
from moonpool.store.paths import DEFAULT_TENANT, tenant_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from moonpool.bootstrap.admission import Admitted
    from moonpool.bootstrap.database import ServiceData
    from moonpool.bootstrap.engine import Engine
    from moonpool.bootstrap.replicas import Replica
    from moonpool.bootstrap.sandbox_runs import ServiceRuns
    from moonpool.bootstrap.stores import Stores
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.configuration.servers import McpConfig
    from moonpool.core.audit import JournalReader
    from moonpool.environments.base import ProgressSink
    from moonpool.features.consents.service import UserConsents
    from moonpool.features.sandbox_configurations.model import Configured
    from moonpool.features.servers.service import OwnServers
    from moonpool.features.tool_switches.model import ToolSwitches
    from moonpool.features.usage.measures import Measures
    from moonpool.sandboxes.base import SandboxBackend
    from moonpool.server.http.admission import Admission
    from moonpool.server.http.sessions.operations import Operation
    from moonpool.server.http.sessions.registry import SessionRegistry
    from moonpool.server.mcp.profiles import Profile, Profiles
    from moonpool.server.mcp.server import OwnServer, ServedTools
    from moonpool.server.mcp.stateless import StatelessTools
    from moonpool.settings import Settings

TENANTS_MAX: Final = 256
ORGANISATION_IDLE_S: float = 60.0
"""How long nobody must have asked for an organisation before it makes room for another. Longer than a request that
holds a tenant and is not among its callers or sessions takes.
"""
_FIRST_USE_S: Final = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenOrganisation:
    """An organisation's tenant, and what asks about the calls of its sessions."""

    tenant: Tenant
    events: EventApprover
    stack: AsyncExitStack  # closes it


class Organisations:
    """The open tenants. Each is opened once; one that nobody uses makes room when there are too many."""

    def __init__(  # noqa: PLR0913  parts of the composition
        self,
        engine: Engine,
        config: McpConfig | None,
        report: Callable[[str], None],
        *,
        is_alone: bool,
        consents: UserConsents | None,
        servers: OwnServers | None,
        replica: Replica | None,
        stores: Stores,
        rules: OrganisationRules | None = None,
    ) -> None:
        """`is_alone`: this process can keep only one apart from others, see `sandboxes.identity`. `rules` follows those
        of organisations themselves.
        """
        self._engine, self._config, self._report, self._consents = engine, config, report, consents
        self.servers = None if servers is None else OrganisationServers(servers, config)
        self._replica, self._stores, self.rules = replica, stores, rules
        self._count_max = 1 if is_alone else TENANTS_MAX
        self._opening: dict[str, asyncio.Task[OpenOrganisation]] = {}
        self._asked_at: dict[str, float] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.use: Sequence[Callable[[str], bool]] = ()
        """Say whether something of an organisation is open or runs."""
        self.end_use: Sequence[Callable[[str], Awaitable[object]]] = ()
        """Forget its tenant; what they return ends when nothing of that is used any more."""

    @property
    def settings(self) -> Settings:
        return self._engine.settings

    async def get(self, organisation: str) -> OpenOrganisation:
        """Its open tenant. Raises ServiceBusyError when there is no room, or it cannot be opened now."""
        self._asked_at[organisation] = asyncio.get_running_loop().time()
        opening = self._opening.get(organisation)
        if opening is None:
            if len(self._opening) >= self._count_max:
                self._make_room()
            opening = self._opening[organisation] = asyncio.create_task(self._open(organisation))
        try:
            return await asyncio.shield(opening)
        except Exception:  # noqa: BLE001  whatever it was, the next request tries again
            # SECURITY: the message may name files of this machine; it is for the operator.
            _log.exception("the organisation %s cannot be served", organisation)
            if self._opening.get(organisation) is opening:
                del self._opening[organisation]
            raise ServiceBusyError("this organisation cannot be served now; the service's log says why") from None

    async def tenant(self, organisation: str) -> Tenant:
        """See `get`."""
        return (await self.get(organisation)).tenant

    @property
    def executes_in_background(self) -> bool:
        return any(self.background_count(organisation, "") for organisation in self._opening)

    def background_count(self, organisation: str, principal: str) -> int:
        """Executions of a principal, or of all (empty), that go on while no request waits for them."""
        found = self._found(organisation)
        if found is None:
            return 0
        executions = found.tenant.executions
        return (executions.of(principal) if principal else executions).detached_count

    def _found(self, organisation: str) -> OpenOrganisation | None:
        """It, if it is open."""
        opening = self._opening.get(organisation)
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        return opening.result()

    def _make_room(self) -> None:
        """Close the one that nobody has used for longest. Raises ServiceBusyError when all are used."""
        idle = [] if self._count_max == 1 else [one for one in self._opening if self._is_idle(one)]
        if not idle:
            raise ServiceBusyError(self._no_room())
        organisation = min(idle, key=self._asked_at.__getitem__)
        opened = self._opening.pop(organisation).result()
        # INVARIANT: whoever asks from now on finds none of what uses its tenant, and opens it anew when it is closed.
        ending = [end(organisation) for end in self.end_use]
        closing = asyncio.create_task(self._close_one(organisation, opened, ending))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _is_idle(self, organisation: str) -> bool:
        unasked_s = asyncio.get_running_loop().time() - self._asked_at[organisation]
        found = self._found(organisation)
        return (
            organisation != DEFAULT_TENANT
            and unasked_s >= ORGANISATION_IDLE_S
            and found is not None
            and not found.tenant.runtime.is_executing
            and not self.background_count(organisation, "")
            and not any(uses(organisation) for uses in self.use)
        )

    async def _close_one(
        self, organisation: str, opened: OpenOrganisation, ending: Sequence[Awaitable[object]] = ()
    ) -> None:
        await asyncio.gather(*ending, return_exceptions=True)
        if self.servers is not None:
            await self.servers.unfollow(organisation)
        if self.rules is not None:
            self.rules.unfollow(organisation)
        if self._replica is not None:
            self._replica.running.pop(organisation, None)
        try:
            await finish(opened.stack.aclose())
        except Exception:  # noqa: BLE001  the others are closed all the same
            _log.exception("the organisation %s could not be closed in order", organisation)

    async def close(self) -> None:
        """Close all of them."""
        for opening in self._opening.values():
            opening.cancel()  # one that is open is not touched by this
        if left := {*self._opening.values(), *self._closing}:
            await asyncio.wait(left)
        if self.servers is not None:
            await self.servers.close()
        if self.rules is not None:
            await self.rules.close()
        for organisation in reversed(self._opening):
            if (opened := self._found(organisation)) is not None:
                await self._close_one(organisation, opened)

    async def _open(self, organisation: str) -> OpenOrganisation:
        engine, settings, replica = self._engine, self._engine.settings, self._replica
        if self._closing:  # it itself, perhaps; and no more are open than may be
            await asyncio.wait(set(self._closing))
        async with AsyncExitStack() as stack:
            folder = tenant_dir(engine.state, organisation)
            store = self._stores.of(organisation, folder).approvals()
            queue = await stack.enter_async_context(
                open_queue(store, self._report, settings.approval_command, engine.environ)
            )
            events = EventApprover(queue=queue)
            config = None if self._config is None else self._config.for_organisation(organisation)
            policy = await asyncio.to_thread(policy_in_force, settings, config)
            tenant = await stack.enter_async_context(
                open_tenant(
                    engine,
                    organisation,
                    config=config,
                    approver=events,
                    policy=policy,
                    eagerly=True,
                    journal_place=None if replica is None else replica.journal_place(organisation),
                    kept=None if replica is None else replica.kept(organisation),
                    consents=self._consents,
                    stores=self._stores,
                )
            )
            if self.rules is not None:
                await self.rules.follow(tenant)
            if self.servers is not None:
                await self.servers.follow(tenant)
            if replica is not None:
                replica.running[organisation] = tenant.executions
            return OpenOrganisation(tenant, events, stack.pop_all())

    def _no_room(self) -> str:
        if self._count_max == 1:
            return "this service serves another organisation; its operator has to start it as root to serve more"
        return f"this service serves {self._count_max} organisations now; try again later"


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
        if find_lapsed is not None:
            works = (sessions, stored.transfers)
            await stack.enter_async_context(lapsed_callers_ended(servers, works, find_lapsed))
        if is_open:
            await organisations.get(DEFAULT_TENANT)
        endpoints = McpEndpoints(servers, profiles, limiter, body_bytes_max=settings.request_bytes_max)
        figures = MetricsApp(_metrics(engine, limiter, journal_reader(settings, state)), hosts=None)
        affairs = _affairs(organisations, consents)
        by_one_call = SandboxRoutes(sandbox_runs, limiter, sandbox_runs.webhooks, switches).operations()
        administered = _administered(organisations, of_sessions, data, profiles, switches, state, engine)
        more = (*stored.operations, *by_one_call, *administered)
        routes = (
            asgi_route("/mcp", endpoints.mcp),
            asgi_route("/mcp/{profile}", endpoints.mcp),
            asgi_route("/sse", endpoints.sse),
            asgi_route("/message", endpoints.message),
            asgi_route(PATH, figures if is_open else admins_only(figures, DEFAULT_TENANT)),
            mounted("/v1", sessions_application(sessions, lambda request: caller_in(request.scope), affairs, more)),
        )
        yield Service(
            engine=engine,
            organisations=organisations,
            servers=servers,
            sessions=sessions,
            routes=routes,
            public=(openapi_route(sessions, affairs, more), *stored.public),
            check_environment=partial(_check_environment, engine),
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


def _affairs(organisations: Organisations, consents: UserConsents | None) -> OrganisationAffairs | None:
    """What organisations manage; None: there is no database."""
    if organisations.servers is None or consents is None:
        return None

    return OrganisationAffairs(organisations.servers, consents, organisations.tenant)


def _administered(
    organisations: Organisations,
    of_sessions: TenantsOfSessions,
    data: ServiceData | None,
    profiles: Profiles,
    switches: ToolSwitches,
    state: Path,
    engine: Engine,
) -> tuple[Operation, ...]:
    """What is managed and read beside sessions; without a database there is nothing to manage."""
    opened = organisations.tenant
    offers = ServiceOffers(opened=opened, of_sessions=of_sessions, switches=switches)
    offered = OfferedRoutes(offers).operations()
    if data is None:
        return offered
    settings = organisations.settings
    administration = ServiceAdministration(
        data=data,
        settings=settings,
        state=state,
        profiles=profiles,
        opened=opened,
        check_built=lambda name: check_built(name, engine.data),
    )
    operators = OperatorRoutes(administration, DEFAULT_TENANT).operations()
    return (*AdministrationRoutes(administration).operations(), *operators, *offered)


def everybody(profile: str | None, profiles: Profiles = PROFILES) -> Admission:
    """Admits everybody as one caller of the default tenant, to one profile or all. Raises UnknownProfileError.

    SECURITY: nobody is known to be a person, so what needs one waits in the queue.
    """
    if profile is not None:
        profiles.find(profile)
    return Everybody(
        HttpCaller(organisation=DEFAULT_TENANT, principal=local_principal(), scopes=frozenset(SCOPES), profile=profile)
    )


async def _check_environment(engine: Engine) -> None:
    """Raises OSError."""
    image = engine.sandbox_spec.image
    needed = (image.python, image.guest, *image.binds, *image.site_paths)
    await asyncio.to_thread(lambda: [path.stat() for path in needed])


def _metrics(engine: Engine, limiter: CallerLimiter, journal: JournalReader) -> Metrics:
    """Live figures of the process, and those on record of the default tenant."""

    def expose(recorded: Measures) -> Exposed:
        pool = engine.pool.statistics()
        gauges = PoolGauges(
            alive=pool.alive, ready=pool.ready, opening=pool.opening, waiting=pool.waiting, refused=pool.refused
        )
        limits = LimitFigures(open=limiter.held, refused=dict(limiter.refused))
        return Exposed(version=VERSION, recorded=recorded, pool=gauges, limits=limits)

    return Metrics(journal, expose)
