"""A few ready sandboxes per spec, so that callers do not wait for a fork.

`acquire` takes a ready one or opens one; the pool refills itself in the background. There is no release: a used sandbox
is discarded by whoever used it. The number of sandboxes alive is capped; above the cap callers wait their turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.ready import rehearse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxLimits, SandboxSpec

    Key = tuple[str, str, SandboxLimits]

_RETRY_S = 1.0
_REFILL_DELAY_S = 0.01  # the code that was just started goes first; a fork takes 4 ms of the same cores


class SandboxPool:
    """Opens sandboxes ahead of need."""

    def __init__(
        self,
        backend: SandboxBackend,
        *,
        ready_count: int,
        alive_count_max: int,
        on_opened: Callable[[Sandbox], Awaitable[None]] | None = None,
    ) -> None:
        self._backend = backend
        self._ready_count = ready_count
        self._slots = asyncio.Semaphore(alive_count_max)
        self._ready: dict[Key, deque[Sandbox]] = {}
        self._fillers: dict[Key, asyncio.Task[None]] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._on_opened = on_opened
        self._closed = False

    async def acquire(self, spec: SandboxSpec) -> Sandbox:
        """A READY sandbox that nobody used. Raises SandboxStartError."""
        sandbox = self.acquire_nowait(spec)
        if sandbox is None:
            sandbox = await self._open(spec)
            self._refill_later(spec)
        return sandbox

    def acquire_nowait(self, spec: SandboxSpec) -> Sandbox | None:
        """A READY sandbox if one is at hand."""
        ready = self._ready.setdefault(spec.key, deque())
        while ready:
            sandbox = ready.popleft()
            if not sandbox.has_ended:
                self._refill_later(spec)
                return sandbox
        return None

    def fill(self, spec: SandboxSpec) -> None:
        """Start opening the ready ones of `spec` now, before anybody asks."""
        self._ready.setdefault(spec.key, deque())
        self._refill(spec)

    def statistics(self) -> dict[str, int]:
        """How many are ready, per scope and image."""
        return {f"{scope}/{image}": len(ready) for (scope, image, _), ready in self._ready.items()}

    async def _open(self, spec: SandboxSpec) -> Sandbox:
        await self._slots.acquire()
        try:
            sandbox = await self._backend.open_sandbox(spec)
        except BaseException:
            self._slots.release()
            raise
        watcher = asyncio.ensure_future(self._give_back_slot(sandbox))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return sandbox

    async def _give_back_slot(self, sandbox: Sandbox) -> None:
        try:
            await sandbox.wait_exited()
        finally:
            self._slots.release()

    def _refill_later(self, spec: SandboxSpec) -> None:
        if self._ready_count:
            asyncio.get_running_loop().call_later(_REFILL_DELAY_S, self._refill, spec)

    def _refill(self, spec: SandboxSpec) -> None:
        running = self._fillers.get(spec.key)
        if self._closed or self._ready_count == 0 or (running is not None and not running.done()):
            return
        self._fillers[spec.key] = asyncio.ensure_future(self._fill(spec))

    async def _fill(self, spec: SandboxSpec) -> None:
        ready = self._ready[spec.key]
        while len(ready) < self._ready_count and not self._closed:
            try:
                sandbox = await self._open(spec)
                try:
                    await self._make_warm(sandbox)
                except BaseException:
                    await sandbox.close()
                    raise
                ready.append(sandbox)
            except MoonpoolError:
                await asyncio.sleep(_RETRY_S)  # whoever acquires gets the error itself; here it is only tried again
                return

    async def _make_warm(self, sandbox: Sandbox) -> None:
        """Do now what the first caller would wait for."""
        if self._on_opened is not None:
            await self._on_opened(sandbox)
        await rehearse(sandbox)

    async def close(self) -> None:
        """End the ready ones and stop refilling. Sandboxes in use belong to their users."""
        self._closed = True
        for task in self._fillers.values():
            task.cancel()
        for task in self._fillers.values():
            with contextlib.suppress(asyncio.CancelledError, MoonpoolError):
                await task
        for ready in self._ready.values():
            while ready:
                await ready.popleft().close()
        for watcher in tuple(self._watchers):
            watcher.cancel()
