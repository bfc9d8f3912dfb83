"""How a connection is made: the transports that the configuration allows, in its order, within one time limit each.

INVARIANT: when `open_connection` is left, on any path, nothing of the connection is left.
"""

from __future__ import annotations

import math
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2

from moonpool.upstreams.base import UpstreamConnectTimeoutError, UpstreamError
from moonpool.upstreams.connection import ServerConnection
from moonpool.upstreams.dispatcher import AskingDispatcher
from moonpool.upstreams.http import Exchange, open_streamable_http
from moonpool.upstreams.message_rate import Intake
from moonpool.upstreams.notification_stream import NotificationStream
from moonpool.upstreams.process import ServerProcess, open_process
from moonpool.upstreams.protocol_version import is_modern
from moonpool.upstreams.server_requests import PendingServerRequests
from moonpool.upstreams.sse import open_legacy_sse
from moonpool.upstreams.stdio import LineReader, LineWriter
from moonpool.upstreams.streams import EndOfMessages, WatchedReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.configuration.servers import ServerConfig
    from moonpool.upstreams.connection import ConnectionSpec

GOODBYE_S: Final = 5.0
"""How long a remote server may take to end a session; a process has `StopTimes`."""


@asynccontextmanager
async def open_connection(spec: ConnectionSpec) -> AsyncGenerator[ServerConnection]:
    """Connect and negotiate within `connect_timeout_s`. Exit: nothing of the connection is left.

    The transports that the configuration allows are tried in its order (X-12); once one has worked, no other is tried:
    the server must not choose its transport. An error of the handshake leaves the SDK's task groups as a value and is
    raised outside them, so that it arrives as itself.
    """
    kinds = (spec.known_transport,) if spec.known_transport else _transports(spec.config)
    for kind in kinds:
        attempt = _ConnectAttempt(spec, kind)
        with anyio.CancelScope(deadline=anyio.current_time() + spec.config.connect_timeout_s) as scope:
            async with AsyncExitStack() as stack:
                link = await attempt.connect(stack)
                if link is not None:
                    scope.deadline = math.inf
                    try:
                        yield link
                    finally:
                        link.ended.set()
                        scope.deadline = anyio.current_time() + GOODBYE_S
                    return
        if attempt.connected:
            return  # ending the session took too long
        if kind == kinds[-1] or not attempt.exchange.no_such_transport:
            raise attempt.failure()


class _ConnectAttempt:
    """One attempt over one transport."""

    def __init__(self, spec: ConnectionSpec, kind: str) -> None:
        self.exchange = Exchange()
        self.connected = False
        self._spec = spec
        self._kind = kind
        self._link: ServerConnection | None = None
        self._error: UpstreamError | None = None

    async def connect(self, stack: AsyncExitStack) -> ServerConnection | None:
        """A connection whose resources are on `stack`, or None; `failure` then says why."""
        try:
            link = self._link = await self._enter(stack)
            await link.negotiate(self.exchange)
        except UpstreamError as exc:
            self._error = exc
            return None
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        if is_modern(link.protocol_version):
            tasks.start_soon(link.follow_changes)
        self.connected = True
        return link

    def failure(self) -> UpstreamError:
        if self._error is not None:
            return self._error
        if self._link is not None:
            return self._link.failures.of_silence()
        config = self._spec.config
        problem = f"did not answer at {config.address} within {config.connect_timeout_s:g} s"
        return UpstreamConnectTimeoutError(config.server_id, problem)

    async def _enter(self, stack: AsyncExitStack) -> ServerConnection:
        spec, config = self._spec, self._spec.config
        process: ServerProcess | None = None
        stream = NotificationStream(on_gap=spec.may_have_missed)
        reader: EndOfMessages
        writer: Any
        if self._kind == "stdio":
            opened = open_process(config, spec.environ, times=spec.stop_times)
            process = await stack.enter_async_context(opened)
            intake = Intake()
            reader, writer = LineReader(process, intake), LineWriter(process, intake)
        elif self._kind == "sse":
            reader, writer = await stack.enter_async_context(open_legacy_sse(config, self.exchange, spec.credentials))
        else:
            opened = open_streamable_http(config, spec.credentials, stream)
            inner, writer = await stack.enter_async_context(opened)
            reader = WatchedReader(inner)
        server_requests = PendingServerRequests(config, spec.handlers, spec.folders)
        link = ServerConnection(
            spec, reader, AskingDispatcher(reader, writer, server_requests), process, server_requests
        )
        link.deaf, link.transport = stream.lost, self._kind
        await stack.enter_async_context(link.session)
        return link


def _transports(config: ServerConfig) -> tuple[str, ...]:
    if config.transport != "auto":
        return (config.transport,)
    path = httpx2.URL(config.url).path.rstrip("/")
    return ("sse", "http") if path.endswith("/sse") else ("http", "sse")
