"""The service: one engine, the tenants of organisations, their callers' tools, and the routes over them.

A tenant is opened when its organisation is first used and kept; its id is the organisation's. Without authentication
there is one, the command line's. Closing goes the other way round: calls, tenants, engine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.engine import open_engine
from moonpool.bootstrap.folders import data_folder
from moonpool.bootstrap.session_tenants import TenantsOfSessions
from moonpool.bootstrap.stores import open_stores
from moonpool.bootstrap.tenant import open_tenant
from moonpool.configuration.policies import policy_in_force
from moonpool.core.errors import MoonpoolError
from moonpool.core.version import VERSION
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.files import open_queue
from moonpool.sandboxes.identity import serves_several_tenants
from moonpool.sandboxes.shielding import finish
from moonpool.server.http.admission import Everybody, caller_in
from moonpool.server.http.application import admins_only, asgi_route, mounted
from moonpool.server.http.callers import SCOPES, HttpCaller
from moonpool.server.http.exposition import Exposed, PoolGauges
from moonpool.server.http.figures import Metrics
from moonpool.server.http.mcp_endpoint import McpEndpoints
from moonpool.server.http.metrics import PATH, MetricsApp
from moonpool.server.http.principal_servers import PrincipalServers, ServiceBusyError
from moonpool.server.http.sessions.application import openapi_route, sessions_application
from moonpool.server.http.sessions.registry import open_sessions
from moonpool.server.http.sessions.tenants import SessionBounds
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.profiles import PROFILES
from moonpool.store.journal_reading import FileJournalReader
from moonpool.store.paths import DEFAULT_TENANT, journal_path, tenant_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from moonpool.bootstrap.engine import Engine
    from moonpool.bootstrap.stores import Stores
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.configuration.servers import McpConfig
    from moonpool.core.audit import JournalReader
    from moonpool.environments.base import ProgressSink
    from moonpool.features.consents.model import Consents
    from moonpool.features.usage.measures import Measures
    from moonpool.sandboxes.base import SandboxBackend
    from moonpool.server.http.admission import Admission
    from moonpool.server.http.sessions.registry import SessionRegistry
    from moonpool.server.mcp.profiles import Profile, Profiles
    from moonpool.server.mcp.server import OwnServer, ServedTools
    from moonpool.settings import Settings
    from moonpool.store.database.base import Database

TENANTS_MAX: Final = 256
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenOrganisation:
    """An organisation's tenant, and what asks about the calls of its sessions."""

    tenant: Tenant
    events: EventApprover


class Organisations:
    """The open tenants. Each is opened once."""

    def __init__(
        self,
        engine: Engine,
        config: McpConfig | None,
        report: Callable[[str], None],
        *,
        is_alone: bool,
        consents: Consents | None,
        stores: Stores,
    ) -> None:
        """`is_alone`: this process can keep only one apart from others, see `sandboxes.identity`."""
        self._engine, self._config, self._report, self._consents = engine, config, report, consents
        self._stores = stores
        self._count_max = 1 if is_alone else TENANTS_MAX
        self._stack = AsyncExitStack()
        self._opening: dict[str, asyncio.Task[OpenOrganisation]] = {}

    async def get(self, organisation: str) -> OpenOrganisation:
        """Its open tenant. Raises ServiceBusyError when there is no room, or it cannot be opened now."""
        opening = self._opening.get(organisation)
        if opening is None:
            if len(self._opening) >= self._count_max:
                raise ServiceBusyError(self._no_room())
            opening = self._opening[organisation] = asyncio.create_task(self._open(organisation))
        try:
            return await asyncio.shield(opening)
        except MoonpoolError:
            # SECURITY: the message may name files of this machine; it is for the operator.
            _log.exception("the organisation %s cannot be served", organisation)
            if self._opening.get(organisation) is opening:
                del self._opening[organisation]
            raise ServiceBusyError("this organisation cannot be served now; the service's log says why") from None

    async def close(self) -> None:
        """Close all of them."""
        for opening in self._opening.values():
            opening.cancel()  # one that is open is not touched by this
        if self._opening:
            await asyncio.wait(set(self._opening.values()))
        await self._stack.aclose()

    async def _open(self, organisation: str) -> OpenOrganisation:
        engine, settings = self._engine, self._engine.settings
        async with AsyncExitStack() as stack:
            folder = tenant_dir(engine.state, organisation)
            store = self._stores.of(organisation, folder).approvals()
            queue = await stack.enter_async_context(
                open_queue(store, self._report, settings.approval_command, engine.environ)
            )
            events = EventApprover(queue=queue)
            policy = await asyncio.to_thread(policy_in_force, settings, self._config)
            tenant = await stack.enter_async_context(
                open_tenant(
                    engine,
                    organisation,
                    config=self._config,
                    approver=events,
                    policy=policy,
                    eagerly=True,
                    consents=self._consents,
                    stores=self._stores,
                )
            )
            self._stack.push_async_exit(stack.pop_all())
            return OpenOrganisation(tenant, events)

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
    routes: Sequence[BaseRoute]
    public: Sequence[BaseRoute]  # of these, for everybody

    @property
    def is_busy(self) -> bool:
        """Whether a call is in progress, also one whose connection has broken."""
        return self.servers.open_calls > 0


