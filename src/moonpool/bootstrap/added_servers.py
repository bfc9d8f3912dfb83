"""Servers that are added to a tenant while it is open."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.bootstrap.caller_grants import server_trust
from moonpool.bootstrap.owner_tasks import OwnerTasks
from moonpool.configuration.servers import resolved_key
from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from moonpool.bootstrap.owner_tasks import OwnerTask
    from moonpool.bootstrap.tools import OpenTools
    from moonpool.configuration.servers import McpConfig
    from moonpool.features.learned_types.service import LearnedTypes
    from moonpool.pipeline.execution_grant import ServerTrust
    from moonpool.redaction.redactor import Redactor
    from moonpool.tools.snapshot import ToolSnapshot
    from moonpool.upstreams.opening import Upstreams


_CLOSING: Final = "no server can be added: Moonpool is closing"


@dataclass(frozen=True, kw_only=True)
class _Added:
    """One server that was added."""

    owner: OwnerTask[Upstreams]
    upstreams: Upstreams
    secrets: frozenset[str]


class AddedServers:
    """Adds servers to one tenant, and ends them with it. Sessions see their tools at once.

    No rule of a policy is added: calls are decided by the policy in force.
    """

    def __init__(
        self, tools: OpenTools, trust: dict[str, ServerTrust], redactor: Redactor, learned_types: LearnedTypes
    ) -> None:
        """`trust` is the tenant's own, which grows."""
        self._tools, self._trust, self._redactor, self._learned_types = tools, trust, redactor, learned_types
        self._owners: OwnerTasks[Upstreams] = OwnerTasks()
        self._numbers = itertools.count(1)
        self._shown: dict[str, _Added] = {}
        self._left_out: set[str] = set()
        self._turn = asyncio.Lock()
        self._closed = False

    async def add(self, config: McpConfig) -> ToolSnapshot:
        """Connect to the one server of `config` and show its tools. One of the same name that was added is replaced.

        Raises ConfigError, UpstreamError, InputError, OSError; then all is as it was.
        """
        (server,) = config.servers
        server_id, registry = server.server_id, self._tools.registry
        async with self._turn:
            if self._closed:
                raise InputError(_CLOSING)
            if server_id in registry.all_ids and server_id not in (*self._shown, *self._left_out):
                raise InputError(f"the server {server_id!r} is configured already; choose another name")
            added = await self._opened(config)
            try:
                upstream = added.upstreams.get(server_id)
                assert upstream is not None
                listing = await upstream.list_tools()
                if self._closed:  # meanwhile, and all that was open with it
                    raise InputError(_CLOSING)
                snapshot = await registry.add(server_id, resolved_key(server), listing)
            except BaseException:
                await added.owner.close()
                raise
            before = self._shown.get(server_id)
            self._take_in(config, added)  # INVARIANT: nothing is awaited between: tools that are shown can be called
            if before is not None:
                await before.owner.close()
            return snapshot

    async def expect(self, config: McpConfig) -> None:
        """Take in servers that were known before, and their tools."""
        await self.load(await self.take_in(config))

    async def take_in(self, config: McpConfig) -> tuple[str, ...]:
        """Take in servers whose tools `load` finds; returns the names that were not there before."""
        registry = self._tools.registry
        async with self._turn:
            if self._closed:
                return ()
            for server_id, error in config.left_out.items():
                if server_id not in registry.all_ids:
                    registry.leave_out(server_id, error)
                    self._left_out.add(server_id)
            new = [server for server in config.servers if server.server_id not in registry.all_ids]
            for server in new:
                one = replace(config, servers=(server,), left_out={})
                self._take_in(one, await self._opened(one))
                registry.expect(server.server_id, resolved_key(server), server.expose)
            return tuple(server.server_id for server in new)

    async def load(self, server_ids: tuple[str, ...]) -> None:
        """Find their tools. A server is started only where no cache has them; one that cannot be listed has none."""
        await self._tools.registry.load(server_ids)

    async def remove(self, server_id: str) -> None:
        """End one that was added: it is shown no longer, and its connection is closed. Nothing for any other."""
        async with self._turn:
            if self._closed or (added := self._shown.pop(server_id, None)) is None:
                return
            self._trust.pop(server_id, None)
            self._tools.source.drop(server_id)
            await added.owner.close()  # first: it may be listing its tools, as slowly as it likes
            await self._tools.registry.remove(server_id)

    async def _opened(self, config: McpConfig) -> _Added:
        """Raises InputError once this is closed.

        SECURITY: secrets are known before a server can say anything, those of the one in its place as long as that is.
        """
        (server_id,) = config.ids
        before = self._shown[server_id].secrets if server_id in self._shown else frozenset[str]()
        self._tools.learn(f"{server_id} (added)", config.secrets | before)
        opening = self._tools.open_upstreams(config)
        owner = self._owners.start(f"{server_id} {next(self._numbers)}", opening, f"server {server_id!r}")
        return _Added(owner=owner, upstreams=await owner.opened(), secrets=config.secrets)

    def _take_in(self, config: McpConfig, added: _Added) -> None:
        """Calls go there from now on."""
        (server,) = config.servers
        self._shown[server.server_id] = added
        self._left_out.discard(server.server_id)
        self._trust.update(server_trust(config, self._redactor))
        self._learned_types.know(server.server_id, resolved_key(server))
        self._tools.source.put(added.upstreams)

    async def close(self) -> None:
        """End all that were added, and who adds one now."""
        self._closed = True
        await self._owners.close_all()
        async with self._turn:  # it writes to what is closed next
            pass
