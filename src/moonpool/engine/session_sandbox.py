"""The sandbox of a session: opened when it is needed, or taken from the ready ones, with the tools as they are now."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.core.languages import PYTHON
from moonpool.sandboxes.host_folders import FolderError
from moonpool.tools.snapshot import ToolSnapshot, show

if TYPE_CHECKING:
    from moonpool.engine.branches import SharedKernel
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.sandboxes.base import Sandbox, SandboxSpec
    from moonpool.sandboxes.pool import SandboxPool


class SessionSandbox:
    """Opens the sandbox of `kernel`, which branches of a session share, and keeps its tools current. Close it."""

    def __init__(
        self, kernel: SharedKernel, spec: SandboxSpec, pool: SandboxPool, tools: ToolRegistry, principal: str
    ) -> None:
        self._kernel, self._spec, self._pool, self._tools, self._principal = kernel, spec, pool, tools, principal
        self.snapshot: ToolSnapshot | None = None  # of the tools that it shows, or is about to
        self._showing: set[asyncio.Future[None]] = set()
        self._unfollow = tools.follow(self._on_new_tools)

    async def close(self) -> None:
        """Follow the tools no longer; the sandbox itself stays. Idempotent."""
        self._unfollow()
        await asyncio.gather(*self._showing)

    def at_hand(self, language: str = PYTHON) -> tuple[Sandbox, ToolSnapshot] | None:
        """A sandbox and tools that need no waiting: the session's own, or a ready one that shows the current tools."""
        snapshot = self.snapshot = self._tools.current
        if snapshot is None:
            return None
        if self._kernel.sandbox is None or self._kernel.sandbox.has_ended:
            self._kernel.sandbox = self._pool.acquire_nowait(self._spec_now(), language, principal=self._principal)
        sandbox = self._kernel.sandbox
        if sandbox is None or not sandbox.shows(snapshot.digest) or not self._kernel.packages.are_shown(sandbox):
            return None
        if not self._kernel.is_connected:
            return None
        return sandbox, snapshot

    async def ready(self, language: str = PYTHON) -> tuple[Sandbox, ToolSnapshot]:
        """The session's own, or another if that has ended. Raises MoonpoolError."""
        if self._kernel.sandbox is not None and self._kernel.sandbox.has_ended:
            self._kernel.sandbox = None
        if self._kernel.sandbox is None and (known := self._tools.current) is not None:
            self.snapshot = known
            self._kernel.sandbox = await self._pool.acquire(self._spec_now(), language, principal=self._principal)
        elif self._kernel.sandbox is None:
            acquiring = asyncio.ensure_future(self._pool.acquire(self._spec_now(), language, principal=self._principal))
            try:
                self.snapshot = await self._tools.snapshot()
                self._kernel.sandbox = await acquiring
            except BaseException:
                await _give_up(acquiring)
                raise
        await self._kernel.connect()
        assert self.snapshot is not None
        await show(self._kernel.sandbox, self.snapshot)
        await self._kernel.packages.show(self._kernel.sandbox)
        return self._kernel.sandbox, self.snapshot

    def _spec_now(self) -> SandboxSpec:
        """The sandbox to open: with the wrappers in it from the start, where the tools are known already."""
        spec, snapshot = self._spec, self._tools.current
        if self._kernel.network is not None:
            spec = spec.with_network()
        return spec if snapshot is None else replace(spec, tree=snapshot.tree_ref)

    def _on_new_tools(self, snapshot: ToolSnapshot) -> None:
        self.snapshot = snapshot
        if self._kernel.sandbox is not None and not self._kernel.sandbox.has_ended:
            showing = asyncio.ensure_future(_show_if_possible(self._kernel.sandbox, snapshot))
            self._showing.add(showing)
            showing.add_done_callback(self._showing.discard)


async def same_folders(sandbox: Sandbox) -> str:
    """Let it see host folders that are copied as they are now, and these what changed in it; what is to be said of it.

    Raises FolderError.
    """
    news = await sandbox.synchronise_folders()
    if news.failure:
        raise FolderError(news.failure)
    return news.remark


async def _show_if_possible(sandbox: Sandbox, snapshot: ToolSnapshot) -> None:
    """Between executions; the next one tries again and reports what is wrong."""
    with contextlib.suppress(MoonpoolError):
        await show(sandbox, snapshot)


async def _give_up(acquiring: asyncio.Future[Sandbox]) -> None:
    """Nobody wants the sandbox any more: stop opening it, or close it if it is open."""
    acquiring.cancel()
    with contextlib.suppress(asyncio.CancelledError, MoonpoolError):
        await (await acquiring).close()
