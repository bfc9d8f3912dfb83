"""`ToolServer`: MCP tools for programs of this machine that have its token. It listens on loopback only."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Self

from moonpool.ipybox.tool_exec.addresses import Access, address_of, publish
from moonpool.ipybox.tool_exec.app import ToolServerApp
from moonpool.ipybox.tool_exec.approval.server import ApprovalChannel
from moonpool.ipybox.tool_exec.host_tools import HostTools
from moonpool.sdk.runtime_thread import RuntimeThread
from moonpool.server.http.loopback import Listener, Patience, serving

_PATIENCE = Patience(connections_max=320, message_bytes_max=64 * 1024)


class ToolServer:
    """Calls tools of MCP servers, with approval where it is asked for. Use it with `async with`, or `start` and `stop`.

    A server is started by the first call of one of its tools. Which command that is, the host knows by the server's
    name: from `generate_mcp_sources`, or a `ToolRunner` of this process. `ToolRunner`, `ApprovalClient` and generated
    packages of the same user find its token by host and port. It serves any event loop and thread.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 8900,
        approval_required: bool = False,
        approval_timeout: float | None = None,
        connect_timeout: float = 30,
        log_to_stderr: bool = False,
        log_level: str = "INFO",
    ) -> None:
        """Nothing is started yet. Port 0 is any free one. `approval_timeout` and `connect_timeout` are seconds."""
        self.host, self.port = host, port
        self.approval_required, self.approval_timeout = approval_required, approval_timeout
        self.connect_timeout = connect_timeout
        self.log_to_stderr, self.log_level = log_to_stderr, log_level
        self._thread: RuntimeThread | None = None
        self._stack = AsyncExitStack()
        self._ended: Future[None] = Future()
        self._ended.set_result(None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen. Raises RuntimeError when it runs, ListenError, ConfigError for an address that others reach."""
        if self._thread is not None:
            raise RuntimeError("Server already running")
        logging.getLogger("moonpool.ipybox").setLevel(self.log_level)
        listener = Listener(address_of(self.host, self.port))
        self.port, self._ended = listener.address.port, Future()
        self._thread = thread = RuntimeThread.join()
        try:
            await thread.call(lambda: self._serve(thread, listener)).wait()
        except BaseException:
            listener.close()
            await self.stop()
            raise

    async def stop(self) -> None:
        """End it, its MCP servers and what waits for them. Stopping twice is fine."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            await thread.call(self._close).wait()
        finally:
            thread.leave()
            self._ended.set_result(None)

    async def join(self) -> None:
        """Wait until it is stopped."""
        await asyncio.shield(asyncio.wrap_future(self._ended))

    async def _serve(self, thread: RuntimeThread, listener: Listener) -> None:
        channel = ApprovalChannel(self.approval_required, self.approval_timeout)
        tools, access = HostTools(thread, channel, self.connect_timeout), Access()
        app = ToolServerApp(tools, channel, listener.address.names, access)
        async with AsyncExitStack() as stack:
            thread.closers.add(self._close)
            stack.callback(thread.closers.discard, self._close)
            stack.push_async_callback(tools.close)
            await stack.enter_async_context(serving(listener, app, patience=_PATIENCE))
            stack.push_async_callback(channel.disconnect)
            path = await asyncio.to_thread(publish, listener.address, access)
            stack.callback(path.unlink, missing_ok=True)
            self._stack = stack.pop_all()

    async def _close(self) -> None:
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()
