"""Composition root: from settings and a server configuration to a running application. Nothing else names adapters.

`assemble` builds every long-lived object in dependency order and closes them in reverse on every way out. A machine
that cannot isolate code gets an error before anything is started (fail closed).
"""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
from collections import ChainMap
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.broker.approval import ApprovalDesk, ApprovalRequest
from moonpool.broker.context import CallContext, CallLimits, ServerTrust
from moonpool.broker.redaction import Redactor
from moonpool.broker.road import ToolRoad
from moonpool.core.errors import HostUnfitError
from moonpool.core.policy import Policy, server_rules
from moonpool.environments import node_tools
from moonpool.environments.guest import publish_guest
from moonpool.environments.resolve import resolve_environment
from moonpool.environments.runtimes import Absence, find_bash, find_node
from moonpool.environments.runtimes import Runtime as RuntimeProgram
from moonpool.runtime.engine_sockets import refuse_shown
from moonpool.runtime.languages import Languages
from moonpool.runtime.run_folder import run_folder
from moonpool.runtime.runs import Ticket
from moonpool.runtime.sessions import Runtime
from moonpool.runtime.tools import Toolbox, ToolSnapshot, show
from moonpool.sandboxes.base import ImageSpec, SandboxLimits, SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.cgroups import LimitGroups, open_groups
from moonpool.sandboxes.identity import UID_FIRST
from moonpool.sandboxes.pool import SandboxPool
from moonpool.sandboxes.pool_limits import PoolLimits
from moonpool.sandboxes.zygote import ZygoteBackend
from moonpool.sandboxes.zygote_family import ZygotePolicy
from moonpool.store.journal import open_journal
from moonpool.store.manifests import CachedListing, ManifestCache
from moonpool.store.paths import data_dir, journal_path, manifest_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from moonpool.broker.approval import ApprovalAnswer, Approver
    from moonpool.broker.config import McpConfig
    from moonpool.broker.upstreams.base import Upstream
    from moonpool.core.manifest import ServerListing
    from moonpool.environments.base import Environment, ProgressSink
    from moonpool.runtime.deadline import Deadline
    from moonpool.sandboxes.base import Sandbox, SandboxBackend
    from moonpool.settings import Settings

BACKENDS: dict[str, Callable[[Path, LimitGroups], SandboxBackend]] = {
    "zygote": ZygoteBackend,
    "bubblewrap": BubblewrapBackend,
}


@dataclass(frozen=True, kw_only=True)
class App:
    """What faces and commands use."""

    settings: Settings
    runtime: Runtime
    toolbox: Toolbox
    backend: SandboxBackend
    ticket: Ticket
    data: Path

    async def prove(self) -> None:
        """Open one sandbox, before anybody hears "ready". Raises HostUnfitError, SandboxStartError.

        SECURITY: flags of the machine lie; only an opening shows that code can be isolated here.
        """
        sandbox = await self.backend.open_sandbox(self.runtime.sandbox_spec)
        await sandbox.close()


