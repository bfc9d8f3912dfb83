"""What an organisation's tenant offers here; `moonpool.bootstrap.session_tenants` makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from moonpool.engine.current_catalog import CurrentCatalog
    from moonpool.engine.runtime import Runtime
    from moonpool.features.approvals.events import EventApprover
    from moonpool.features.approvals.service import Approvals
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.messages import CreateSession


class SessionTenant(Protocol):
    """One organisation."""

    @property
    def events(self) -> EventApprover:
        """Who is asked about calls of sessions; the tenant was opened with it."""
        ...

    @property
    def approvals(self) -> Approvals:
        """The questions of the organisation, whichever replica asks them."""
        ...

    @property
    def catalog(self) -> CurrentCatalog:
        """Its tools."""
        ...

    async def runtime_for(self, wanted: CreateSession) -> Runtime:
        """A runtime with the environment, limits and packages of one session.

        Raises InputError for more than the operator allows, and for what is not there.
        """
        ...

    def grant(self, caller: HttpCaller, wanted: CreateSession) -> CallerGrant:
        """What the calls of this caller's code may do. Raises InputError."""
        ...


class SessionTenants(Protocol):
    """The organisations of a service."""

    async def tenant(self, organisation: str, /) -> SessionTenant:
        """The tenant with this id, opened if need be. Raises MoonpoolError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBounds:
    """How many sessions there may be, and for how long."""

    per_principal_max: int = 16
    per_organisation_max: int = 64
    idle_s: float = 1800.0
    """One that nobody uses, and in which nothing runs, is closed after so long."""
    lifetime_s: float = 24 * 3600.0


EXECUTIONS_OPEN_MAX: Final = 64
"""Executions of one session that run or wait."""
EXECUTIONS_KEPT_MAX: Final = 4
"""Executions that are over and whose lines can be read again."""
