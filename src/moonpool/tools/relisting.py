"""Lists servers' tools again after change notifications, at a limited rate.

However often a server notifies, one task lists its tools, and once more for all notifications meanwhile. The first
notification is handled at once; a server that notifies all the time is listed PER_MINUTE_MAX times a minute, which
bounds the cost of its lists and wrapper trees.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PER_MINUTE_MAX: Final = 30
_log = logging.getLogger(__name__)


class Relisting:
    """The refreshes of one tool registry. `refresh` lists one server."""

    def __init__(
        self, refresh: Callable[[str], Awaitable[object]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._refresh, self._clock = refresh, clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._times: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=PER_MINUTE_MAX))
        self._closing = asyncio.Event()

    def ask_soon(self, server_id: str) -> None:
        """List `server_id` in the background, or once more if a listing is running."""
        if server_id in self._tasks:
            self._again.add(server_id)
        elif not self._closing.is_set():
            self._tasks[server_id] = asyncio.ensure_future(self._ask(server_id))

    async def close(self, within_s: float) -> None:
        """Wait a moment for running listings, so that the next process finds a fresh cache."""
        self._closing.set()
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, server_id: str) -> None:
        try:
            while await self._may_ask(server_id):
                self._again.discard(server_id)
                await self._refresh(server_id)
                if server_id not in self._again:
                    return
        except Exception as error:  # noqa: BLE001  nobody waits for it, and the next notification may succeed
            _log.error("the tools of server %r cannot be listed again: %s: %s", server_id, type(error).__name__, error)
        finally:
            del self._tasks[server_id]  # at once, so that no notification is lost between its last check and its end

    async def _may_ask(self, server_id: str) -> bool:
        """Wait until this server may be listed; False if the process ends first."""
        times = self._times[server_id]
        if len(times) == PER_MINUTE_MAX and (wait_s := times[0] + 60 - self._clock()) > 0:
            _log.warning("server %r says all the time that its tools changed; it is asked again later", server_id)
            try:
                async with asyncio.timeout(wait_s):
                    await self._closing.wait()
            except TimeoutError:
                pass
            else:
                return False
        times.append(self._clock())
        return True
