"""Change notifications for an application: the current tools, resources and prompts, and changed resources (D-058).

`Changes.follow` registers a callback for one kind. Lists are complete and sent once per change, however often a server
reports it; changes of a resource require a subscription (`subscribe`). Callbacks run in the event loop and must return
at once; a failure is logged and has no other effect.

The tools of a server are those of the tool registry's snapshot, so dangerous changes are held back here, too.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from moonpool.core.errors import InputError
from moonpool.upstreams.base import UpstreamError
from moonpool.upstreams.resources_and_prompts import LIST_PROMPTS, LIST_RESOURCES, SUBSCRIBE, UNSUBSCRIBE

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.tools.snapshot import ToolSnapshot
    from moonpool.upstreams.base import Change, Upstream, UpstreamSource

Kind: TypeAlias = Literal["tools", "resources", "prompts", "resource"]
LIST_S: Final = 60.0
_LISTS: Final = {"resources": LIST_RESOURCES, "prompts": LIST_PROMPTS}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNotice:
    """One change. `items` are the list as it is now (raw JSON), `uri` the resource that may have changed."""

    server_id: str
    kind: Kind
    items: tuple[JsonObject, ...] = ()
    uri: str = ""


class Changes:
    """The changes of all servers of one tool registry."""

    def __init__(self, upstreams: UpstreamSource) -> None:
        self._upstreams = upstreams
        self._callbacks: list[tuple[Kind, Callable[[ChangeNotice], None]]] = []
        self._tools: dict[str, tuple[ToolDefinition, ...]] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._again: set[tuple[str, str]] = set()

    def follow(self, kind: Kind, callback: Callable[[ChangeNotice], None]) -> Callable[[], None]:
        """Call `callback` with every change of this kind. Returns a function that unregisters it."""
        entry = (kind, callback)
        self._callbacks.append(entry)
        return lambda: self._callbacks.remove(entry) if entry in self._callbacks else None

    async def subscribe(self, server_id: str, uri: str) -> None:
        """Subscribe to changes of this resource. Raises InputError, UpstreamError."""
        await self._upstream(server_id).call_tool(SUBSCRIBE, {"uri": uri}, timeout_s=LIST_S)

    async def unsubscribe(self, server_id: str, uri: str) -> None:
        """Unsubscribe from this resource. Raises InputError, UpstreamError."""
        await self._upstream(server_id).call_tool(UNSUBSCRIBE, {"uri": uri}, timeout_s=LIST_S)

    def heard(self, change: Change) -> None:
        """Handle a server's notification. Tools are left to `show`: the tool registry lists them anyway."""
        if change.kind == "resource":
            self._tell(ChangeNotice(server_id=change.server_id, kind="resource", uri=change.uri))
        elif change.kind in _LISTS and any(kind == change.kind for kind, _ in self._callbacks):
            key = (change.server_id, change.kind)
            if key in self._tasks:
                self._again.add(key)
            else:
                self._tasks[key] = asyncio.ensure_future(self._list(*key))

    def show(self, snapshot: ToolSnapshot) -> None:
        """Handle a new snapshot of the tool registry."""
        now = {server.server_id: server.tools for server in snapshot.manifest.servers}
        before, self._tools = self._tools, now
        for server_id in {**before, **now}:
            tools = now.get(server_id, ())
            if before.get(server_id, ()) != tools:
                items = tuple(tool.raw for tool in tools)
                self._tell(ChangeNotice(server_id=server_id, kind="tools", items=items))

    def know(self, snapshot: ToolSnapshot) -> None:
        """Remember the first snapshot, which is no change."""
        self._tools = {server.server_id: server.tools for server in snapshot.manifest.servers}

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _list(self, server_id: str, kind: str) -> None:
        key = (server_id, kind)
        try:
            while True:
                self._again.discard(key)
                result = await self._upstream(server_id).call_tool(_LISTS[kind], {}, timeout_s=LIST_S)
                items = cast("dict[str, Any]", result["structuredContent"])[kind]
                if key not in self._again:  # otherwise it changed while it was listed
                    break
            self._tell(ChangeNotice(server_id=server_id, kind=cast("Kind", kind), items=tuple(items)))
        except (UpstreamError, InputError) as exc:
            _log.warning("the %s of server %r changed and cannot be listed: %s", kind, server_id, exc)
        finally:
            self._tasks.pop(key, None)

    def _tell(self, news: ChangeNotice) -> None:
        for kind, callback in tuple(self._callbacks):
            if kind != news.kind:
                continue
            try:
                callback(news)
            except Exception as error:  # noqa: BLE001  the callback is the application's code
                _log.error("a callback for changed %s failed: %s: %s", kind, type(error).__name__, error)

    def _upstream(self, server_id: str) -> Upstream:
        upstream = self._upstreams.get(server_id)
        if upstream is None:
            raise InputError(f"there is no server {server_id!r} in this configuration")
        return upstream
