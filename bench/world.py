"""Applications to measure, put together as `moonpool` itself does, in a data folder of their own.

The folder's `environments` is a link to the real ones, so that nothing is built twice; journal, caches and run folders
are new, so that a benchmark leaves no trace in anybody's audit.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.company import Company
from moonpool.bootstrap import Tenant, data_folder, open_default_tenant, sandbox_uid
from moonpool.core.languages import PYTHON
from moonpool.engine.code_request import CodeRequest
from moonpool.environments.resolve import resolve_environment
from moonpool.pipeline.approval import AutoApprover
from moonpool.sandboxes.pool import SandboxPool
from moonpool.sandboxes.pool_limits import PoolLimits
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.configuration.servers import McpConfig
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.sessions import Session
    from moonpool.environments.base import ProgressSink
    from moonpool.sandboxes.base import SandboxBackend

ONE_PLUS_ONE = CodeRequest(code=b"result = 1+1")
POOL_SIZE = 2
PACE_S = 0.05
_FULL_TIMEOUT_S = 30.0
_QUIET_S = 0.02  # a sandbox that has been let go needs 1 to 3 ms to end; a refill begins then


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where a run keeps its files, and which environments it measures."""

    folder: Path
    environments: tuple[str, ...]
    peers: Company

    def settings(self, environment: str, **changes: Any) -> Settings:
        data = self.folder / environment
        data.mkdir(exist_ok=True)
        data.chmod(0o755)
        link_environments(data)
        return Settings.load(os.environ, data_dir=data, environment=environment, pool_low=POOL_SIZE, **changes)

    @asynccontextmanager
    async def app(self, environment: str, *, config: McpConfig | None = None, **changes: Any) -> AsyncGenerator[Tenant]:
        """An application that serves; nothing is pooled until somebody asks. `changes` are settings."""
        settings = self.settings(environment, **changes)
        opening = open_default_tenant(
            settings, config=config, approver=AutoApprover(), environ=os.environ, serving=True
        )
        async with opening as app:
            yield app


@asynccontextmanager
async def open_world(environments: tuple[str, ...], *, peers: bool = True) -> AsyncGenerator[World]:
    """A folder that every sandbox uid can reach, removed afterwards, and the peers, ended afterwards."""
    folder = new_folder()
    try:
        async with AsyncExitStack() as stack:
            company = Company(folder=folder / "peers", stack=stack, wanted=peers)
            yield World(folder=folder, environments=environments, peers=company)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_folder() -> Path:
    """A folder that every sandbox uid can reach."""
    folder = Path(tempfile.mkdtemp(prefix="moonpool-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "peers").mkdir(mode=0o700)
    return folder


def link_environments(data: Path) -> None:
    """Nothing is built twice: the data folder has the environments of this account."""
    link = data / "environments"
    if not link.is_symlink():
        link.symlink_to(_real_environments())


def _real_environments() -> Path:
    return data_folder(Settings.load(os.environ), os.environ) / "environments"


async def prepare_environment(name: str, progress: ProgressSink | None = None) -> None:
    """Build what is missing before anything is measured."""
    await resolve_environment(name, root=_real_environments(), uid=sandbox_uid(), progress=progress)


def without_pool(app: Tenant, *, alive_max: int | None = None) -> Runtime:
    """The same runtime, opening a sandbox for each execution."""
    return replace(app.runtime, pool=pool_of(app.engine.backend, alive_max=alive_max or app.settings.sandboxes_max))


def pool_of(backend: SandboxBackend, *, alive_max: int) -> SandboxPool:
    """A pool that keeps none ready."""
    return SandboxPool(backend, PoolLimits(alive_max=alive_max, ready_low=0, ready_high=0))


async def fill_pool(app: Tenant, language: str = PYTHON) -> None:
    """Wait until the pool is full of one kind and the machine is not busy with our own leftovers."""
    app.runtime.pool.fill(app.runtime.sandbox_spec, language)
    async with asyncio.timeout(_FULL_TIMEOUT_S):
        while _ready_count(app, language) < POOL_SIZE:  # noqa: ASYNC110  the pool tells nobody
            await asyncio.sleep(0.002)
    await asyncio.sleep(_QUIET_S)


def _ready_count(app: Tenant, language: str) -> int:
    kinds = app.runtime.pool.statistics().kinds
    return sum(kind.ready for kind in kinds if kind.language == language)


async def timed_run(runtime: Runtime, app: Tenant) -> float:
    """One fresh execution, host call to outcome, in ms."""
    started = time.perf_counter()
    envelope = await runtime.run(ONE_PLUS_ONE, app.caller_grant)
    ended = time.perf_counter()
    assert envelope.error is None, envelope.error
    assert envelope.data == 2
    return 1000 * (ended - started)


async def timed_execute(session: Session, request: CodeRequest, expected: Any) -> float:
    """One more execution of a session, in ms."""
    started = time.perf_counter()
    envelope = await session.execute(request)
    ended = time.perf_counter()
    assert envelope.error is None, envelope.error
    assert envelope.data == expected
    return 1000 * (ended - started)
