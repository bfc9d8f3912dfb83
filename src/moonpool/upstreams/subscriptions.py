"""Which resources of one server are subscribed to, and which of them changed. No I/O; outlives connections.

Each caller (a session; the host itself has the empty name) has a set of addresses and of those that changed since it
last asked. An address is subscribed to once, however many callers want it.

SECURITY: addresses come from code in a sandbox and from servers: how many there are, how long they are and how many
wait to be fetched is bounded; changes without a subscription are not kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.upstreams.base import UpstreamProtocolError, UpstreamRateLimitedError

if TYPE_CHECKING:
    from collections.abc import Iterable

URI_LENGTH_MAX: Final = 4096
CALLER_COUNT_MAX: Final = 32
"""Subscriptions of one session at one server."""
SERVER_COUNT_MAX: Final = 256
"""Different addresses at one server, of all sessions."""
PENDING_COUNT_MAX: Final = 256


@dataclass(slots=True)
class _Caller:
    uris: set[str] = field(default_factory=set[str])
    changed: dict[str, None] = field(default_factory=dict[str, None])  # in order of arrival
    news: anyio.Event = field(default_factory=anyio.Event)


class Subscriptions:
    """One server's. `moved` is set, and replaced, whenever `uris` changes."""

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._callers: dict[str, _Caller] = {}
        self.moved = anyio.Event()

    @property
    def uris(self) -> tuple[str, ...]:
        return tuple(sorted({uri for one in self._callers.values() for uri in one.uris}))

    def add(self, caller: str, uri: str) -> bool:
        """True for the first subscriber. Raises UpstreamError above a limit."""
        if not 0 < len(uri) <= URI_LENGTH_MAX:
            problem = f"takes resource addresses of 1 to {URI_LENGTH_MAX} characters"
            raise UpstreamProtocolError(self._server_id, problem, for_guest=problem)
        one, known = self._callers.get(caller, _Caller()), self.uris
        if uri in one.uris:
            return False
        if (caller and len(one.uris) >= CALLER_COUNT_MAX) or (uri not in known and len(known) >= SERVER_COUNT_MAX):
            problem = (
                f"has {len(one.uris)} subscriptions of this session and {len(known)} in all; "
                f"at most {CALLER_COUNT_MAX} and {SERVER_COUNT_MAX} are kept, so end one first"
            )
            raise UpstreamRateLimitedError(self._server_id, problem, for_guest=problem)
        self._callers[caller] = one
        one.uris.add(uri)
        if uri not in known:
            self._move()
        return uri not in known

    def remove(self, caller: str, uri: str) -> bool:
        """True when it was the last subscriber."""
        one = self._callers.get(caller)
        if one is None or uri not in one.uris:
            return False
        one.uris.discard(uri)
        if not one.uris:
            one.news.set()  # a waiting caller has nothing left to wait for
            del self._callers[caller]
        if uri in self.uris:
            return False
        self._move()
        return True

    def forget(self, caller: str) -> tuple[str, ...]:
        """End all subscriptions of this caller; returns the addresses without a subscriber."""
        one = self._callers.get(caller)
        return tuple(uri for uri in sorted(one.uris) if self.remove(caller, uri)) if one is not None else ()

    def heard(self, *uris: str) -> None:
        """These changed, or may have. A server may name a part of what was subscribed to."""
        for one in self._callers.values():
            mine = [uri for uri in uris if len(uri) <= URI_LENGTH_MAX and _covered(uri, one.uris)]
            for uri in mine:
                if len(one.changed) < PENDING_COUNT_MAX:
                    one.changed[uri] = None
            if mine:
                one.news.set()

    async def wait(self, caller: str, within_s: float) -> tuple[str, ...]:
        """What changed since the last time; empty when nothing does `within_s`. Raises UpstreamError."""
        one = self._callers.get(caller)
        if one is None:
            problem = "has no subscription of this session; subscribe to a resource first"
            raise UpstreamProtocolError(self._server_id, problem, for_guest=problem)
        with anyio.move_on_after(within_s):
            while not one.changed and one.uris:
                one.news = anyio.Event() if one.news.is_set() else one.news
                await one.news.wait()
        told = tuple(one.changed)
        one.changed.clear()
        return told

    def _move(self) -> None:
        self.moved.set()
        self.moved = anyio.Event()


def _covered(uri: str, subscribed: Iterable[str]) -> bool:
    """SPEC: a server may notify about a sub-resource of a subscribed resource."""
    return any(uri == one or uri.startswith(f"{one.rstrip('/')}/") for one in subscribed)
