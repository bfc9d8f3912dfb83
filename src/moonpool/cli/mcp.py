"""`moonpool mcp`: the stdio MCP server. Only MCP goes to stdout."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from moonpool.bootstrap import host_folders, open_default_tenant, sandbox_uid
from moonpool.bootstrap.stores import open_default_queue
from moonpool.cli.approvers import Approve
from moonpool.cli.commands import allow_network_option, command, config_option
from moonpool.cli.config_choice import allowed_network, data_folder, read_config
from moonpool.cli.log_lines import log_from
from moonpool.cli.metrics_service import bound_listener, metrics_served
from moonpool.cli.printer import remark
from moonpool.core.phrases import on_one_line
from moonpool.engine.missing_tools import telling_missing_tools
from moonpool.environments.progress import stderr_progress
from moonpool.environments.resolve import is_built
from moonpool.pipeline.approval import AutoApprover, DenyApprover
from moonpool.server.http.figures import metrics_of_runtime
from moonpool.server.mcp.approver import ElicitingApprover
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.stdio import FLUSH_S, claim_stdio, serve, serve_tools, stopping_on_signals
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from moonpool.network.rules import NetworkRules
    from moonpool.pipeline.approval import Approver


@command
@config_option
@click.option(
    "--policy", type=Path, metavar="FILE", help="Rules for tool calls (TOML). Default: MOONPOOL_POLICY, else none."
)
@click.option("--env", metavar="NAME", help="Environment: base or data. Default: data once it was built.")
@click.option(
    "--approve",
    type=click.Choice([str(one) for one in Approve]),
    default="ask",
    show_default=True,
    help="When policy says ask: the client's user, yes, no, or the queue.",
)
@click.option(
    "--catalog",
    metavar="tools|code",
    help="How the client finds tools: with search tools, or in code (execute_code alone).",
)
@click.option(
    "--metrics-listen",
    metavar="ADDRESS:PORT",
    help="Serve /metrics there, on loopback; port 0: a free one. Default: the setting.",
)
@click.option("--backend", metavar="NAME", help="Sandbox: zygote or bubblewrap.")
@allow_network_option
@click.option(
    "--profile",
    type=click.Choice(["direct", "ipybox"]),
    help="direct: the servers' own tools, without code. ipybox: its four tools, with an IPython kernel; the last two "
    "options are for it.",
)
@click.option(
    "--workspace",
    type=Path,
    metavar="DIR",
    help="Let code work in this folder, at its own path and as /workspace. Default of the profile: here.",
)
@click.option("--sandbox", is_flag=True, help="Taken for ipybox's sake: code always runs in a sandbox.")
@click.option("--sandbox-config", type=Path, metavar="FILE", help="The sandbox's rules, as ipybox reads them.")
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]), hidden=True)
@click.option("--tool-server-host", "_1", hidden=True, expose_value=False)
@click.option("--tool-server-port", "_2", type=int, hidden=True, expose_value=False)
@click.option("--kernel-gateway-host", "_3", hidden=True, expose_value=False)
@click.option("--kernel-gateway-port", "_4", type=int, hidden=True, expose_value=False)
def mcp(  # noqa: PLR0913  its options
    *,
    config: Path | None,
    policy: Path | None,
    env: str | None,
    approve: str,
    catalog: str | None,
    metrics_listen: str | None,
    backend: str | None,
    allow_network: tuple[str, ...],
    profile: str | None,
    workspace: Path | None,
    sandbox: bool,
    sandbox_config: Path | None,
    log_level: str | None,
) -> None:
    """Serve MCP on standard input and output: four tools (or one) in front of all configured servers."""
    if where := Settings.load(os.environ).service_url:
        given = {name for name, one in locals().items() if name in _OF_ITS_OWN and one}
        if given or approve != Approve.ASK:
            raise click.UsageError(
                "with MOONPOOL_SERVICE_URL servers, rules and sandboxes are the service's: only --profile goes with it"
            )
        asyncio.run(forward_stdio(where, profile))
        return
    if profile == "ipybox":
        if catalog is not None or metrics_listen is not None:
            raise click.UsageError("--catalog and --metrics-listen do not go with --profile")
        overrides = {"policy": policy, "environment": env, "backend": backend}
        if log_level is not None:
            log_from(log_level)
        serve_ipybox(config, Approve(approve), workspace or Path(), sandbox_config, allow_network, overrides)
        return
    if sandbox or sandbox_config is not None:
        raise click.UsageError("--sandbox and --sandbox-config need --profile ipybox")
    direct = profile == "direct"
    if direct and (catalog is not None or workspace is not None or allow_network):
        raise click.UsageError("--catalog, --workspace and --allow-network are for code; --profile direct runs none")
    asyncio.run(
        serve_stdio(
            config,
            Approve(approve),
            allowed_network(allow_network),
            workspace,
            direct=direct,
            policy=policy,
            environment=env,
            backend=backend,
            catalog=catalog,
            metrics_listen=metrics_listen,
        )
    )


_OF_ITS_OWN: Final = frozenset(
    {"config", "policy", "env", "catalog", "metrics_listen", "backend", "allow_network", "workspace", "sandbox_config"}
)
"""Options of a server that is not the service's."""


