"""Serves the profile on stdio: the tenant, the approvers, the servers that were registered before."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moonpool.bootstrap import open_default_tenant
from moonpool.bootstrap.stores import open_default_queue
from moonpool.configuration.servers import McpConfig
from moonpool.ipybox.kernel_code import secrets_of
from moonpool.ipybox.mcp_server.registration import Registration, registered_before
from moonpool.ipybox.mcp_server.tools import IpyboxTools
from moonpool.ipybox.sandbox_config import SandboxRules, read_rules, write_default
from moonpool.pipeline.approval import AutoApprover, DenyApprover, LiveApprovals
from moonpool.server.mcp.approver import ElicitingApprover
from moonpool.server.mcp.stdio import serve_tools
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from moonpool.bootstrap import Tenant
    from moonpool.environments.progress import ProgressSink
    from moonpool.ipybox.mcp_server.workspace import Workspace
    from moonpool.network.rules import NetworkRules
    from moonpool.pipeline.approval import Approver
    from moonpool.server.mcp.stdio import StdioWire

_log = logging.getLogger("moonpool.ipybox")
_DAY_S: Final = 86_400.0
_DEFAULTS: Final[dict[str, Any]] = {
    "environment": "data",  # it has IPython
    "packages": "any",
    "timeout_s_max": _DAY_S,
    "cpu_s_max": 7 * int(_DAY_S),
    "stdout_bytes_max": 8 * 1024**2,
}
"""As ipybox has it, which has no limits. What the operator sets (`MOONPOOL_...`) counts."""


def profile_settings(environ: Mapping[str, str], overrides: Mapping[str, Path | str | None]) -> Settings:
    """The settings of this profile. Raises ConfigError."""
    given = {name: value for name, value in overrides.items() if value is not None}
    unset = {name: value for name, value in _DEFAULTS.items() if f"MOONPOOL_{name.upper()}" not in environ}
    return Settings.load(environ, **{**unset, **given})


def rules_in_force(sandbox_config: Path | None) -> SandboxRules:
    """What a settings file of sandbox-runtime says. One that is missing is made, and a warning says so.

    SECURITY: else code could make it, and be granted what it says at the next start. Raises ConfigError.
    """
    if sandbox_config is None:
        return SandboxRules()
    if write_default(sandbox_config):
        _log.warning("%s was not there and was made, with the default rules: no network", sandbox_config)
    return read_rules(sandbox_config)


async def serve_profile(  # noqa: PLR0913  what the command line gives
    wire: StdioWire,
    settings: Settings,
    config: McpConfig | None,
    workspace: Workspace,
    *,
    approve: str,
    fixed: tuple[Path, ...],
    network: NetworkRules | None,
    data: Path,
    report: Callable[[str], None],
    progress: ProgressSink,
) -> None:
    """Serve one client until it disconnects. Raises MoonpoolError before anything was written.

    `approve`: who answers calls that policy asks about; whether a server may be registered is asked all the same, but
    for `deny`. No code may change the files `fixed`.
    """
    environ = dict(os.environ)
    folders = await asyncio.to_thread(workspace.folders, settings, environ, fixed)
    before = await asyncio.to_thread(registered_before, workspace.packages, environ, workspace.variables)
    if secrets := secrets_of(workspace.kernel_variables):
        config = replace(config or McpConfig(source="the profile"), other_secrets=secrets)
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(open_default_queue(settings, data, report, environ))
        eliciting, denying = ElicitingApprover(queue), DenyApprover(report, why="--approve deny was given")
        of_calls: dict[str, Approver] = {"ask": eliciting, "queue": queue, "auto": AutoApprover(), "deny": denying}
        of_servers: dict[str, Approver] = {**of_calls, "auto": eliciting}
        app = await stack.enter_async_context(
            open_default_tenant(
                settings,
                config=config,
                approver=of_calls[approve],
                environ=environ,
                serving=True,
                progress=progress,
                network=network,
                folders=folders,
            )
        )
        await app.prove()
        await app.added_servers.expect(before)
        registration = registration_in(workspace, app, of_servers[approve])
        await serve_tools(IpyboxTools(app, eliciting.bindings, workspace, registration), wire)


def registration_in(workspace: Workspace, app: Tenant, registrar: Approver) -> Registration:
    """Registers servers of a workspace; `registrar` answers whether one may be."""
    approvals = LiveApprovals(registrar, expiry_s=app.settings.approval_expiry_s, tenant_id=app.tenant_id)
    return Registration(
        root=workspace.packages,
        variables=workspace.variables,
        runtime=app.runtime,
        servers=app.added_servers,
        approvals=approvals,
        principal=app.caller_grant.principal,
    )
