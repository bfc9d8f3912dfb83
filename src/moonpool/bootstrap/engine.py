"""What a process shares between its tenants: sandboxes, their pool, environments, runtimes, search models.

`open_engine` builds it and always closes it in reverse order. On a machine that cannot isolate code it fails before
anything is started (fail closed). Tenants are opened on it at run time (`bootstrap.tenant`).
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from moonpool.bootstrap.folders import data_folder, sandbox_uid
from moonpool.bootstrap.kept_files import make_disk_room
from moonpool.bootstrap.owner_tasks import OwnerTasks
from moonpool.bootstrap.programs import find_runtimes, make_languages
from moonpool.bootstrap.sandboxes import limit_groups, make_backend, pool_limits, sandbox_spec
from moonpool.bootstrap.tracing import open_tracing
from moonpool.core.errors import HostUnfitError
from moonpool.engine.network import NetworkServices
from moonpool.engine.packages.model import SessionPackages
from moonpool.engine.run_folder import run_folder
from moonpool.environments.resolve import resolve_environment
from moonpool.pipeline.approval import ApprovalBounds
from moonpool.sandboxes.container_sockets import refuse_shown
from moonpool.sandboxes.pool import SandboxPool
from moonpool.sandboxes.shielding import end_within
from moonpool.tools.snapshot import show

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.bootstrap.models import VectorMaker
    from moonpool.engine.languages import Languages
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.environments.base import ProgressSink
    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec, TreeRef
    from moonpool.settings import Settings
    from moonpool.store.disk_room import DiskRoom
    from moonpool.tracing.spans import Tracing


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What all tenants of a process use. Of a tenant it holds only the tools that its sandboxes show."""

    settings: Settings
    environ: Mapping[str, str]
    data: Path  # with environments and what tenants share
    state: Path  # below it the folders of tenants
    backend: SandboxBackend
    pool: SandboxPool
    sandbox_spec: SandboxSpec  # without a tenant, see `spec_for`
    languages: Languages
    vectors: VectorMaker | None
    serving: bool
    approval_bounds: ApprovalBounds
    network_services: NetworkServices
    packages_in_use: WeakSet[SessionPackages] = field(default_factory=WeakSet[SessionPackages])
    disk_room: DiskRoom  # of what all tenants keep
    tracing: Tracing | None
    tool_registries: dict[str, ToolRegistry] = field(
        default_factory=dict[str, "ToolRegistry"]
    )  # by tenant, of those that are open
    tenants: OwnerTasks[Any] = field(default_factory=OwnerTasks[Any])  # that open, are open or close, by id

    def spec_for(self, tenant_id: str) -> SandboxSpec:
        """The sandbox spec of one tenant.

        SECURITY: the scope keeps tenants apart: no uid, zygote, slot or ready sandbox is shared between scopes.
        """
        return replace(self.sandbox_spec, scope=tenant_id)

    async def close_tenant(self, tenant_id: str) -> None:
        """Close the tenant of this id from any task, and wait until it is closed; nothing if none is open.

        One that still opens is given up: who opens it gets InputError. A session ends as `Runtime.close` says.
        """
        await self.tenants.close(tenant_id)

    async def prove(self) -> None:
        """Open one sandbox before reporting "ready". Raises HostUnfitError, SandboxStartError.

        SECURITY: feature flags of a machine can be wrong; only opening a sandbox proves that code can be isolated here.
        """
        sandbox = await self.backend.open_sandbox(self.sandbox_spec)
        await sandbox.close()


@asynccontextmanager
async def open_engine(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    serving: bool = False,
    progress: ProgressSink | None = None,
    backend: SandboxBackend | None = None,
    state: Path | None = None,
) -> AsyncGenerator[Engine]:
    """Build the engine. Raises HostUnfitError, ConfigError and start errors of the packages below.

    On the way out tenants that are still open are closed first.
    `serving` keeps a pool of ready sandboxes; a single command does not. `progress` hears of environments being built.
    A `backend` is one that several engines share; its owner closes it. `state` is the folder of what tenants own, if it
    is not the data folder.
    """
    data = data_folder(settings, environ)
    state = state or data
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(settings, environ))
        if backend is None:
            folder = stack.enter_context(run_folder(data / "run"))
            backend = make_backend(settings, folder, await limit_groups(stack, settings), data)
            stack.push_async_callback(_close_backend, backend)
        if missing := backend.missing_features():
            raise HostUnfitError(tuple(missing))
        environment = await resolve_environment(
            settings.environment, root=data / "environments", uid=sandbox_uid(), progress=progress
        )
        found = await find_runtimes(data, environ)
        spec = sandbox_spec(settings, environment, data, found)
        await asyncio.to_thread(refuse_shown, spec.image, environ)
        languages = await make_languages(found, data, environ)
        stack.push_async_callback(languages.close)
        tool_registries: dict[str, ToolRegistry] = {}
        pool = SandboxPool(
            backend,
            pool_limits(settings, serving=serving),
            current_tree=lambda scope: _current_tree(tool_registries.get(scope)),
            on_opened=lambda sandbox, scope: _show_tools(sandbox, tool_registries.get(scope)),
        )
        stack.push_async_callback(pool.close)
        disk_room = make_disk_room(settings, state, environ)
        stack.push_async_callback(disk_room.close)
        tenants = OwnerTasks[Any]()
        stack.push_async_callback(tenants.close_all)
        yield Engine(
            settings=settings,
            environ=environ,
            data=data,
            state=state,
            backend=backend,
            pool=pool,
            sandbox_spec=spec,
            languages=languages,
            vectors=_vectors(settings, data),
            serving=serving,
            disk_room=disk_room,
            tracing=tracing,
            network_services=NetworkServices.of(settings),
            approval_bounds=ApprovalBounds(waiting_runs_max=settings.parked_runs_max),
            tool_registries=tool_registries,
            tenants=tenants,
        )


async def _close_backend(backend: SandboxBackend) -> None:
    await end_within("the sandboxes", backend.close())


def _current_tree(tool_registry: ToolRegistry | None) -> TreeRef | None:
    return None if tool_registry is None or tool_registry.current is None else tool_registry.current.tree_ref


async def _show_tools(sandbox: Sandbox, tool_registry: ToolRegistry | None) -> None:
    """Publish the wrappers before the sandbox is requested."""
    if tool_registry is not None and (snapshot := tool_registry.current) is not None:
        await show(sandbox, snapshot)


def _vectors(settings: Settings, data: Path) -> VectorMaker | None:
    if settings.dense == "none":
        return None
    from moonpool.bootstrap.models import vector_maker  # noqa: PLC0415  imports `embeddings`; most search by words

    return vector_maker(settings, data)
