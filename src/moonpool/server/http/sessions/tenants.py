"""What an organisation's tenant offers here; `moonpool.bootstrap.session_tenants` makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from moonpool.engine.current_catalog import CurrentCatalog
    from moonpool.engine.runtime import Runtime
    from moonpool.features.approvals.events import EventApprover
    from moonpool.features.approvals.service import Approvals
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions.messages import CreateSession, TerminalOrder


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

    def tell_missing_tools(self, say: Callable[[str], None], /) -> Coroutine[None, None, None]:
        """Name the servers whose tools are missing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalTenant:
    """What a session of a terminal runs on, until `release`."""

    tenant: SessionTenant
    folders: HostFolders | None
    idle_s: float
    release: Callable[[], Awaitable[None]]


class SessionTenants(Protocol):
    """The organisations of a service."""

    async def for_terminal(self, order: TerminalOrder, /) -> TerminalTenant:
        """A tenant with the settings, servers and rules of this order. Raises MoonpoolError."""
        ...

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
    terminal_lifetime_s: float = 3650 * 24 * 3600.0
    """Of one that a person named: as long as it is used."""


EXECUTIONS_OPEN_MAX: Final = 64
"""Executions of one session that run or wait."""
WAITING_CODE_CHARS_MAX: Final = 4 * 1024**2
"""Of the code of one session that runs or waits."""
EXECUTIONS_KEPT_MAX: Final = 4
"""Executions that are over and whose lines can be read again."""
EXECUTIONS_KEPT_BYTES_MAX: Final = 8 * 1024**2
"""Of their lines; the newest is kept in any case."""
