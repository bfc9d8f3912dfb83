"""What the sessions of a process share: services, and who is busy or open (`engine.runtime` opens them)."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from moonpool.core.errors import InputError
from moonpool.engine.files.errors import FileTransferError
from moonpool.engine.languages import Languages
from moonpool.engine.network import NetworkServices
from moonpool.features.usage.token_accounting import TokenAccounting
from moonpool.store.process_marks import own_mark

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping

    from moonpool.core.audit import Journal
    from moonpool.engine.artifacts import Artifacts
    from moonpool.engine.packages.installer import PackageInstaller
    from moonpool.engine.run_services import Pipeline
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.features.plans.service import Plans
    from moonpool.features.recordings.recorder import Recorder
    from moonpool.network.rules import NetworkRules
    from moonpool.redaction.redactor import Redactor
    from moonpool.sandboxes.base import SandboxSpec
    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.sandboxes.pool import SandboxPool
    from moonpool.settings import Settings
    from moonpool.tracing.spans import Tracing


class OpenSession(Protocol):
    """A session that must be closed."""

    session_id: str

    def interrupt(self, *, at_once: bool = False) -> None:
        """End what runs now."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


@dataclass(kw_only=True)
class RuntimeServices:
    """Made by `moonpool.bootstrap`, as a `Runtime`."""

    settings: Settings
    pool: SandboxPool
    tool_registry: ToolRegistry
    pipeline: Pipeline
    journal: Journal
    redactor: Redactor
    artifacts: Artifacts
    sandbox_spec: SandboxSpec
    tokens: TokenAccounting = field(default_factory=TokenAccounting)
    languages: Languages = field(default_factory=Languages)
    recorder: Recorder | None = None
    plans: Plans | None = None  # None: no plan is kept, so none can be approved
    network: NetworkRules | None = None  # of every session that is opened without its own, where the operator says so
    network_services: NetworkServices = field(default_factory=NetworkServices)
    folders: HostFolders | None = None  # of the host, in every session that is opened without its own
    packages: Callable[[], Awaitable[PackageInstaller]] | None = None  # None: nobody may install any
    process: str = field(default_factory=own_mark)
    tracing: Tracing | None = None
    _sessions: set[OpenSession] = field(default_factory=set[OpenSession], init=False)
    _executing: set[asyncio.Future[None]] = field(default_factory=set["asyncio.Future[None]"], init=False)
    _transfers: set[asyncio.Timeout] = field(default_factory=set[asyncio.Timeout], init=False)
    _closed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def is_closed(self) -> bool:
        """Whether nothing may begin any more."""
        return self._closed.is_set()

    @property
    def is_executing(self) -> bool:
        """Whether an execution or a transfer goes on."""
        return bool(self._executing)

    def narrowed(
        self,
        settings: Settings,
        sandbox_spec: SandboxSpec,
        packages: Callable[[], Awaitable[PackageInstaller]] | None,
    ) -> Self:
        """The same for one session with limits and an environment of its own.

        INVARIANT: its sessions are among those that are closed with all others: what is open or busy is shared.
        """
        narrowed = copy.copy(self)
        narrowed.settings, narrowed.sandbox_spec, narrowed.packages = settings, sandbox_spec, packages
        return narrowed

    def knowing(self, variables: Mapping[str, str]) -> Self:
        """The same for one execution in whose environment `variables` are: their values are redacted.

        Raises InputError for values of too many lines.
        """
        knowing = copy.copy(self)
        try:
            knowing.redactor = self.redactor.knowing(variables)
        except ValueError:
            raise InputError(
                "the environment variables hold too many lines to be redacted; pass files instead"
            ) from None
        return knowing

    def look_after(self, session: OpenSession) -> None:
        """Close this session too, when all is closed."""
        self._sessions.add(session)

    def forget(self, session: OpenSession) -> None:
        """Drop a closed session."""
        self._sessions.discard(session)
        self.artifacts.forget(session.session_id)

    @contextlib.contextmanager
    def executing(self) -> Generator[None]:
        """An execution or a transfer, from before its start is recorded until its end is; `close` waits for it."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._executing.add(ended)
        try:
            yield
        finally:
            self._executing.discard(ended)
            ended.set_result(None)

    @contextlib.asynccontextmanager
    async def transferring(self) -> AsyncGenerator[None]:
        """A transfer, which `close` gives up. Raises FileTransferError then, and once it closes."""
        with self.executing():
            if self.is_closed:
                raise FileTransferError("nothing is open any more; Moonpool has closed it")
            try:
                async with asyncio.timeout(None) as guard:
                    self._transfers.add(guard)
                    try:
                        yield
                    finally:
                        self._transfers.discard(guard)
            except (TimeoutError, FileTransferError):
                if not self.is_closed:
                    raise
                raise FileTransferError("Moonpool was closed during the transfer; nothing of it was kept") from None

    def check_open(self) -> None:
        """Raises InputError once it closes."""
        if self.is_closed:
            raise InputError("nothing is open any more; Moonpool has closed it")
