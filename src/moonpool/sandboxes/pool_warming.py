"""Opening a sandbox, and doing ahead of need what its first caller would wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.ready import rehearse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec
    from moonpool.sandboxes.pool_queue import PoolQueue


class Preparer:
    """Opens sandboxes of one backend. `on_opened` sees each that is to stand ready."""

    def __init__(self, backend: SandboxBackend, on_opened: Callable[[Sandbox, str], Awaitable[None]] | None) -> None:
        self._backend, self._on_opened = backend, on_opened

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox as the backend gives it."""
        return await self._backend.open_sandbox(spec)

    async def make_warm(self, sandbox: Sandbox, queue: PoolQueue) -> None:
        """Show it the tools, start the kernel of its language, let it run nothing once. It is ended when that fails."""
        try:
            if self._on_opened is not None:
                await self._on_opened(sandbox, queue.scope)
            await rehearse(sandbox, queue.kind.language)
        except BaseException as error:
            if isinstance(error, MoonpoolError) and queue.waiters and not sandbox.has_ended:
                return  # somebody came meanwhile, and can have it as it is
            await sandbox.close()
            raise