async def forward_stdio(where: str, profile: str | None) -> None:
    """Serve one client with what a service offers, until it disconnects. Raises MoonpoolError."""
    wire = claim_stdio()
    from moonpool.cli.mcp_forward import Forwarder, http_client
    from moonpool.cli.service_start import local_service
    from moonpool.sdk.remote.address import ServiceAddress, checked_url
    from moonpool.sdk.remote.connection import transport_to
    from moonpool.server.mcp.lines import LineReader, LineWriter

    settings = Settings.load(os.environ)
    async with AsyncExitStack() as stack:
        revive = None
        if where == "local":
            service = await stack.enter_async_context(local_service(settings))
            address, revive = service.address, partial(service.start, (), _report)
            await revive()
        else:
            address = ServiceAddress(checked_url(where, allow_http=False), settings.service_key)
        transport = transport_to(address, connections_max=1024)
        http = await stack.enter_async_context(http_client(address.url, address.key, transport))
        deaf, stop = asyncio.Event(), asyncio.Event()
        reader, writer = LineReader(wire.read_fd), LineWriter(wire.write_fd, on_broken=deaf.set)
        path = "/mcp" if profile is None else f"/mcp/{profile}"
        async with stopping_on_signals(stop):
            forwarding = asyncio.ensure_future(Forwarder(http, path, writer, revive).forward(reader))
            ends = [asyncio.ensure_future(deaf.wait()), asyncio.ensure_future(stop.wait())]
            await asyncio.wait([forwarding, *ends], return_when=asyncio.FIRST_COMPLETED)
            for task in (forwarding, *ends):
                task.cancel()
            await asyncio.wait([forwarding, *ends])
            await writer.close(FLUSH_S)
        if not forwarding.cancelled():
            forwarding.result()


async def serve_stdio(
    config_path: Path | None,
    choice: Approve,
    network: NetworkRules | None = None,
    workspace: Path | None = None,
    *,
    direct: bool = False,
    **overrides: Path | str | None,
) -> None:
    """Serve one client until it disconnects. Raises MoonpoolError before anything was written."""
    wire = claim_stdio()  # first, so that no upstream and no sandbox ever holds the client's descriptors
    settings = await settings_of_service(overrides)
    folders = None
    if workspace is not None:
        folders = await asyncio.to_thread(host_folders, settings, os.environ, [workspace])
    config = read_config(config_path)
    with ExitStack() as bound:
        listener = None
        if where := settings.metrics_listen:
            listener = bound.enter_context(bound_listener(where, what="metrics_listen"))
        progress = bound.enter_context(stderr_progress())
        async with (
            _answering(choice, settings) as approver,
            open_default_tenant(
                settings,
                config=config,
                approver=approver,
                environ=os.environ,
                serving=True,
                progress=progress,
                network=network,
                folders=folders,
            ) as app,
        ):
            await app.prove()
            async with AsyncExitStack() as stack:
                if listener is not None:
                    live = metrics_of_runtime(app.runtime, app.journal_place.reader())
                    await stack.enter_async_context(metrics_served(listener, live, _report))
                await stack.enter_async_context(telling_missing_tools(app.tool_registry, _report))
                bindings = approver.bindings if isinstance(approver, ElicitingApprover) else None
                if direct:
                    from moonpool.server.mcp.direct.tools import DirectTools  # with all of the SDK's server

                    await serve_tools(DirectTools(app, bindings or Bindings()), wire)
                else:
                    await serve(app, wire=wire, bindings=bindings)


def serve_ipybox(
    config_path: Path | None,
    choice: Approve,
    folder: Path,
    sandbox_config: Path | None,
    allow_network: tuple[str, ...],
    overrides: Mapping[str, Path | str | None],
) -> None:
    """Serve ipybox's tools to one client until it disconnects. Raises MoonpoolError before anything was written."""
    wire = claim_stdio()  # first, so that no upstream and no sandbox ever holds the client's descriptors
    from moonpool.ipybox.mcp_server.serving import profile_settings, rules_in_force, serve_profile
    from moonpool.ipybox.mcp_server.workspace import enter_workspace

    given = config_path and config_path.absolute()  # as its caller means it, from outside of the workspace
    sandbox_config = sandbox_config and sandbox_config.absolute()
    overrides = {name: one.absolute() if isinstance(one, Path) else one for name, one in overrides.items()}
    workspace = enter_workspace(folder, os.environ)
    rules = rules_in_force(sandbox_config)
    network = allowed_network((*allow_network, *rules.domains([workspace.root], (), os.environ)))
    settings, config = profile_settings(os.environ, overrides), read_config(given)
    with stderr_progress() as progress:
        asyncio.run(
            serve_profile(
                wire,
                settings,
                config,
                workspace,
                approve=choice,
                fixed=rules.fixed,
                network=network,
                data=data_folder(settings),
                report=_report,
                progress=progress,
            )
        )


async def settings_of_service(overrides: Mapping[str, Path | str | None]) -> Settings:
    """Settings with the environment `data` if it is built and none was chosen: models often use pandas."""
    settings = Settings.load(os.environ, **overrides)
    chosen = overrides.get("environment") is not None or "MOONPOOL_ENVIRONMENT" in os.environ
    if chosen or not await is_built("data", root=data_folder(settings) / "environments", uid=sandbox_uid()):
        return settings
    return replace(settings, environment="data")


@asynccontextmanager
async def _answering(choice: Approve, settings: Settings) -> AsyncGenerator[Approver]:
    """The approver: the client's user, or the queue if the client cannot ask its user."""
    if choice in {Approve.ASK, Approve.QUEUE}:
        async with open_default_queue(settings, data_folder(settings), _report, os.environ) as queue:
            yield ElicitingApprover(queue) if choice is Approve.ASK else queue
    elif choice is Approve.AUTO:
        yield AutoApprover()
    else:
        yield DenyApprover(_report, why="--approve deny was given")


def _report(text: str) -> None:
    remark(f"{on_one_line(text)}")
