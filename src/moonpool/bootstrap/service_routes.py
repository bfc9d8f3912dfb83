"""The routes of a service: MCP, sessions, and what is managed and read beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.bootstrap.narrowed_runtimes import check_built
from moonpool.bootstrap.organisation_affairs import OrganisationAffairs
from moonpool.bootstrap.service_administration import ServiceAdministration, ServiceOffers
from moonpool.core.version import VERSION
from moonpool.server.http.administration.offered_routes import OfferedRoutes
from moonpool.server.http.administration.operator_routes import OperatorRoutes
from moonpool.server.http.administration.routes import AdministrationRoutes
from moonpool.server.http.admission import caller_in
from moonpool.server.http.application import admins_only, asgi_route, mounted
from moonpool.server.http.exposition import Exposed, LimitFigures, PoolGauges
from moonpool.server.http.figures import Metrics
from moonpool.server.http.metrics import PATH, MetricsApp
from moonpool.server.http.sessions.application import openapi_route, sessions_application
from moonpool.store.paths import DEFAULT_TENANT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from moonpool.bootstrap.database import ServiceData
    from moonpool.bootstrap.engine import Engine
    from moonpool.bootstrap.organisations import Organisations
    from moonpool.bootstrap.session_tenants import TenantsOfSessions
    from moonpool.core.audit import JournalReader
    from moonpool.features.caller_limits.service import CallerLimiter
    from moonpool.features.consents.service import UserConsents
    from moonpool.features.tool_switches.model import ToolSwitches
    from moonpool.features.usage.measures import Measures
    from moonpool.server.http.mcp_endpoint import McpEndpoints
    from moonpool.server.http.sessions.operations import Operation
    from moonpool.server.http.sessions.registry import SessionRegistry
    from moonpool.server.mcp.profiles import Profiles


@dataclass(frozen=True, kw_only=True)
class ServiceFaces:
    """What answers requests."""

    mcp: McpEndpoints
    metrics: MetricsApp
    sessions: SessionRegistry
    affairs: OrganisationAffairs | None
    operations: Sequence[Operation]  # below /v1, beside sessions
    is_open: bool  # figures are for everybody

    def routes(self) -> Sequence[BaseRoute]:
        """For callers who are known."""
        own = sessions_application(
            self.sessions, lambda request: caller_in(request.scope), self.affairs, self.operations
        )
        return (
            asgi_route("/mcp", self.mcp.mcp),
            asgi_route("/mcp/{profile}", self.mcp.mcp),
            asgi_route("/sse", self.mcp.sse),
            asgi_route("/message", self.mcp.message),
            asgi_route(PATH, self.metrics if self.is_open else admins_only(self.metrics, DEFAULT_TENANT)),
            mounted("/v1", own),
        )

    def openapi(self) -> BaseRoute:
        """Their description, for everybody."""
        return openapi_route(self.sessions, self.affairs, self.operations)


def affairs_of(organisations: Organisations, consents: UserConsents | None) -> OrganisationAffairs | None:
    """What organisations manage; None: there is no database."""
    if organisations.servers is None or consents is None:
        return None

    return OrganisationAffairs(organisations.servers, consents, organisations.tenant)


def administered(
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


def metrics_app(engine: Engine, limiter: CallerLimiter, journal: JournalReader) -> MetricsApp:
    """Live figures of the process, and those on record of the default tenant."""

    def expose(recorded: Measures) -> Exposed:
        pool = engine.pool.statistics()
        gauges = PoolGauges(
            alive=pool.alive, ready=pool.ready, opening=pool.opening, waiting=pool.waiting, refused=pool.refused
        )
        limits = LimitFigures(open=limiter.held, refused=dict(limiter.refused))
        return Exposed(version=VERSION, recorded=recorded, pool=gauges, limits=limits)

    return MetricsApp(Metrics(journal, expose), hosts=None)
