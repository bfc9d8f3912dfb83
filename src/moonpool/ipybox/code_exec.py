"""`CodeExecutor`: code in a sandboxed IPython kernel, and approval of its tool calls."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from moonpool.ipybox import shell_server
from moonpool.ipybox.kernel_session import ExecutionError, ExecutionResult, KernelSession
from moonpool.ipybox.options import (
    ExecutorOptions,
    check_shell_approval,
    environment,
    given_path,
    import_folders,
    package_roots,
    sandbox_rules,
    work_folders,
)
from moonpool.ipybox.tool_exec.approval.client import ApprovalRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.ipybox.sandbox_config import SandboxRules


class CodeExecutionError(Exception):
    """Code failed: a syntax error, an exception, a refused or failed tool call, a dead kernel. With the traceback."""


@dataclass
class CodeExecutionResult:
    """What code that succeeded came to."""

    text: str | None
    """What it printed, on both streams, and its last expression; stripped. None: nothing."""
    images: list[Path]
    """Files of the pictures that it showed."""


@dataclass
class CodeExecutionChunk:
    """Some of what running code prints."""

    text: str


class CodeExecutor:
    """Runs Python code in an IPython kernel in a sandbox. Use it with `async with`, or `start` and `stop`."""

    def __init__(  # noqa: PLR0913, PLR0917  ipybox's parameters
        self,
        tool_server_host: str = "localhost",
        tool_server_port: int | None = None,
        kernel_gateway_host: str = "localhost",
        kernel_gateway_port: int | None = None,
        kernel_env: dict[str, str] | None = None,
        working_dir: Path | str | None = None,
        images_dir: Path | str | None = None,
        approval_timeout: float | None = None,
        connect_timeout: float = 30,
        kernel_init_timeout: float = 10,
        sandbox: bool = False,
        sandbox_config: Path | str | None = None,
        log_level: str = "WARNING",
        approve_tool_calls: bool = True,
        approve_shell_cmds: bool = False,
        require_shell_escape: bool = False,
    ) -> None:
        """Nothing is started yet. Hosts and ports are taken and no port is opened.

        `kernel_env` are the kernel's variables, it inherits none. Packages are found in `mcptools` of `working_dir`
        (the current directory) and of the folders in `kernel_env["PYTHONPATH"]`. An execution that leaves a given
        `working_dir` is put back after it, which its output says. Pictures go to the folder `images_dir` (`images`).
        `approval_timeout` is how long a call waits for an answer, `connect_timeout` for its server,
        `kernel_init_timeout` the start for the kernel; seconds, None: for ever. `sandbox=False` is sandboxed as well.
        `sandbox_config` is a settings file of sandbox-runtime, read at the first start; code may reach its domains, and
        none without one, and cannot change it.
        `approve_tool_calls`: `stream` asks about every call; else about none. `approve_shell_cmds`: it asks about each
        `!cmd` (tool `shell`) and `%%bash` (`shell_magic`) of the server `ipybox`; with `require_shell_escape` code that
        starts a process otherwise raises RuntimeError. Raises ValueError, InputError.
        """
        check_shell_approval(approve=approve_shell_cmds, require=require_shell_escape)
        self.tool_server_host, self.tool_server_port = tool_server_host, tool_server_port
        self.kernel_gateway_host, self.kernel_gateway_port = kernel_gateway_host, kernel_gateway_port
        self.kernel_env = kernel_env or {}
        folder = given_path(working_dir, "working_dir")
        self.working_dir = folder.resolve() if folder is not None else None
        self.images_dir = given_path(images_dir, "images_dir")
        self.approval_timeout, self.connect_timeout = approval_timeout, connect_timeout
        self.kernel_init_timeout = kernel_init_timeout
        self.sandbox, self.sandbox_config = sandbox, given_path(sandbox_config, "sandbox_config")
        self.log_level = log_level
        self.approve_tool_calls = approve_tool_calls
        self.approve_shell_cmds, self.require_shell_escape = approve_shell_cmds, require_shell_escape
        self._rules: SandboxRules | None = None
        self._kernel: KernelSession | None = None
        self._changing = asyncio.Lock()  # which kernel it has
        logging.getLogger("moonpool.ipybox").setLevel(log_level)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the kernel. Raises TimeoutError, ConfigError, HostUnfitError and the like."""
        async with self._changing:
            if self._kernel is not None:
                raise RuntimeError("this executor runs already; call reset() for a new kernel")
            self._kernel = await self._started()

    async def stop(self) -> None:
        """End the kernel and the servers. Stopping twice is fine."""
        async with self._changing:
            kernel, self._kernel = self._kernel, None
            if kernel is not None:
                await kernel.stop()

    async def reset(self) -> None:
        """Start a new kernel, without variables and definitions. Servers start again."""
        async with self._changing:
            before, self._kernel = self._started_kernel, await self._started()
            await before.stop()

    def cancel(self) -> None:
        """End what runs: `stream` ends without a result, `execute` returns an empty one. The kernel lives on."""
        if self._kernel is not None:
            self._kernel.cancel()

    async def stream(
        self,
        code: str,
        timeout: float | None = None,
        chunks: bool = False,
    ) -> AsyncGenerator[ApprovalRequest | CodeExecutionChunk | CodeExecutionResult]:
        """Run code; yield requests, with `chunks` what it prints, and last the result.

        `timeout` is in seconds; waiting for answers does not count. Raises CodeExecutionError, TimeoutError; the kernel
        lives on. Closing the generator early interrupts the code and waits for its end.
        """
        try:
            async with aclosing(self._started_kernel.stream(code, timeout)) as items:
                async for item in items:
                    match item:
                        case ApprovalRequest() if self.approve_tool_calls or self._is_about_shell(item):
                            yield item
                        case ApprovalRequest():
                            await _answer(item)
                        case str():
                            if chunks:
                                yield CodeExecutionChunk(text=item)
                        case ExecutionResult(text=text, images=images):
                            yield CodeExecutionResult(text=text, images=images)
        except ExecutionError as error:
            raise CodeExecutionError(str(error)) from None

    async def execute(self, code: str, timeout: float | None = None) -> CodeExecutionResult:
        """Run code and return its result. Calls that policy asks about are accepted.

        Not those that policy denies or keeps for a person. Raises CodeExecutionError, TimeoutError.
        """
        async with aclosing(self.stream(code, timeout=timeout)) as items:
            async for item in items:
                match item:
                    case ApprovalRequest():
                        await _answer(item)
                    case CodeExecutionResult():
                        return item
                    case _:
                        pass
        return CodeExecutionResult(text=None, images=[])

    def _is_about_shell(self, request: ApprovalRequest) -> bool:
        return self.approve_shell_cmds and request.server_name == shell_server.NAME

    @property
    def _started_kernel(self) -> KernelSession:
        if self._kernel is None:
            raise RuntimeError("this executor is not started; use `async with`, or call start()")
        return self._kernel

    async def _started(self) -> KernelSession:
        if self._rules is None:  # SECURITY: once; code may have written to the file since
            self._rules = await asyncio.to_thread(sandbox_rules, sandbox=self.sandbox, config=self.sandbox_config)
        work, imports = work_folders(self.working_dir, self.images_dir), import_folders(self.kernel_env)
        network = await asyncio.to_thread(self._rules.domains, work, imports, os.environ)
        options = ExecutorOptions(
            environment=environment(),
            network=network or None,
            rules=self._rules,
            roots=package_roots(self.working_dir, self.kernel_env),
            approval_timeout=self.approval_timeout,
            connect_timeout=self.connect_timeout,
            asks=self.approve_tool_calls,
            asks_shell=self.approve_shell_cmds,
            apart=object(),
            work=work,
            imports=imports,
        )
        kernel = KernelSession(
            options,
            self.kernel_env,
            self.images_dir or Path("images"),
            self.kernel_init_timeout,
            require_shell_escape=self.require_shell_escape,
            stays=self.working_dir is not None,
        )
        try:
            await kernel.start()
        except BaseException:
            await kernel.stop()
            raise
        return kernel


async def _answer(request: ApprovalRequest) -> None:
    """SECURITY: nobody sees this question, so what policy keeps for a person is refused."""
    await (request.reject() if request.human_only else request.accept())
