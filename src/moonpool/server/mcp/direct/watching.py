"""News for clients: that a list of tools, resources or prompts is another one now, and that a resource changed.

A client of an older revision hears of lists without asking, and of resources that it subscribed to; one of 2026-07-28
what it asked for with `subscriptions/listen`. A list is told to have changed when what this principal sees of it did.

SECURITY: servers say when something changed. However often they do, one task tells clients, with a pause, each news
once; so many different ones wait at most, and a client hears of no resource that it has not subscribed to.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

from moonpool.core.json import digest_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.server.mcp.direct.offered import Offered, OfferedTools
    from moonpool.tools.changes import ChangeNotice
    from moonpool.tools.snapshot import ToolSnapshot

    Context = ServerRequestContext[Any, Any]

Event: TypeAlias = ToolsListChanged | ResourcesListChanged | PromptsListChanged | ResourceUpdated
PAUSE_S: Final = 0.1
WAITING_MAX: Final = 512
LISTENING_MAX: Final = 64
"""`subscriptions/listen` of one principal at the same time."""
_LISTS: Final = {"resources": ResourcesListChanged(), "prompts": PromptsListChanged()}
_log = logging.getLogger(__name__)


class Watching:
    """The news of one principal."""

    def __init__(self, registry: ToolRegistry, offered: Offered) -> None:
        self._offered, self._registry = offered, registry
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus, max_subscriptions=LISTENING_MAX, max_buffered_events=WAITING_MAX)
        self._watchers: dict[str, set[object]] = {}  # resource -> who subscribed to it
        self._connections: dict[int, Connection] = {}
        self._seen: dict[str, str] = {}  # what was told last of a list: its digest
        self._waiting: dict[Event, None] = {}  # in the order they came
        self._news = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None
        self._unfollow: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Follow the registry. Idempotent."""
        if self._telling is None:
            self._telling = asyncio.ensure_future(self._tell())
            changes = self._registry.changes
            self._unfollow = [
                self._registry.follow(self._tools_changed),
                changes.follow("resources", self._list_changed),
                changes.follow("prompts", self._list_changed),
                changes.follow("resource", self._resource_changed),
            ]

    async def close(self) -> None:
        for unfollow in self._unfollow:
            unfollow()
        self.listen.close()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    def join(self, ctx: Context) -> None:
        """A client of an older revision is ready to hear of lists; it leaves when its connection ends."""
        connection = connection_of(ctx)
        if connection.has_standalone_channel and id(connection) not in self._connections:
            self._connections[id(connection)] = connection
            connection.exit_stack.callback(self._connections.pop, id(connection), None)

    def watch(self, uri: str, watcher: object) -> None:
        """`watcher` subscribed to a resource."""
        self._watchers.setdefault(uri, set()).add(watcher)

    def unwatch(self, uri: str, watcher: object) -> bool:
        """`watcher` subscribes to it no more; whether it was the last one."""
        watchers = self._watchers.get(uri, set())
        watchers.discard(watcher)
        if watchers or uri not in self._watchers:
            return False
        del self._watchers[uri]
        return True

    def watched_by(self, watcher: object) -> list[str]:
        return [uri for uri, watchers in self._watchers.items() if watcher in watchers]

    def know_tools(self, offered: OfferedTools) -> None:
        """The tools as they are: what comes later is a change."""
        self._seen.setdefault("tools", _digest(offered))

    def _tools_changed(self, snapshot: ToolSnapshot) -> None:
        del snapshot
        digest = _digest(self._offered.tools_now())
        self._offered.outdated()
        if self._seen.get("tools") != digest:
            self._seen["tools"] = digest
            self._put(ToolsListChanged())

    def _list_changed(self, notice: ChangeNotice) -> None:
        if notice.server_id not in self._registry.direct_ids:
            return
        self._offered.outdated()
        what, digest = f"{notice.kind} {notice.server_id}", digest_json(list(notice.items))
        if self._seen.get(what) != digest:
            self._seen[what] = digest
            self._put(_LISTS[notice.kind])

    def _resource_changed(self, notice: ChangeNotice) -> None:
        if any(_covers(uri, notice.uri) for uri in self._watchers):
            self._put(ResourceUpdated(uri=notice.uri))

    def _put(self, event: Event) -> None:
        if len(self._waiting) < WAITING_MAX:
            self._waiting[event] = None
            self._news.set()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            waiting, self._waiting = self._waiting, {}
            for event in waiting:
                try:
                    await self._bus.publish(event)
                    for connection in tuple(self._connections.values()):
                        await self._notify(connection, event)
                except Exception as error:  # noqa: BLE001  the next news may fare better
                    _log.warning("a client could not be told what changed: %s", type(error).__name__)
            await asyncio.sleep(PAUSE_S)

    async def _notify(self, connection: Connection, event: Event) -> None:
        if isinstance(event, ResourceUpdated):
            if any(_covers(uri, event.uri) and connection in watchers for uri, watchers in self._watchers.items()):
                await connection.send_resource_updated(event.uri)
        elif isinstance(event, ToolsListChanged):
            await connection.send_tool_list_changed()
        elif isinstance(event, PromptsListChanged):
            await connection.send_prompt_list_changed()
        else:
            await connection.send_resource_list_changed()


def connection_of(ctx: Context) -> Connection:
    """The SDK's connection of a request, with its `state` and `exit_stack`; it offers no other way to it."""
    return ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _covers(subscribed: str, uri: str) -> bool:
    """SPEC: a server may tell of a sub-resource of what was subscribed to."""
    return uri == subscribed or uri.startswith(f"{subscribed.rstrip('/')}/")


def _digest(offered: OfferedTools) -> str:
    return digest_json({name: tool.digest for name, tool in offered.tools.items()})
