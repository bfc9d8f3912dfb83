"""`KernelGateway`: where clients of this process find kernels. Its host and port are a name; no port is opened."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, ClassVar, Self

from moonpool.ipybox.options import given_path, import_folders, sandbox_rules, work_folders

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.ipybox.kernel_session import KernelSession
    from moonpool.ipybox.sandbox_config import SandboxRules


class KernelGateway:
    """Has the kernels of `KernelClient`s with the same host and port, in any event loop and thread of this process."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _running: ClassVar[dict[tuple[str, int], KernelGateway]] = {}

    def __init__(  # noqa: PLR0913, PLR0917  ipybox's parameters
        self,
        host: str = "localhost",
        port: int = 8888,
        working_dir: Path | str | None = None,
        sandbox: bool = False,
        sandbox_config: Path | str | None = None,
        log_level: str = "INFO",
        log_to_stderr: bool = False,
        env: dict[str, str] | None = None,
    ) -> None:
        """`env` are the variables of its kernels; they inherit none. They are in a sandbox, asked for or not."""
        self.host, self.port = host, port
        folder = given_path(working_dir, "working_dir")
        self.working_dir = folder.resolve() if folder is not None else None
        self.sandbox, self.sandbox_config = sandbox, given_path(sandbox_config, "sandbox_config")
        self.log_level, self.log_to_stderr = log_level, log_to_stderr
        self.env = env or {}
        self.rules: SandboxRules | None = None  # for its kernels, once it was started
        self._kernels: set[KernelSession] = set()
        self._ended: Future[None] = Future()
        self._ended.set_result(None)

    @classmethod
    def at(cls, host: str, port: int) -> KernelGateway | None:
        """The gateway of this process that runs there."""
        return cls._running.get((host, port))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return not self._ended.done()

    async def start(self) -> None:
        """Let clients connect. Raises RuntimeError when it or one with its host and port runs, ConfigError."""
        if self.rules is None:  # SECURITY: once; code may have written to the file since
            self.rules = await asyncio.to_thread(sandbox_rules, sandbox=self.sandbox, config=self.sandbox_config)
        folders = work_folders(self.working_dir, None), import_folders(self.env)
        await asyncio.to_thread(self.rules.domains, *folders, os.environ)
        with KernelGateway._lock:
            if (self.host, self.port) in KernelGateway._running:
                raise RuntimeError(f"a kernel gateway runs at {self.host}:{self.port} already")
            KernelGateway._running[self.host, self.port] = self
            self._ended = Future()

    async def stop(self, timeout: float = 10) -> None:
        """End its kernels and what runs in them. Stopping twice is fine. Killing them takes less than `timeout`."""
        del timeout
        with KernelGateway._lock:
            if KernelGateway._running.get((self.host, self.port)) is not self:
                return
            del KernelGateway._running[self.host, self.port]
            kernels, self._kernels = self._kernels, set()
        try:
            await asyncio.gather(*(kernel.stop() for kernel in kernels))
        finally:
            self._ended.set_result(None)

    async def join(self) -> None:
        """Wait until it is stopped."""
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def keep(self, kernel: KernelSession) -> None:
        """This kernel ends with it. Raises RuntimeError when it was stopped."""
        with KernelGateway._lock:
            if KernelGateway._running.get((self.host, self.port)) is not self:
                raise RuntimeError("the kernel gateway was stopped")
            self._kernels.add(kernel)

    def drop(self, kernel: KernelSession) -> None:
        """This kernel has ended."""
        with KernelGateway._lock:
            self._kernels.discard(kernel)
