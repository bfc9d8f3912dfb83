"""The host's HTTP proxy for the sandboxes of one session, on the listening sockets that they handed over before any
code ran.

It takes `CONNECT host:port`, for TLS, and requests for `http://` addresses. What becomes of each connection:
`one_connection`. What the rules no longer allow is ended at once.

SECURITY: what comes out of the sandbox is hostile. Headers, time, connections and bytes are bounded, nothing of it is
evaluated or logged, and no name is resolved that no rule allows.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from moonpool.network.one_connection import ServedConnection
from moonpool_wire.ratelimit import TokenBucket

if TYPE_CHECKING:
    import socket

    from moonpool.network.session_network import SessionNetwork

_log = logging.getLogger(__name__)

_CONNECTIONS_PER_SECOND: Final = 50.0
_CONNECTIONS_BURST: Final = 200.0
_FULL_PAUSE_S: Final = 0.05


class NetworkProxy:
    """Accepts and serves the connections of one sandbox on `listener`, which stays its owner's, until it is closed.

    Raises OSError.
    """

    def __init__(self, network: SessionNetwork, listener: socket.socket) -> None:
        self._network, self._listener = network, listener.dup()
        self._open: dict[asyncio.Task[None], ServedConnection] = {}
        self._accepting = asyncio.ensure_future(self._accept())
        network.watchers.add(self.end_disallowed)

    async def close(self) -> None:
        """End all connections; return when each is on record. Idempotent."""
        self._network.watchers.discard(self.end_disallowed)
        self._accepting.cancel()
        for task, served in self._open.items():
            served.ends_by("the session ended, or its sandbox did")
            task.cancel()
        await asyncio.gather(self._accepting, *self._open, return_exceptions=True)
        self._listener.close()

    def end_disallowed(self) -> None:
        """End the connections that the rules, which have changed, do not allow."""
        for task, served in self._open.items():
            if not served.is_allowed:
                served.ends_by("the session may reach this domain no longer, or with another credential")
                task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(rate=_CONNECTIONS_PER_SECOND, burst=_CONNECTIONS_BURST)
        while True:
            if self._network.is_full:  # SECURITY: those that ask for nothing would take all descriptors of the host
                await asyncio.sleep(_FULL_PAUSE_S)
                continue
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:  # this process has no descriptors left, or the other side has gone already
                await asyncio.sleep(0.1)
                continue
            self._begin(accepted)
            if (wait_s := bucket.take(1, loop.time())) > 0:
                await asyncio.sleep(wait_s)

    def _begin(self, accepted: socket.socket) -> None:
        served = ServedConnection(self._network, accepted)
        task = asyncio.ensure_future(served.serve())
        self._open[task] = served
        self._network.sockets += 1

        def ended(task: asyncio.Task[None]) -> None:
            served.give_up()
            del self._open[task]
            self._network.sockets -= 1
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("a connection of code to its network ended by an error", exc_info=error)

        task.add_done_callback(ended)
