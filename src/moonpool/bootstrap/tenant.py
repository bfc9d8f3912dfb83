"""A tenant owns servers, credentials, policy, catalog, approvals, plans, library, budgets and journal.

Opened and closed at run time on an `Engine`, hundreds in one process. The default tenant, the only one of the command
line, uses the data folder itself; every other tenant has a folder below it. Nothing that one tenant owns is reachable
through another's `Tenant`; they share only the engine.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never

from moonpool.bootstrap.added_servers import AddedServers
from moonpool.bootstrap.caller_grants import CallerGrants, local_principal, server_trust
from moonpool.bootstrap.engine import open_engine
from moonpool.bootstrap.library import settle_library
from moonpool.bootstrap.recordings import open_recorder
from moonpool.bootstrap.stores import open_stores
from moonpool.bootstrap.token_counts import make_token_accounting
from moonpool.bootstrap.tools import DriftRecords, make_learned_types, make_redactor, open_tool_registry
from moonpool.configuration.policies import policy_in_force
from moonpool.engine.artifacts import ArtifactLimits, Artifacts
from moonpool.engine.executions import Bounds, Executions
from moonpool.engine.kept_executions import ExecutionFiles, ExecutionMarks
from moonpool.engine.network import check_bound
from moonpool.engine.outcomes import OutcomeStore
from moonpool.engine.runtime import Runtime
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.service import Approvals
from moonpool.features.organisations.model import check_id
from moonpool.features.plans.service import Plans
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.pipeline.server_requests import ServerRequests
from moonpool.redaction.known_values import GrowingValues
from moonpool.sandboxes.shielding import finish
from moonpool.store.journal_records import JournalRecords
from moonpool.store.journals import open_journal_place
from moonpool.store.paths import (
    DEFAULT_TENANT,
    artifacts_dir,
    execution_marks_dir,
    outcomes_dir,
    tenant_dir,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
    from pathlib import Path

    from moonpool.bootstrap.engine import Engine
    from moonpool.bootstrap.models import VectorMaker
    from moonpool.bootstrap.owner_tasks import OwnerTask
    from moonpool.bootstrap.stores import Stores
    from moonpool.configuration.servers import McpConfig
    from moonpool.core.audit import JournalPlace
    from moonpool.engine.kept_executions import KeptExecutions
    from moonpool.engine.packages.installer import PackageInstaller
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.environments.base import ProgressSink
    from moonpool.features.consents.model import Consents
    from moonpool.features.learned_types.service import LearnedTypes
    from moonpool.network.rules import NetworkRules
    from moonpool.pipeline.approval import Approver
    from moonpool.pipeline.caller_grant import CallerGrant
    from moonpool.policy import Policy
    from moonpool.sandboxes.base import SandboxBackend
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.server.mcp.sandbox_services import SandboxServices
    from moonpool.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """An open tenant, as used by servers and commands."""

    tenant_id: str
    engine: Engine
    settings: Settings
    runtime: Runtime
    tool_registry: ToolRegistry
    learned_types: LearnedTypes
    caller_grants: CallerGrants
    caller_grant: CallerGrant  # of the user who started this process
    data: Path
    policy: Policy
    executions: Executions
    approvals: Approvals
    added_servers: AddedServers
    journal_place: JournalPlace
    sandbox_services: SandboxServices | None = None  # what a service adds

    @property
    def vectors(self) -> VectorMaker | None:
        """The embedding model, if search uses one."""
        return self.engine.vectors

    async def prove(self) -> None:
        await self.engine.prove()


@asynccontextmanager
async def open_tenant(  # noqa: PLR0913  what a tenant has of its own
    engine: Engine,
    tenant_id: str,
    *,
    config: McpConfig | None,
    approver: Approver,
    settings: Settings | None = None,
    policy: Policy | None = None,
    eagerly: bool = False,
    data: Path | None = None,
    journal_place: JournalPlace | None = None,
    kept: KeptExecutions | None = None,
    consents: Consents | None = None,
    stores: Stores | None = None,
) -> AsyncGenerator[Tenant]:
    """Open a tenant; on exit its sessions end, its sandboxes are gone and its records are committed.

    Any task may leave it; `Engine.close_tenant` closes it earlier. `settings` are its own limits and rules where they
    differ from the engine's; `policy` is one that was read already. `data` is its folder, if not the one that its id
    has; several tenants of one owner may share a folder. `journal_place` is where its journal lies, if not in a file
    there; `kept` has its executions that outlive requests, likewise. `eagerly` opens it now, so that a fault is heard
    at once; else the first record opens it. `consents` are those of users to OAuth clients. `stores` is where it keeps
    approvals and the like, if that is open already.
    Raises InputError for an id that cannot be one or is open already, ConfigError, JournalError, DatabaseError.
    """
    check_id(tenant_id, what="a tenant")
    # SECURITY: the id is taken before anything is awaited and until all is closed: two that share a scope would close
    # each other's sandboxes.
    folder = data or tenant_dir(engine.state, tenant_id)
    settings = settings or engine.settings
    resource = _tenant(
        engine, tenant_id, folder, config, approver, settings, policy,
        owner=tenant_id if data is None else DEFAULT_TENANT,
        consents=consents, eagerly=eagerly, journal_place=journal_place, kept=kept, stores=stores,
    )  # fmt: skip
    task: OwnerTask[Tenant] = engine.tenants.start(tenant_id, resource, f"tenant {tenant_id!r}")
    tenant = await task.opened()
    try:
        yield tenant
    finally:
        await task.close()


@asynccontextmanager
async def _tenant(  # noqa: PLR0913  parts of the composition
    engine: Engine,
    tenant_id: str,
    data: Path,
    config: McpConfig | None,
    approver: Approver,
    settings: Settings,
    policy: Policy | None,
    *,
    owner: str,
    consents: Consents | None,
    eagerly: bool,
    journal_place: JournalPlace | None,
    kept: KeptExecutions | None,
    stores: Stores | None,
) -> AsyncGenerator[Tenant]:
    """See `open_tenant`. Entered and left by one task. `owner` has the folder, and the journal."""
    environ = engine.environ
    async with AsyncExitStack() as stack:
        if policy is None:
            policy = await asyncio.to_thread(policy_in_force, settings, config)
        if journal_place is None:
            journal_place = await stack.enter_async_context(open_journal_place(settings, data, owner))
        journal = await stack.enter_async_context(journal_place.open(lazily=not eagerly))
        _closing(stack, journal.close)
        stores = stores or await stack.enter_async_context(open_stores(settings, engine.state, environ))
        own_stores = stores.of(owner, data)
        await settle_library(journal, journal_place.reader(), own_stores.library())
        approvals = own_stores.approvals()
        if (budgets := own_stores.budgets()) is not None:
            _closing(stack, budgets.close)
        stack.push_async_callback(asyncio.to_thread, approvals.close)
        records = JournalRecords(asyncio.get_running_loop(), journal.record)
        answers = Approvals(approvals, records)
        if not approvals.is_unused():
            await asyncio.to_thread(answers.deliver_left)
        if isinstance(approver, EventApprover):
            stack.enter_context(approver.serving(answers))
        tokens = GrowingValues()
        redactor = make_redactor(settings, config, tokens)
        recorder = open_recorder(stack, settings, data, redactor, environ, engine.disk_room)
        drift = DriftRecords(settings, data, redactor, journal)
        tools = await open_tool_registry(
            stack,
            settings,
            config,
            environ,
            drift,
            own_stores,
            handlers=ServerRequests(redactor, journal, expiry_s=settings.approval_expiry_s).handlers_for,
            on_secrets=tokens.set_values,
        )
        tool_registry, trust = tools.registry, server_trust(config, redactor)
        learned_types = make_learned_types(settings, config, data, redactor)
        added_servers = AddedServers(tools, trust, redactor, learned_types)
        _closing(stack, added_servers.close)
        if engine.serving and settings.refresh_s:
            stack.push_async_callback(_stop, asyncio.create_task(tool_registry.refresh_every(settings.refresh_s)))
        _closing(stack, learned_types.close)
        _closing(stack, lambda: engine.pool.close_scope(tenant_id))
        accounting = make_token_accounting(settings, data)
        _closing(stack, accounting.close)
        runtime = Runtime(
            settings=settings,
            pool=engine.pool,
            tool_registry=tool_registry,
            pipeline=CallPipeline(tool_registry, journal=journal, redactor=redactor, observer=learned_types),
            journal=journal,
            redactor=redactor,
            artifacts=Artifacts(artifacts_dir(data), ArtifactLimits.of(settings), engine.disk_room),
            sandbox_spec=engine.spec_for(tenant_id),
            tokens=accounting,
            languages=engine.languages,
            network_services=engine.network_services,
            packages=package_installer(engine, settings, data, tenant_id),
            process=journal_place.process,
            tracing=engine.tracing,
            recorder=recorder,
            plans=Plans(own_stores.plans(engine.disk_room.take), records, expiry_s=settings.plan_expiry_s),
        )
        _closing(stack, runtime.close)
        if kept is None:
            kept = ExecutionFiles(ExecutionMarks(execution_marks_dir(data)), OutcomeStore(outcomes_dir(data)))
        executions = Executions(Bounds.of(settings), kept)
        _closing(stack, executions.close)
        engine.tool_registries[tenant_id] = tool_registry
        stack.callback(engine.tool_registries.pop, tenant_id)
        grants = CallerGrants(
            settings,
            trust,
            policy,
            approver,
            approvals,
            tool_registry,
            tenant_id=tenant_id,
            bounds=engine.approval_bounds,
            consents=consents,
            budgets=budgets,
        )
        yield Tenant(
            tenant_id=tenant_id,
            engine=engine,
            settings=settings,
            runtime=runtime,
            tool_registry=tool_registry,
            learned_types=learned_types,
            caller_grants=grants,
            caller_grant=grants.grant(local_principal()),
            data=data,
            policy=policy,
            executions=executions,
            approvals=answers,
            added_servers=added_servers,
            journal_place=journal_place,
        )


@asynccontextmanager
async def open_default_tenant(  # noqa: PLR0913  what a command chooses
    settings: Settings,
    *,
    config: McpConfig | None,
    approver: Approver,
    environ: Mapping[str, str],
    serving: bool = False,
    progress: ProgressSink | None = None,
    backend: SandboxBackend | None = None,
    network: NetworkRules | None = None,
    folders: HostFolders | None = None,
) -> AsyncGenerator[Tenant]:
    """An engine with the one tenant of the command line, whose sessions have `network` and `folders` of the host.

    Raises the errors of `open_engine` and `open_tenant`, NetworkRuleError.
    """
    if network is not None:
        check_bound(network, settings)
    policy = await asyncio.to_thread(policy_in_force, settings, config)  # first: nothing may start without a policy
    async with (
        open_engine(settings, environ=environ, serving=serving, progress=progress, backend=backend) as engine,
        open_tenant(engine, DEFAULT_TENANT, config=config, approver=approver, policy=policy, eagerly=True) as tenant,
    ):
        tenant.runtime.network, tenant.runtime.folders = network, folders
        yield tenant


def _closing(stack: AsyncExitStack, close: Callable[[], Coroutine[object, object, object]]) -> None:
    """Close it with the stack. INVARIANT: whoever cancels that waits: the journal is closed when all is on record."""
    stack.push_async_callback(lambda: finish(close()))


def package_installer(
    engine: Engine, settings: Settings, data: Path, tenant_id: str
) -> Callable[[], Awaitable[PackageInstaller]] | None:
    """Makes what installs packages once it is wanted: that asks pip for its settings. None: nobody may install."""
    if not settings.may_install:
        return None
    making: list[asyncio.Future[PackageInstaller]] = []

    async def installer() -> PackageInstaller:
        from moonpool.bootstrap.packages import make_installer  # noqa: PLC0415  most processes install nothing

        if not making or (making[0].done() and making[0].exception() is not None):
            making[:] = [asyncio.ensure_future(asyncio.to_thread(make_installer, engine, settings, data, tenant_id))]
        return await asyncio.shield(making[0])

    return installer


async def _stop(task: asyncio.Task[Never]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
