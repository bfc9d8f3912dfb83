"""`KernelClient`: a kernel of a `KernelGateway`. A `ToolServer` answers for its tool calls."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from moonpool.ipybox import shell_server
from moonpool.ipybox.kernel_mgr.server import KernelGateway
from moonpool.ipybox.kernel_session import ExecutionError, ExecutionResult, KernelSession
from moonpool.ipybox.options import (
    ExecutorOptions,
    check_shell_approval,
    environment,
    given_path,
    import_folders,
    package_roots,
    work_folders,
)
from moonpool.ipybox.tool_exec.approval.client import ApprovalRequest, ApprovalRequestor
from moonpool.ipybox.tool_exec.client import ToolRunnerError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

_log = logging.getLogger("moonpool.ipybox")
__all__ = ["ExecutionError", "ExecutionResult", "KernelClient"]


class KernelClient:
    """Runs code in a kernel of its own. Use it with `async with`, or `connect` and `disconnect`."""

    def __init__(  # noqa: PLR0913, PLR0917  ipybox's parameters
        self,
        host: str = "localhost",
        port: int = 8888,
        working_dir: Path | str | None = None,
        images_dir: Path | str | None = None,
        ping_interval: float = 10,
        approve_shell_cmds: bool = False,
        require_shell_escape: bool = False,
        tool_server_host: str = "localhost",
        tool_server_port: int = 0,
        kernel_init_timeout: float = 10,
    ) -> None:
        """`host` and `port` are those of a `KernelGateway` of this process. Pictures go to `images_dir` (`images`).

        The tool server at `TOOL_SERVER_HOST` and `TOOL_SERVER_PORT` of the gateway's `env` (localhost, 8900) is asked
        about each tool call of the code. Packages are found in `mcptools` of the working directory and of `PYTHONPATH`.
        With `approve_shell_cmds` the approval client of the tool server at `tool_server_host` and `tool_server_port` is
        asked about each `!cmd` and `%%bash`; see `CodeExecutor`.
        """
        check_shell_approval(approve=approve_shell_cmds, require=require_shell_escape)
        self.host, self.port = host, port
        folder = given_path(working_dir, "working_dir")
        self.working_dir = folder.resolve() if folder is not None else None
        self._named_images_dir = given_path(images_dir, "images_dir")
        self.images_dir = self._named_images_dir or Path("images")
        self.ping_interval = ping_interval
        self.approve_shell_cmds, self.require_shell_escape = approve_shell_cmds, require_shell_escape
        self.tool_server_host, self.tool_server_port = tool_server_host, tool_server_port
        self.kernel_init_timeout = kernel_init_timeout
        self._connected: tuple[KernelGateway, KernelSession, str] | None = None
        self._changing = asyncio.Lock()  # which kernel it has

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    @property
    def kernel_id(self) -> str:
        """Names the kernel. Raises RuntimeError when not connected."""
        if self._connected is None:
            raise RuntimeError("Not connected to kernel")
        return self._connected[2]

    async def connect(
        self, retries: int = 10, retry_interval: float = 1.0, kernel_init_timeout: float | None = None
    ) -> None:
        """Start a kernel. Raises RuntimeError when no gateway runs after `retries` looks, and TimeoutError."""
        async with self._changing:
            await self._connect(retries, retry_interval, kernel_init_timeout)

    async def _connect(
        self, retries: int = 10, retry_interval: float = 1.0, kernel_init_timeout: float | None = None
    ) -> None:
        if self._connected is not None:
            raise RuntimeError("this client is connected already")
        gateway = await self._gateway(retries, retry_interval)
        init_s = self.kernel_init_timeout if kernel_init_timeout is None else kernel_init_timeout
        working_dir = self.working_dir or gateway.working_dir
        work, imports = work_folders(working_dir, self._named_images_dir), import_folders(gateway.env)
        assert gateway.rules is not None
        network = await asyncio.to_thread(gateway.rules.domains, work, imports, os.environ)
        options = ExecutorOptions(
            environment=environment(),
            network=network or None,
            rules=gateway.rules,
            roots=package_roots(working_dir, gateway.env),
            asks_shell=self.approve_shell_cmds,
            apart=object(),
            work=work,
            imports=imports,
        )
        kernel = KernelSession(
            options,
            gateway.env,
            self.images_dir,
            init_s,
            require_shell_escape=self.require_shell_escape,
            stays=self.working_dir is not None,
        )
        try:
            await kernel.start()
            gateway.keep(kernel)
        except BaseException:
            await kernel.stop()
            raise
        self._connected = gateway, kernel, str(uuid4())

    async def disconnect(self) -> None:
        """End the kernel. Disconnecting twice is fine."""
        async with self._changing:
            await self._disconnect()

    async def _disconnect(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            gateway, kernel, _ = connected
            await kernel.stop()
            gateway.drop(kernel)

    async def reset(self) -> None:
        """Another kernel in place of this one. Raises as `connect`."""
        async with self._changing:
            await self._disconnect()
            await self._connect()

    async def execute(self, code: str, timeout: float | None = None) -> ExecutionResult:
        """Run code and return its result. Raises ExecutionError, TimeoutError; the kernel lives on."""
        async with aclosing(self.stream(code, timeout)) as items:
            async for item in items:
                if isinstance(item, ExecutionResult):
                    return item
        raise AssertionError("the last item is the result")

    async def stream(self, code: str, timeout: float | None = None) -> AsyncGenerator[str | ExecutionResult]:
        """Run code; yield what it prints, and last the result. Raises ExecutionError, TimeoutError."""
        gateway, kernel = self._live
        unasked = ""
        try:
            async with aclosing(kernel.stream(code, timeout)) as items:
                async for item in items:
                    if isinstance(item, ApprovalRequest):
                        unasked = await self._settle(item, gateway.env) or unasked
                    else:
                        yield item
        except ExecutionError as error:  # SECURITY: said here, where no code reads it: it has paths and addresses
            raise (ExecutionError(f"{error}\n{unasked}") if unasked else error) from None

    async def interrupt(self) -> None:
        """Interrupt what runs: it raises ExecutionError. The kernel lives on."""
        self._live[1].interrupt()

    async def drain(self, timeout: float = 1.0) -> int:
        """How many messages were thrown away: 0. What nobody read is gone with its execution."""
        del timeout
        return 0

    async def interrupt_and_drain(self, drain_timeout: float = 1.0, settle_delay: float = 0.2) -> None:
        """As `interrupt`."""
        del drain_timeout, settle_delay
        await self.interrupt()

    async def _settle(self, asked: ApprovalRequest, env: Mapping[str, str]) -> str:
        """Have it answered; why nobody accepted it, if a tool server said so."""
        host, port = self.tool_server_host, self.tool_server_port
        if asked.server_name != shell_server.NAME:
            host, port = env.get("TOOL_SERVER_HOST", "localhost"), int(env.get("TOOL_SERVER_PORT", "8900"))
        try:
            await ApprovalRequestor(asked.server_name, host, port).request(asked.tool_name, asked.tool_args)
        except ToolRunnerError as error:
            why = f"{asked.server_name}.{asked.tool_name}: {error}"
            _log.warning("%s", why)
            await asked.reject()
            return why
        # SECURITY: what policy keeps for a person is refused
        await (asked.reject() if asked.human_only else asked.accept())
        return ""

    @property
    def _live(self) -> tuple[KernelGateway, KernelSession]:
        if self._connected is None or not self._connected[0].is_running:
            raise RuntimeError("Not connected to kernel")
        return self._connected[:2]

    async def _gateway(self, retries: int, retry_interval: float) -> KernelGateway:
        for turn in range(retries):
            if (gateway := KernelGateway.at(self.host, self.port)) is not None:
                return gateway
            if turn + 1 < retries:
                await asyncio.sleep(retry_interval)
        raise RuntimeError(f"no kernel gateway runs at {self.host}:{self.port} in this process; start one")
