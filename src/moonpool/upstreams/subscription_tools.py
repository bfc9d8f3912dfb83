"""The reserved tools that subscribe, unsubscribe and wait, and the subscriptions of one upstream across connections.

`wait` sends nothing to the server and always ends within the call's own time limit, with the changes or none. After a
reconnect every address is subscribed to again and reported as changed, because changes in between are unknown.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import anyio

from moonpool.upstreams.base import UpstreamError, UpstreamProtocolError
from moonpool.upstreams.callers import caller
from moonpool.upstreams.resources_and_prompts import SUBSCRIBE, UNSUBSCRIBE, WAIT
from moonpool.upstreams.subscriptions import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.json import JsonObject
    from moonpool.upstreams.connection import ServerConnection

    Within = Callable[[float, str, Callable[[ServerConnection], Awaitable[None]]], Awaitable[None]]

OBSERVING: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE, WAIT})
WAIT_S_DEFAULT: Final = 30.0
_OF_THE_LIMIT: Final = 0.9
"""How much of a call's time limit a wait may use: its answer has to arrive."""
UNSUBSCRIBE_S: Final = 10.0
LOOK_AGAIN_S: Final = 1.0
_log = logging.getLogger(__name__)


class Observing:
    """`within` sends one request as the supervisor does: by a live link, within a time limit."""

    def __init__(self, server_id: str, within: Within) -> None:
        self.subscriptions = Subscriptions(server_id)
        self._server_id = server_id
        self._within = within

    async def call(self, name: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        """A CallToolResult. Raises UpstreamError."""
        if name == WAIT:
            asked: Any = arguments.get("within_s", WAIT_S_DEFAULT)
            changed = await self.subscriptions.wait(caller(), min(float(asked), timeout_s * _OF_THE_LIMIT))
            return {"content": [], "structuredContent": {"changed": list(changed)}}
        uri = str(arguments["uri"])
        if name == SUBSCRIBE:
            await self._subscribe(uri, timeout_s)
        elif self.subscriptions.remove(caller(), uri):
            await self._within(timeout_s, name, lambda link: link.unsubscribe(uri))
        return {"content": [], "structuredContent": {"uri": uri}}

    async def _subscribe(self, uri: str, timeout_s: float) -> None:
        self.subscriptions.add(caller(), uri)
        try:  # also when others have it: a server that stopped notifying is asked again, and refuses for all alike
            await self._within(timeout_s, SUBSCRIBE, lambda link: link.subscribe(uri))
        except BaseException:
            self.subscriptions.remove(caller(), uri)
            raise

    async def establish(self, link: ServerConnection, heard: Callable[[str, str], None]) -> None:
        """After a reconnect. Never raises an UpstreamError."""
        for uri in self.subscriptions.uris:
            try:
                await link.subscribe(uri)
            except UpstreamProtocolError as exc:
                _log.warning("a subscription is lost: %s", exc)
            except UpstreamError:
                return  # the connection is gone again
            heard("resource", uri)

    async def leave_when_deaf(self, link: ServerConnection, in_use: Callable[[], bool]) -> None:
        """End a connection that receives no notifications, once a caller waits for some and no call would be lost.

        The supervisor then reconnects, because a caller waits.
        """
        await link.deaf.wait()
        while in_use() or not self.subscriptions.uris:  # noqa: ASYNC110  one connection a second, and only a deaf one
            await anyio.sleep(LOOK_AGAIN_S)
        link.ended.set()

    async def end(self, uris: tuple[str, ...]) -> None:
        """Unsubscribe these at the server, as far as possible."""
        for uri in uris:
            try:
                await self._within(UNSUBSCRIBE_S, UNSUBSCRIBE, lambda link, uri=uri: link.unsubscribe(uri))
            except UpstreamError:
                return
