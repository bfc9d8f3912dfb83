"""What sessions of `moonpool run --session` run on: settings, servers and rules of the command that began each.

Where they are the service's own, that is the tenant of the default organisation. Others have an engine and a tenant of
their own, which sessions of the same settings, servers and rules share; all of them use the data folder, and its
journal, as any command of this user does.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.bootstrap.engine import open_engine
from moonpool.bootstrap.folders import host_folders
from moonpool.bootstrap.session_tenants import TenantOfSessions
from moonpool.bootstrap.sharing import sharing
from moonpool.bootstrap.tenant import open_tenant
from moonpool.configuration.policies import policy_in_force
from moonpool.configuration.server_files import load_servers
from moonpool.features.approvals.events import EventApprover
from moonpool.server.http.sessions.tenants import TerminalTenant
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable

    from moonpool.bootstrap.engine import Engine
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.configuration.servers import McpConfig
    from moonpool.policy import Policy
    from moonpool.server.http.sessions.messages import TerminalOrder
    from moonpool.server.http.sessions.tenants import SessionTenant

_IDS: Final = itertools.count(1)


class TerminalTenants:
    """The tenants of terminals' sessions in one service."""

    def __init__(
        self,
        engine: Engine,
        config: McpConfig | None,
        own: Callable[[], Awaitable[tuple[Tenant, SessionTenant]]] | None,
    ) -> None:
        """`own` gives the tenant of the default organisation, with the service's settings and servers, `config`."""
        self._engine, self._config, self._own = engine, config, own

    async def tenant(self, order: TerminalOrder) -> TerminalTenant:
        """See `SessionTenants.for_terminal`."""
        settings, config, policy = await asyncio.to_thread(self._read, order)
        folders = None
        if order.workspace is not None:
            folders = await asyncio.to_thread(host_folders, settings, order.environ, [order.workspace])
        async with AsyncExitStack() as stack:
            if (tenant := await self._fitting(settings, config, policy)) is None:
                key = (*_key(settings, config), policy.digest)
                tenant = await stack.enter_async_context(sharing(key, lambda: self._open(settings, config, policy)))
            release = stack.pop_all().aclose
        return TerminalTenant(tenant=tenant, folders=folders, idle_s=settings.session_idle_s, release=release)

    async def _fitting(self, settings: Settings, config: McpConfig | None, policy: Policy) -> SessionTenant | None:
        """The organisation's tenant, if it is what was ordered.

        SECURITY: its rules are those that it was opened with; files that say something else by now are another order.
        """
        if self._own is None or _key(settings, config) != _key(self._engine.settings, self._config):
            return None
        tenant, of_sessions = await self._own()
        return of_sessions if tenant.policy.digest == policy.digest else None

    def _read(self, order: TerminalOrder) -> tuple[Settings, McpConfig | None, Policy]:
        # The folder is the one whose socket was used, which several ways of naming it lead to.
        settings = msgspec.structs.replace(Settings.load(order.environ), data_dir=self._engine.settings.data_dir)
        config = None if order.config is None else load_servers(Path(order.config), order.environ, here=order.here)
        return settings, config, policy_in_force(settings, config)

    @asynccontextmanager
    async def _open(
        self, settings: Settings, config: McpConfig | None, policy: Policy
    ) -> AsyncGenerator[TenantOfSessions]:
        engine = self._engine
        events = EventApprover()
        async with (
            open_engine(settings, environ=engine.environ, state=engine.state) as own,
            open_tenant(
                own,
                f"terminal-{next(_IDS)}",
                config=config,
                approver=events,
                policy=policy,
                data=engine.state,
                eagerly=True,
            ) as tenant,
        ):
            sessions = TenantOfSessions(tenant, events)
            try:
                yield sessions
            finally:
                await sessions.close()


def _key(settings: Settings, config: McpConfig | None) -> tuple[Hashable, ...]:
    servers = b"" if config is None else msgspec.json.encode([config.source, config.servers], order="deterministic")
    return settings, hashlib.sha256(servers).hexdigest(), () if config is None else tuple(config.left_out)
