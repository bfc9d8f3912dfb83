"""The profile `direct` of one principal: what it is offered, its calls, its news, and their common end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.errors import MoonpoolError
from moonpool.core.phrases import clip
from moonpool.server.mcp.connection_calls import CallingApp
from moonpool.server.mcp.direct.calls import DirectCalls
from moonpool.server.mcp.direct.offered import Offered
from moonpool.server.mcp.direct.watching import Watching
from moonpool.upstreams.callers import calling_as
from moonpool.upstreams.resources_and_prompts import UNSUBSCRIBE

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from moonpool.core.manifest import ServerListing
    from moonpool.engine.runtime import Runtime
    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.direct.offered import OfferedTools

INSTRUCTIONS_CHARS_MAX: Final = 16_000
"""What servers say of themselves, all together."""
_UNSUBSCRIBE_S: Final = 10.0
_WHAT: Final = "Moonpool passes calls on to these MCP servers, as its operator's rules allow."
_log = logging.getLogger(__name__)


class DirectApp(CallingApp, Protocol):
    """What the profile needs of the application (`moonpool.bootstrap.Tenant`)."""

    @property
    def runtime(self) -> Runtime: ...


class Served:
    """What the handlers of `server` use."""

    def __init__(self, app: DirectApp, bindings: Bindings) -> None:
        runtime, grant = app.runtime, bindings.caller_grant(app.caller_grant)
        self._registry, self.tracing = runtime.tool_registry, runtime.tracing
        self.offered = Offered(self._registry, grant, runtime.redactor)
        self.watching = Watching(self._registry, self.offered)
        self.calls = DirectCalls(app, runtime, bindings, grant)
        self._tasks: set[asyncio.Task[object]] = set()

    def prepare(self) -> None:
        """List tools in the background, and follow what changes."""
        self.watching.begin()
        self._soon(self._registry.snapshot())

    async def list_tools(self) -> OfferedTools:
        """The tools as they are now. Servers whose tools could not be listed are asked again meanwhile."""
        self.watching.begin()
        offered = await self.offered.tools()
        self.watching.know_tools(offered)
        manifest = self.offered.manifest
        known = frozenset[str]() if manifest is None else manifest.server_ids
        for server_id in self._registry.direct_ids:
            if server_id not in known:
                self._soon(self._registry.relist(server_id))
        return offered

    async def instructions(self) -> str:
        """The handshake's text; lists all servers' tools first."""
        await self.offered.tools()
        return self.instructions_now()

    def instructions_now(self) -> str:
        """The same from what is known already."""
        manifest = self.offered.manifest
        told = [_WHAT, *map(_of_server, manifest.servers if manifest is not None else ())]
        return clip("\n\n".join(told), INSTRUCTIONS_CHARS_MAX)

    @property
    def is_busy(self) -> bool:
        """Whether a call goes on; `close` would end it."""
        return self.calls.is_busy

    def leave(self) -> int:
        """The client has disconnected; returns how many calls go on because they wait in the queue of approvals."""
        return self.calls.leave()

    async def wait_spared(self) -> None:
        await self.calls.wait_spared()

    async def close(self) -> None:
        """End every call and subscription."""
        await self.watching.close()
        await self.calls.close()
        await self.offered.close()
        self._registry.forget_caller(self.calls.session_id)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def unwatch_soon(self, watcher: object) -> None:
        """`unwatch_all` in the background."""
        self._soon(self.unwatch_all(watcher))

    async def unwatch_all(self, watcher: object) -> None:
        """End the subscriptions of a connection or a stream that is over, where nobody else has them."""
        for uri in self.watching.watched_by(watcher):
            if self.watching.unwatch(uri, watcher):
                await self._unsubscribe(uri)

    async def _unsubscribe(self, uri: str) -> None:
        """Ours to do, as the client is gone: no call of a tool, and on no record."""
        server_id = self.offered.lists_now.server_of(uri)
        upstream = None if server_id is None else self._registry.get(server_id)
        if upstream is not None:
            try:
                with calling_as(self.calls.session_id):
                    await upstream.call_tool(UNSUBSCRIBE, {"uri": uri}, timeout_s=_UNSUBSCRIBE_S)
            except MoonpoolError as error:
                _log.info("a subscription could not be ended: %s", error)

    def _soon(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("in the background of a client: %s: %s", type(error).__name__, error)


def _of_server(listing: ServerListing) -> str:
    return f"## {listing.server_id}\n{listing.instructions}".rstrip()