@dataclass(frozen=True, slots=True)
class _Tools:
    """The `ToolsSource` of a service."""

    organisations: Organisations

    async def open_tools(self, caller: HttpCaller, profile: Profile, /) -> ServedTools | OwnServer:
        """See `ToolsSource`. Raises ServiceBusyError, InputError."""
        tenant = (await self.organisations.get(caller.organisation)).tenant
        grant = tenant.caller_grants.grant(caller.principal, roles=caller.roles, client_id=caller.client_id)
        # SECURITY: nobody approves the calls of their own code, so its client is not asked about them, whoever has
        # logged in there: the questions wait in the queue. What servers ask is relayed to the client.
        return profile.make_tools(dataclasses.replace(tenant, caller_grant=grant), Bindings())


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
    consents: Consents | None = None,
    database: Database | None = None,
) -> AsyncGenerator[Service]:
    """Open it and prove that code can be isolated. Raises the errors of `open_engine`, ConfigError, SandboxStartError.

    `state` is the folder of what organisations own. `is_open`: without authentication, for one organisation and its
    figures for everybody. Without `consents` no OAuth client uses a login to a server. `database`:
    the service's, if it is open.
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
        stores = await stack.enter_async_context(open_stores(settings, state, database))
        organisations = Organisations(engine, config, report, is_alone=is_alone, consents=consents, stores=stores)
        stack.push_async_callback(lambda: finish(organisations.close()))
        servers = PrincipalServers(_Tools(organisations))
        stack.push_async_callback(lambda: finish(servers.close()))
        sessions = await stack.enter_async_context(_sessions(organisations, settings))
        if is_open:
            await organisations.get(DEFAULT_TENANT)
        endpoints = McpEndpoints(servers, profiles, body_bytes_max=settings.request_bytes_max)
        figures = MetricsApp(_metrics(engine, FileJournalReader(journal_path(state))), hosts=None)
        routes = (
            asgi_route("/mcp", endpoints.mcp),
            asgi_route("/mcp/{profile}", endpoints.mcp),
            asgi_route("/sse", endpoints.sse),
            asgi_route("/message", endpoints.message),
            asgi_route(PATH, figures if is_open else admins_only(figures, DEFAULT_TENANT)),
            mounted("/v1", sessions_application(sessions, lambda request: caller_in(request.scope))),
        )
        yield Service(
            engine=engine,
            organisations=organisations,
            servers=servers,
            routes=routes,
            public=(openapi_route(sessions),),
        )


@asynccontextmanager
async def _sessions(organisations: Organisations, settings: Settings) -> AsyncGenerator[SessionRegistry]:
    """Sessions over HTTP. On exit they are closed, and with them their streams; the tenants stay open."""

    async def opened(organisation: str) -> tuple[Tenant, EventApprover]:
        one = await organisations.get(organisation)
        return one.tenant, one.events

    tenants = TenantsOfSessions(opened)
    try:
        async with open_sessions(tenants, SessionBounds(idle_s=settings.session_idle_s)) as registry:
            yield registry
    finally:
        await finish(tenants.close())


def everybody(profile: str | None, profiles: Profiles = PROFILES) -> Admission:
    """Admits everybody as one caller of the default tenant, to one profile or all. Raises UnknownProfileError.

    SECURITY: nobody is known to be a person, so what needs one waits in the queue.
    """
    if profile is not None:
        profiles.find(profile)
    return Everybody(
        HttpCaller(organisation=DEFAULT_TENANT, principal=local_principal(), scopes=SCOPES, profile=profile)
    )


def _metrics(engine: Engine, journal: JournalReader) -> Metrics:
    """Live figures of the process, and those on record of the default tenant."""

    def expose(recorded: Measures) -> Exposed:
        pool = engine.pool.statistics()
        gauges = PoolGauges(
            alive=pool.alive, ready=pool.ready, opening=pool.opening, waiting=pool.waiting, refused=pool.refused
        )
        return Exposed(version=VERSION, recorded=recorded, pool=gauges)

    return Metrics(journal, expose)