@asynccontextmanager
async def assemble(
    settings: Settings,
    *,
    config: McpConfig | None,
    approver: Approver,
    environ: Mapping[str, str],
    serving: bool = False,
    progress: ProgressSink | None = None,
    upstreams_wanted: bool = True,
) -> AsyncGenerator[App]:
    """Build the application. Raises HostUnfitError, ConfigError and what the rooms raise at start.

    `serving` keeps a pool of ready sandboxes; a single command does not. `progress` hears of environments being built.
    """
    data = data_folder(settings, environ)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(run_folder(data / "run"))
        backend = make_backend(settings, folder, await _open_groups(stack, settings))
        if missing := backend.missing_features():
            raise HostUnfitError(tuple(missing))
        stack.push_async_callback(backend.close)
        environment = await resolve_environment(
            settings.environment, root=data / "environments", uid=sandbox_uid(), progress=progress
        )
        found = await find_runtimes(data, environ)
        spec = sandbox_spec(settings, environment, data, found)
        await asyncio.to_thread(refuse_shown, spec.image, environ)
        journal = await stack.enter_async_context(open_journal(journal_path(data)))
        toolbox = await _open_toolbox(stack, settings, config, environ, data, wanted=upstreams_wanted)
        pool = SandboxPool(
            backend,
            pool_limits(settings, serving=serving),
            on_opened=lambda sandbox: _show_tools(sandbox, toolbox),
        )
        stack.push_async_callback(pool.close)
        redactor = Redactor.of_values(_secrets(config))
        runtime = Runtime(
            settings=settings,
            pool=pool,
            toolbox=toolbox,
            road=ToolRoad(toolbox, journal=journal, redactor=redactor),
            journal=journal,
            redactor=redactor,
            artifacts=data / "private" / "artifacts",
            sandbox_spec=spec,
            languages=await make_languages(found, data, environ),
        )
        stack.push_async_callback(runtime.languages.close)
        stack.push_async_callback(runtime.close)
        ticket = _ticket(settings, config, approver)
        yield App(settings=settings, runtime=runtime, toolbox=toolbox, backend=backend, ticket=ticket, data=data)


async def _show_tools(sandbox: Sandbox, toolbox: Toolbox) -> None:
    """Publish the wrappers before anybody asks for the sandbox."""
    if (snapshot := toolbox.current) is not None:
        await show(sandbox, snapshot)


@asynccontextmanager
async def assemble_tools(
    settings: Settings, *, config: McpConfig | None, environ: Mapping[str, str]
) -> AsyncGenerator[Toolbox]:
    """The tools alone, for commands that run no code: no sandbox, no journal, no environment."""
    async with AsyncExitStack() as stack:
        yield await _open_toolbox(stack, settings, config, environ, data_folder(settings, environ), wanted=True)


@asynccontextmanager
async def assemble_backend(
    settings: Settings, *, environ: Mapping[str, str], progress: ProgressSink | None = None
) -> AsyncGenerator[tuple[SandboxBackend, SandboxSpec]]:
    """The sandboxes alone, not asked what they lack: `moonpool doctor` tells that itself."""
    data = data_folder(settings, environ)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(run_folder(data / "run"))
        backend = make_backend(settings, folder, await _open_groups(stack, settings))
        stack.push_async_callback(backend.close)
        environment = await resolve_environment(
            settings.environment, root=data / "environments", uid=sandbox_uid(), progress=progress
        )
        yield backend, sandbox_spec(settings, environment, data, await find_runtimes(data, environ))


async def _open_groups(stack: AsyncExitStack, settings: Settings) -> LimitGroups:
    """The best control groups that `settings` allow; their folders go once every sandbox is gone."""
    groups = await asyncio.to_thread(open_groups, settings.limits)
    stack.push_async_callback(groups.close)
    return groups


def data_folder(settings: Settings, environ: Mapping[str, str]) -> Path:
    """The data folder in force."""
    return settings.data_dir or data_dir(os.geteuid(), environ)


def sandbox_uid() -> int:
    """The uid that must be able to read environments: our own, or the first of the range when we are root."""
    return os.geteuid() or UID_FIRST


def pool_limits(settings: Settings, *, serving: bool) -> PoolLimits:
    """How many sandboxes there may be and how long callers wait; only who serves keeps some ready."""
    return PoolLimits(
        alive_max=settings.sandboxes_max,
        alive_per_scope_max=settings.sandboxes_per_scope_max,
        ready_min=settings.pool_low if serving else 0,
        ready_max=settings.pool_high if serving else 0,
        waiting_max=settings.waiting_max,
        wait_s_max=settings.waiting_s_max,
    )


def make_backend(settings: Settings, folder: Path, groups: LimitGroups) -> SandboxBackend:
    """The backend that `settings` name."""
    if settings.backend == ZygoteBackend.name:
        return ZygoteBackend(folder, groups, policy=zygote_policy(settings))
    return BACKENDS[settings.backend](folder, groups)


