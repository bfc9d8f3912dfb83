"""What a server says has changed: its lists, and resources that are subscribed to. One per connection.

Older servers send notifications unasked and take `resources/subscribe`; a 2026-07-28 server tells on a stream that one
listens to, whose addresses are fixed when it is opened. When other addresses are wanted, a new stream is opened before
the old one is given up, so that nothing is missed in between. The SDK has the stream; nothing of it is replayed.

INVARIANT: no change of the tools falls between a list and the stream that tells of changes. A list is read when the
stream stands; one that could not wait for it is read again, once, when it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import MCPError
from mcp.client.subscriptions import (
    ListenNotSupportedError,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    SubscriptionLost,
    listen,
)
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskStatus
    from mcp import ClientSession

    from moonpool.core.json import JsonValue
    from moonpool.upstreams.subscriptions import Subscriptions

_RELISTEN_COUNT_MAX: Final = 20
_RELISTEN_S: Final = 1.0
STANDING_WITHIN_S = 1.0
"""How long the first list of a connection waits for the stream of a server that answers."""
_KINDS: Final = {
    ToolListChangedNotification: "tools",
    ResourceListChangedNotification: "resources",
    PromptListChangedNotification: "prompts",
}


def notified(message: object) -> tuple[str, str] | None:
    """The kind and the address that a notification of an older server is about.

    What comes on a stream is shown here by the SDK as well. It counts once: each news costs a list.
    """
    params: Any = getattr(message, "params", None)
    if SUBSCRIPTION_ID_META_KEY in (getattr(params, "meta", None) or ()):
        return None
    if isinstance(message, ResourceUpdatedNotification):
        return "resource", str(message.params.uri)
    kind = _KINDS.get(type(message))  # pyright: ignore[reportArgumentType]  any object may be looked up
    return None if kind is None else (kind, "")


class ChangeStream:
    """The stream of a 2026-07-28 server."""

    def __init__(self, session: ClientSession, subscriptions: Subscriptions, heard: Callable[[str, str], None]) -> None:
        self._session, self._subscriptions, self._heard = session, subscriptions, heard
        self._asked: frozenset[str] = frozenset()
        self._honoured: frozenset[str] = frozenset()
        self._turned = anyio.Event()
        self._stands = anyio.Event()  # the stream is acknowledged, or there will be none
        self._overtaken = False  # a list was read before that

    async def precedes(self, answers: Callable[[], Awaitable[object]]) -> None:
        """Wait for the stream before a list is read: not for long, and once only. `answers` asks for a sign of life.

        A process that is still starting acknowledges as late as it answers anything, so that time does not count.
        """
        if not self._overtaken:
            with anyio.move_on_after(STANDING_WITHIN_S):
                await self._stands.wait()
        if not self._overtaken and not self._stands.is_set():
            await answers()
            with anyio.move_on_after(STANDING_WITHIN_S):
                await self._stands.wait()
        self._overtaken = not self._stands.is_set()

    async def takes(self, uri: str) -> bool:
        """Whether the server tells of this address; waits until it has been asked."""
        while uri not in self._asked:
            await self._turned.wait()
        return uri in self._honoured

    async def follow(self, capabilities: JsonValue) -> None:
        """Listen until the connection ends; never raises."""
        kinds = _changing(capabilities)
        async with anyio.create_task_group() as tasks:
            before: anyio.CancelScope | None = None
            while True:
                moved, uris = self._subscriptions.moved, self._subscriptions.uris
                now = await tasks.start(self._listen, kinds, uris) if kinds or uris else None
                self._stand()
                if before is not None:
                    before.cancel()
                before = now
                await moved.wait()

    async def _listen(
        self, kinds: frozenset[str], uris: tuple[str, ...], *, task_status: TaskStatus[anyio.CancelScope]
    ) -> None:
        told = False

        def settled(honoured: list[str]) -> None:
            nonlocal told
            if not told or self._asked == frozenset(uris):  # else a newer stream has taken over
                self._settle(uris, honoured)
            if not told:
                told = True
                task_status.started(scope)

        with anyio.CancelScope() as scope:
            attempt = 0
            for attempt in range(_RELISTEN_COUNT_MAX):
                await anyio.sleep(_RELISTEN_S if attempt else 0)
                try:
                    async with listen(
                        self._session,
                        tools_list_changed="tools" in kinds,
                        prompts_list_changed="prompts" in kinds,
                        resources_list_changed="resources" in kinds,
                        resource_subscriptions=uris,
                    ) as stream:
                        settled(stream.honored.resource_subscriptions or [])
                        self._may_have_missed(uris, since=attempt)
                        async for event in stream:
                            self._pass_on(event)
                except SubscriptionLost:
                    continue
                except (MCPError, ListenNotSupportedError, TimeoutError):
                    break
                if not uris:
                    return  # the server closed the stream in good order
            settled([])
            self._may_have_missed(uris, since=attempt)

    def _stand(self) -> None:
        if self._overtaken and not self._stands.is_set():
            self._heard("tools", "")
        self._stands.set()

    def _settle(self, asked: tuple[str, ...], honoured: list[str]) -> None:
        self._asked, self._honoured = frozenset(asked), frozenset(honoured)
        self._turned.set()
        self._turned = anyio.Event()

    def _pass_on(self, event: object) -> None:
        if isinstance(event, ResourceUpdated):
            self._heard("resource", event.uri)
        elif isinstance(event, ResourcesListChanged):
            self._heard("resources", "")
        else:
            self._heard("prompts" if isinstance(event, PromptsListChanged) else "tools", "")

    def _may_have_missed(self, uris: tuple[str, ...], *, since: int) -> None:
        """Called when a stream stands again, or never will: what changes before that is not told."""
        if since:
            self._heard("tools", "")
            for uri in uris:
                self._heard("resource", uri)


def _changing(capabilities: JsonValue) -> frozenset[str]:
    """Which list changes to subscribe to; a server whose version was assumed has declared nothing."""
    if not isinstance(capabilities, dict):
        return frozenset({"tools", "prompts", "resources"})
    told = {name for name in ("tools", "prompts", "resources") if _says_so(capabilities.get(name))}
    return frozenset(told if isinstance(capabilities.get("tools"), dict) else {*told, "tools"})


def _says_so(capability: JsonValue) -> bool:
    return isinstance(capability, dict) and capability.get("listChanged") is True
