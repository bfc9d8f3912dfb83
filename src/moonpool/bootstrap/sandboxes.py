"""Sandboxes: their backend, image, limits and number."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.bootstrap.folders import data_folder, sandbox_uid
from moonpool.bootstrap.programs import find_runtimes
from moonpool.engine.run_folder import run_folder
from moonpool.environments.guest import publish_guest
from moonpool.environments.resolve import resolve_environment
from moonpool.environments.runtimes import Absence
from moonpool.environments.runtimes import Runtime as RuntimeProgram
from moonpool.sandboxes.base import ImageSpec, SandboxLimits, SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.cgroups import LimitGroups, open_groups
from moonpool.sandboxes.plan import covers
from moonpool.sandboxes.pool_limits import PoolLimits
from moonpool.sandboxes.zygote import ZygoteBackend
from moonpool.sandboxes.zygote_family import ZygotePolicy
from moonpool.store.paths import kept_folders_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from moonpool.environments.base import Environment, ProgressSink
    from moonpool.sandboxes.base import SandboxBackend
    from moonpool.settings import Settings

BACKENDS = (ZygoteBackend.name, BubblewrapBackend.name)


@asynccontextmanager
async def assemble_backend(
    settings: Settings, *, environ: Mapping[str, str], progress: ProgressSink | None = None
) -> AsyncGenerator[tuple[SandboxBackend, SandboxSpec, Sequence[str]]]:
    """Only the backend, without a check of missing features: `moonpool doctor` reports those itself.

    The last item says why there are no control groups, if `limits=auto` found none.
    """
    data = data_folder(settings, environ)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(run_folder(data / "run"))
        groups = await limit_groups(stack, settings)
        backend = make_backend(settings, folder, groups, data)
        stack.push_async_callback(backend.close)
        environment = await resolve_environment(
            settings.environment, root=data / "environments", uid=sandbox_uid(), progress=progress
        )
        spec = sandbox_spec(settings, environment, data, await find_runtimes(data, environ))
        yield backend, spec, groups.passed_over


async def limit_groups(stack: AsyncExitStack, settings: Settings) -> LimitGroups:
    """The best control groups that `settings` allow; their folders are removed when all sandboxes are gone."""
    groups = await asyncio.to_thread(open_groups, settings.limits)
    stack.push_async_callback(groups.close)
    return groups


def make_backend(settings: Settings, folder: Path, groups: LimitGroups, data: Path) -> SandboxBackend:
    """The backend that `settings` name. `data` is the data folder."""
    kept = kept_folders_dir(data)
    if settings.backend == ZygoteBackend.name:
        return ZygoteBackend(folder, groups, policy=_zygote_policy(settings), kept=kept)
    return BubblewrapBackend(folder, groups, kept=kept)


def _zygote_policy(settings: Settings) -> ZygotePolicy:
    """Limits on the number and lifetime of zygotes."""
    return ZygotePolicy(
        forks_max=settings.zygote_forks_max,
        age_s_max=settings.zygote_age_s_max,
        idle_s_max=settings.zygote_idle_s,
        count_max=settings.zygotes_max,
        per_image_max=settings.zygotes_per_environment,
    )


def pool_limits(settings: Settings, *, serving: bool) -> PoolLimits:
    """Limits on the number of sandboxes and the waiting time; only a serving process keeps some ready."""
    return PoolLimits(
        alive_max=settings.sandboxes_max,
        alive_per_scope_max=settings.sandboxes_per_tenant_max,
        ready_low=settings.pool_low if serving else 0,
        ready_high=settings.pool_high if serving else 0,
        waiting_max=settings.waiting_max,
        wait_s_max=settings.waiting_s_max,
    )


def sandbox_spec(
    settings: Settings, environment: Environment, data: Path, found: Sequence[RuntimeProgram | Absence] = ()
) -> SandboxSpec:
    """The sandbox spec for `settings`, with `environment` and the `found` runtimes."""
    return SandboxSpec(image=image_spec(environment, data / "environments", found), limits=sandbox_limits(settings))


def sandbox_limits(settings: Settings) -> SandboxLimits:
    """The limits of one sandbox."""
    return SandboxLimits(
        memory_bytes_max=settings.memory_bytes_max,
        process_count_max=settings.process_count_max,
        cpu_s_max=settings.cpu_s_max,
        cpu_cores_max=settings.cpu_cores_max,
        disk_bytes_max=settings.disk_bytes_max,
        fsize_bytes_max=settings.disk_bytes_max,
    )


def image_spec(environment: Environment, root: Path, found: Sequence[RuntimeProgram | Absence] = ()) -> ImageSpec:
    """The image of sandboxes with `environment`. `root` is the folder of environments."""
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
        moved=root if covers(root) else None,
    )