def zygote_policy(settings: Settings) -> ZygotePolicy:
    """How many zygotes there may be, and for how long."""
    return ZygotePolicy(
        forks_max=settings.zygote_forks_max,
        age_s_max=settings.zygote_age_s_max,
        idle_s_max=settings.zygote_idle_s,
        count_max=settings.zygotes_max,
        per_image_max=settings.zygotes_per_image,
    )


async def find_runtimes(data: Path, environ: Mapping[str, str]) -> tuple[RuntimeProgram | Absence, ...]:
    """Node.js and Bash on this host, or why they cannot be used."""

    def find() -> tuple[RuntimeProgram | Absence, ...]:
        root, uid = data / "environments", sandbox_uid()
        home = Path(environ.get("HOME", "/nonexistent"))
        return (
            find_node(root=root, uid=uid, environ=environ, home=home),
            find_bash(root=root, uid=uid, environ=environ),
        )

    return await asyncio.to_thread(find)


async def make_languages(
    found: Sequence[RuntimeProgram | Absence], data: Path, environ: Mapping[str, str]
) -> Languages:
    """What the runtime knows of languages beside Python."""
    absent = {one.language: one.reason for one in found if isinstance(one, Absence)}
    node = next((one for one in found if isinstance(one, RuntimeProgram) and one.language == "node"), None)
    root = data / "environments"
    if node is None or not node_tools.are_needed(node.version) or await asyncio.to_thread(_has_node_tools, root):
        return Languages(absent=absent)
    npm = shutil.which("npm", path=environ.get("PATH")) or ""
    return Languages(
        absent=absent, install_typescript=lambda: node_tools.installed_tools(root, npm=npm, environ=environ)
    )


def _has_node_tools(root: Path) -> bool:
    return node_tools.tools_place(root).is_dir()


def sandbox_spec(
    settings: Settings, environment: Environment, data: Path, found: Sequence[RuntimeProgram | Absence] = ()
) -> SandboxSpec:
    """The sandbox that `settings` ask for, on `environment`, with the runtimes that were `found`."""
    limits = SandboxLimits(
        memory_bytes_max=settings.memory_bytes_max,
        process_count_max=settings.process_count_max,
        cpu_s_max=settings.cpu_s_max,
        cpu_cores_max=settings.cpu_cores_max,
        disk_bytes_max=settings.disk_bytes_max,
        file_bytes_max=settings.disk_bytes_max,
    )
    return SandboxSpec(image=image_spec(environment, data / "environments", found), limits=limits)


def image_spec(environment: Environment, root: Path, found: Sequence[RuntimeProgram | Absence] = ()) -> ImageSpec:
    """What sandboxes of `environment` are made of. `root` is the folder of environments."""
    programs = [one for one in found if isinstance(one, RuntimeProgram)]
    libraries = {"LD_LIBRARY_PATH": ":".join(map(str, environment.libs))} if environment.libs else {}
    binds = [path for path in environment.binds if str(path) != "/usr"]
    return ImageSpec(
        name=environment.name,
        digest=environment.digest,
        python=environment.python,
        guest=publish_guest(root),
        binds=tuple(dict.fromkeys([*binds, *(path for one in programs for path in one.binds)])),
        site_paths=environment.site_paths,
        preload=(*environment.prepare, *environment.preload),
        variables={**environment.variables, **libraries, **ChainMap(*(dict(one.variables) for one in programs))},
    )


