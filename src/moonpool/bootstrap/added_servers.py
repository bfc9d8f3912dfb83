"""Servers that are added to a tenant while it is open."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.bootstrap.caller_grants import server_trust
from moonpool.bootstrap.owner_tasks import OwnerTask
from moonpool.configuration.servers import resolved_key
from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from moonpool.bootstrap.tools import OpenTools
    from moonpool.configuration.servers import McpConfig
    from moonpool.pipeline.execution_grant import ServerTrust
    from moonpool.redaction.redactor import Redactor
    from moonpool.tools.snapshot import ToolSnapshot
    from moonpool.upstreams.opening import Upstreams


class AddedServers:
    """Adds servers to one tenant, and ends them with it. Sessions see their tools at once.

    No rule of a policy is added: calls are decided by the policy in force.
    """

    def __init__(self, tools: OpenTools, trust: dict[str, ServerTrust], redactor: Redactor) -> None:
        """`trust` is the tenant's own, which grows."""
        self._tools, self._trust, self._redactor = tools, trust, redactor
        self._open: dict[str, OwnerTask[Upstreams]] = {}
        self._left_out: set[str] = set()
        self._turn = asyncio.Lock()
        self._closed = False

    async def add(self, config: McpConfig) -> ToolSnapshot:
        """Connect to the one server of `config` and show its tools. One of the same name that was added is replaced.

        Raises ConfigError, UpstreamError; then all is as it was.
        """
        (server,) = config.servers
        server_id, key = server.server_id, resolved_key(server)
        async with self._turn:
            if self._closed:
                raise InputError("no server can be added: Moonpool is closing")
            if server_id in self._tools.registry.server_ids and server_id not in (*self._open, *self._left_out):
                raise InputError(f"the server {server_id!r} is configured already; choose another name")
            owner, upstreams = await self._opened(config)
            try:
                upstream = upstreams.get(server_id)
                assert upstream is not None
                listing = await upstream.list_tools()
            except BaseException:
                await owner.close()
                raise
            before = self._take_in(config, owner, upstreams)
            snapshot = await self._tools.registry.add(server_id, key, listing)
            if before is not None:
                await before.close()
            return snapshot

    async def expect(self, config: McpConfig) -> None:
        """Take in servers that were known before. One is started only to list its tools, where no cache has them.

        Names that are there are skipped. A server that cannot be listed is one whose tools are missing.
        """
        registry = self._tools.registry
        async with self._turn:
            if self._closed:
                return
            for server_id, error in config.left_out.items():
                if server_id not in registry.server_ids:
                    registry.leave_out(server_id, error)
                    self._left_out.add(server_id)
            new = [server for server in config.servers if server.server_id not in registry.server_ids]
            for server in new:
                one = replace(config, servers=(server,), left_out={})
                self._take_in(one, *await self._opened(one))
                registry.expect(server.server_id, resolved_key(server))
            await registry.load(server.server_id for server in new)

    async def _opened(self, config: McpConfig) -> tuple[OwnerTask[Upstreams], Upstreams]:
        """SECURITY: secrets are known before a server can say anything."""
        (server_id,) = config.ids
        self._tools.learn(f"{server_id} (added)", config.secrets)
        owner = OwnerTask(self._tools.open_upstreams(config), f"server {server_id!r}")
        return owner, await owner.opened()

    def _take_in(
        self, config: McpConfig, owner: OwnerTask[Upstreams], upstreams: Upstreams
    ) -> OwnerTask[Upstreams] | None:
        """Calls go there from now on. Returns what it is in place of."""
        (server_id,) = config.ids
        before, self._open[server_id] = self._open.get(server_id), owner
        self._left_out.discard(server_id)
        self._trust.update(server_trust(config, self._redactor))
        self._tools.source.put(upstreams)
        return before

    async def close(self) -> None:
        """End all that were added."""
        self._closed = True
        await asyncio.gather(*(owner.close() for owner in self._open.values()))
