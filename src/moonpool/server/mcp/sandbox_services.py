"""What the profiles `baponi` and `codegen` use of a tenant: executions by one call, stored trees, what a key may.

`moonpool.bootstrap` fills this seam. Whatever an administrator changes (configurations, tools that are switched off)
counts from the next request on, so a caller's setup is asked for with each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.sandbox_runs.base import RunOwner, SandboxRuns
    from moonpool.features.storage.base import OrganisationTrees
    from moonpool.pipeline.caller_grant import CallerGrant


class ProfileUnavailableError(MoonpoolError):
    """This process has no stored trees and no executions by one call, which the profile needs. Nothing was opened."""

    code = "profile_unavailable"
    fault = Fault.CALLER


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSetup:
    """What one caller has at the moment."""

    owner: RunOwner
    executes: bool = True  # code execution is enabled for its organisation
    tools_off: frozenset[str] = frozenset()  # names of tools that its organisation switched off
    workspace: str | None = None
    """The thread that the workspace tools use, if its key names one; see `codegen.workspace.thread_of`."""


class SandboxServices(Protocol):
    """Those of one tenant."""

    @property
    def runs(self) -> SandboxRuns: ...
    @property
    def trees(self) -> OrganisationTrees: ...
    async def setup(self, grant: CallerGrant, /) -> CallerSetup:
        """That of the caller with this grant, as it is now. Raises DatabaseError."""
        ...


class SandboxApp(Protocol):
    """What these profiles need of the application (`moonpool.bootstrap.Tenant`)."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def caller_grant(self) -> CallerGrant: ...
    @property
    def sandbox_services(self) -> SandboxServices | None: ...


def services_of(app: SandboxApp, profile: str) -> SandboxServices:
    """Raises ProfileUnavailableError."""
    if (services := app.sandbox_services) is None:
        raise ProfileUnavailableError(f"the profile {profile} needs `moonpool serve` and is not offered here")
    return services