async def _open_toolbox(
    stack: AsyncExitStack,
    settings: Settings,
    config: McpConfig | None,
    environ: Mapping[str, str],
    data: Path,
    *,
    wanted: bool,
) -> Toolbox:
    from moonpool.broker.config import McpConfig, resolved_key  # noqa: PLC0415

    servers = (config or McpConfig(source="")).servers if wanted else ()
    keys = {server.server_id: resolved_key(server) for server in servers}
    shown = {server.server_id for server in servers if server.instructions}
    cache = _Cache(ManifestCache(manifest_dir(data)))
    source = _NoUpstreams()
    boxes: list[Toolbox] = []
    if config is not None and keys:
        from moonpool.broker.upstreams import open_upstreams  # noqa: PLC0415

        eras = await asyncio.to_thread(_known_eras, keys, cache)
        source = await stack.enter_async_context(
            open_upstreams(
                config,
                environ=environ,
                known_eras=eras,
                on_listing_changed=lambda server_id: boxes[0].refresh_soon(server_id) if boxes else None,
            )
        )
    toolbox = Toolbox(
        keys,
        source,
        cache,
        data / "trees",
        ttl_s=settings.manifest_ttl_s,
        shows_instructions=shown.__contains__,
    )
    boxes.append(toolbox)
    stack.push_async_callback(toolbox.close)
    return toolbox


def _known_eras(keys: Mapping[str, str], cache: _Cache) -> dict[str, str]:
    """The protocol revision that each server spoke last; saves the probe."""
    found = {server_id: cache.load(key) for server_id, key in keys.items()}
    return {server_id: cached.era for server_id, cached in found.items() if cached is not None and cached.era}


class _NoUpstreams:
    """No server is configured."""

    def get(self, server_id: str) -> Upstream | None:
        del server_id
        return None


class _Cache:
    """The disk cache as the toolbox uses it."""

    def __init__(self, cache: ManifestCache) -> None:
        self._cache = cache

    def load(self, key: str) -> CachedListing | None:
        return self._cache.load(key)

    def save(self, key: str, listing: ServerListing, era: str, listed_at: float) -> None:
        self._cache.save(key, CachedListing(listing=listing, era=era, listed_at=listed_at))


def _secrets(config: McpConfig | None) -> dict[str, str]:
    """Names for known secret values, in an order that does not depend on the set's."""
    values = sorted(config.secrets) if config is not None else []
    return {f"SECRET_{index}": value for index, value in enumerate(values, start=1)}


def _ticket(settings: Settings, config: McpConfig | None, approver: Approver) -> Ticket:
    servers = config.servers if config is not None else ()
    rules = [
        rule
        for server in servers
        for rule in server_rules(server.server_id, ((rule.tool, rule.verdict) for rule in server.rules))
    ]
    policy = Policy(rules=tuple(rules))
    trust = {
        server.server_id: ServerTrust(trusted=server.trusted, idempotent=server.idempotent, timeout_s=server.timeout_s)
        for server in servers
    }
    principal = f"local:{getpass.getuser()}" if _has_name() else f"local:uid-{os.geteuid()}"
    desk = ApprovalDesk(approver)

    def make_context(
        run_id: str,
        trace_id: str,
        session_id: str,
        code_digest: str,
        snapshot: Callable[[], ToolSnapshot],
        deadline: Deadline,
    ) -> CallContext:
        return CallContext(
            run_id=run_id,
            trace_id=trace_id,
            principal=principal,
            session_id=session_id,
            code_digest=code_digest,
            manifest=lambda: snapshot().manifest,
            desk=ParkingDesk(desk, deadline),
            policy=policy,
            trust=trust,
            limits=CallLimits(calls_max=settings.tool_calls_max),
        )

    return Ticket(principal=principal, make_context=make_context)


@dataclass(frozen=True, slots=True)
class ParkingDesk:
    """An approval desk that stops the execution's clock while somebody is asked."""

    desk: ApprovalDesk
    deadline: Deadline

    async def settle(self, request: ApprovalRequest) -> ApprovalAnswer:
        with self.deadline.parked():
            return await self.desk.settle(request)


def _has_name() -> bool:
    try:
        return bool(getpass.getuser())
    except (KeyError, OSError):
        return False
