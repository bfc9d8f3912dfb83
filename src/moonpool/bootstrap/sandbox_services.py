"""Executions by one call and stored trees for the profiles of MCP, for one caller (`server.mcp.sandbox_services`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moonpool.server.mcp.sandbox_services import CallerSetup

if TYPE_CHECKING:
    from moonpool.bootstrap.sandbox_runs import ServiceRuns
    from moonpool.engine.sandbox_runs.base import SandboxRuns
    from moonpool.features.storage.base import OrganisationTrees
    from moonpool.features.tool_switches.model import ToolSwitches
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.server.http.callers import HttpCaller


@dataclass(frozen=True, slots=True)
class CallerServices:
    """A `SandboxServices`."""

    service: ServiceRuns
    switches: ToolSwitches
    caller: HttpCaller

    @property
    def runs(self) -> SandboxRuns:
        return self.service.runs(self.caller.organisation)

    @property
    def trees(self) -> OrganisationTrees:
        return self.service.trees.of(self.caller.organisation)

    async def setup(self, grant: CallerGrant, /) -> CallerSetup:
        """See `SandboxServices`."""
        caller = self.caller
        _, owner = await self.service.of(caller)
        return CallerSetup(
            owner=replace(owner, grant=grant),
            tools_off=await self.switches.disabled_tools(caller.organisation),
            workspace=caller.workspace_thread,
        )
