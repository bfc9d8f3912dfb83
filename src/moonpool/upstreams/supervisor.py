"""One upstream as callers see it: connects on first use, keeps time limits, restarts the server after it ended.

Each connection has one owner task, which enters it, waits for its end and leaves it, because the SDK's scopes must be
left by the task that entered them. Calls do not pass through the owner: a caller uses the live connection directly.

RULE: a call is sent at most once, unless the server certainly did not run it (its session was gone). RULE: a server
that missed a time limit gets a ping before the next call; if it does not answer and nothing else is under way, it is
restarted.
"""

from __future__ import annotations

import importlib
import logging
import math
import sys
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

from moonpool.core.phrases import said
from moonpool.upstreams.backoff import Returning
from moonpool.upstreams.base import (
    Change,
    UpstreamCallTimeoutError,
    UpstreamClosedError,
    UpstreamConnectTimeoutError,
    UpstreamDiedError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamRateLimitedError,
    UpstreamServerFaultError,
    UpstreamSessionGoneError,
    UpstreamUnreachableError,
)
from moonpool.upstreams.circuit import Circuit
from moonpool.upstreams.open_call import ticking
from moonpool.upstreams.process import StopTimes
from moonpool.upstreams.rate_limit import CallRate
from moonpool.upstreams.root_folders import RootFolders
from moonpool.upstreams.server_requests import ServerRequestHandlers
from moonpool.upstreams.subscription_tools import OBSERVING, Observing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import TaskGroup

    from moonpool.configuration.servers import ServerConfig
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ServerListing
    from moonpool.oauth.credentials import Credentials
    from moonpool.upstreams.connection import ServerConnection

SIGN_OF_LIFE_S: Final = 2.0
COME_BACK_S: Final = 1.0
PING_S_MAX: Final = 10.0
"""How long an idle server may take to answer a ping."""
_DIALLING_MODULE: Final = "moonpool.upstreams.connecting"
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class _Connection:
    """One connection from its first attempt to its end."""

    def __init__(self) -> None:
        self.settled = anyio.Event()  # `connection` or `error` is set
        self.finished = anyio.Event()  # nothing of it is left
        self.link: ServerConnection | None = None
        self.error: UpstreamError | None = None
        self.made_at = 0.0

    @property
    def usable(self) -> bool:
        """Connecting, or connected."""
        return self.error is None and (self.link is None or self.link.alive)


class SupervisedUpstream:
    """The `Upstream` of one configured server."""

    def __init__(  # noqa: PLR0913  what a LinkSpec needs, and the tasks
        self,
        config: ServerConfig,
        tasks: TaskGroup,
        *,
        environ: Mapping[str, str],
        known_version: str | None = None,
        on_change: Callable[[Change], None] | None = None,
        stop_times: StopTimes | None = None,
        handlers: ServerRequestHandlers | None = None,
        credentials: Credentials | None = None,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self.server_id = config.server_id
        self._config = config
        self._tasks = tasks
        self._environ = environ
        self._known_version, self._known_transport = known_version, ""
        self._on_change = on_change
        self._observing = Observing(config.server_id, self._within)
        self._coming_back, self._returning, self._clock = False, Returning(), clock
        self.roots = RootFolders(config.server_id, config.roots)
        self._stop_times = stop_times or StopTimes()
        self._handlers = handlers or ServerRequestHandlers()
        self._credentials = credentials
        self._circuit = Circuit(config, clock)
        self._rate = CallRate(
            config.server_id, calls_per_minute=config.calls_per_minute, burst=config.calls_burst, clock=clock
        )
        self._slots = anyio.Semaphore(config.concurrency_max, fast_acquire=True)
        self._in_flight = 0
        self._connection: _Connection | None = None
        self._was_connected = False
        self._closing = False

    @property
    def protocol_version(self) -> str | None:
        """The protocol version of the last connection, or the one that was known before."""
        return self._known_version

    async def list_tools(self) -> ServerListing:
        limit_s = self._config.connect_timeout_s + self._config.timeout_s
        return await self._within(limit_s, "tools/list", lambda link: link.list_tools())

    async def call_tool(self, name: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        if name in OBSERVING:
            return await self._observing.call(name, arguments, timeout_s=timeout_s)
        timeout_s -= await self._rate.wait_turn(timeout_s)
        return await self._within(timeout_s, name, lambda link: link.call_tool(name, arguments))

    def forget_caller(self, caller: str) -> None:
        """End the subscriptions of a session that is over; the server is told in the background."""
        if (unwanted := self._observing.subscriptions.forget(caller)) and not self._closing:
            self._tasks.start_soon(self._observing.end, unwanted)

    def close_nowait(self) -> None:
        """Begin an orderly end of the connection; calls under way fail."""
        self._closing = True
        if self._connection is not None and self._connection.link is not None:
            self._connection.link.ended.set()

    async def wait_closed(self) -> None:
        """Wait for a connection that was made; one still in the making is cancelled by the owner of the task group."""
        if self._connection is not None and self._connection.link is not None:
            await self._connection.finished.wait()

    async def _within(self, timeout_s: float, doing: str, use: Callable[[ServerConnection], Awaitable[_T]]) -> _T:
        link: ServerConnection | None = None
        with self._circuit.entered(), anyio.move_on_after(timeout_s) as scope, ticking(scope):
            for last_try in (False, True):
                async with self._slots:
                    link = await self._ready_link(timeout_s)
                    try:
                        return await self._use(link, use)
                    except UpstreamSessionGoneError:
                        if last_try:
                            raise
        raise self._timed_out(link, doing, timeout_s)

    async def _use(self, link: ServerConnection, use: Callable[[ServerConnection], Awaitable[_T]]) -> _T:
        """Run one request and learn from how it ends."""
        self._in_flight += 1
        try:
            outcome = await use(link)
        except (UpstreamDiedError, UpstreamUnreachableError) as exc:
            link.ended.set()
            if self._closing:
                raise self._closed_error() from None
            if not isinstance(exc, UpstreamSessionGoneError) and not link.blamed:
                link.blamed = True  # all calls of a connection that ends fail, which is one failure
                self._failed(exc)
            raise
        except (UpstreamRateLimitedError, UpstreamServerFaultError) as exc:
            if exc.retry_after_s:
                self._rate.hold(exc.retry_after_s)
            raise
        except UpstreamProtocolError:
            self._doubt_version(link)
            raise
        finally:
            self._in_flight -= 1
        link.blind = False
        self._circuit.succeeded()
        return outcome

    async def _ready_link(self, timeout_s: float) -> ServerConnection:
        """The live connection, made if needed. Raises the error of an attempt that failed meanwhile."""
        while True:
            if self._closing:
                raise self._closed_error()
            connection = self._connection
            if connection is None or not connection.usable:
                connection = self._connect(after=connection)
            if not connection.settled.is_set():
                await connection.settled.wait()
            link = connection.link
            if link is None:
                raise connection.error or self._closed_error()
            if self.roots.folders and not link.knows_roots and self._in_flight == 0:
                link.ended.set()  # it was not told that there may be roots, which only a new connection can
                continue
            if link.suspect and self._in_flight == 0:
                if not await link.answers(min(SIGN_OF_LIFE_S, timeout_s / 2)):
                    link.retire()
                    self._failed(UpstreamDiedError(self.server_id, "did not answer a ping after a call timed out"))
                    continue
                link.suspect = False
            return link

    def _connect(self, *, after: _Connection | None) -> _Connection:
        self._circuit.check_rested()
        connection = self._connection = _Connection()
        self._tasks.start_soon(self._own, connection, after)
        return connection

    async def _own(self, connection: _Connection, after: _Connection | None) -> None:
        """The owner task. Never raises: a failing server must not end the others' task group."""
        try:
            if after is not None:
                await after.finished.wait()
            await self._hold(connection)
        except UpstreamError as exc:
            connection.error = exc
        except Exception as exc:  # noqa: BLE001  whatever the SDK or a transport raises is this server's failure only
            problem = f"failed in an unexpected way: {type(exc).__name__}: {said(str(exc), 300)}"
            if connection.link is not None:  # nothing waits for the end of an open connection
                _log.error("server %r %s", self.server_id, problem)
            connection.error = UpstreamProtocolError(self.server_id, problem)
        finally:
            if connection.link is None:
                connection.error = connection.error or self._closed_error()
                self._failed(connection.error)
            connection.settled.set()
            connection.finished.set()
            self._returning.lived(self._clock() - connection.made_at if connection.link is not None else 0.0)
            if connection.link is not None and self._observing.subscriptions.uris and not self._coming_back:
                self._tasks.start_soon(self._come_back)

    async def _come_back(self) -> None:
        """A caller that waits for notifications makes no call: reconnect without one, as often as the circuit allows
        (D-017).
        """
        self._coming_back = True
        try:
            await anyio.sleep(self._returning.wait_s)
            while self._observing.subscriptions.uris and not self._closing:
                try:
                    with self._circuit.entered():
                        await self._ready_link(self._config.connect_timeout_s)
                    return
                except UpstreamError:
                    await anyio.sleep(max(self._circuit.wait_s, COME_BACK_S))
        finally:
            self._coming_back = False

    async def _hold(self, connection: _Connection) -> None:
        if _DIALLING_MODULE not in sys.modules:  # a second of imports must not stop the event loop
            await anyio.to_thread.run_sync(importlib.import_module, _DIALLING_MODULE)
        from moonpool.upstreams.connecting import open_connection  # noqa: PLC0415
        from moonpool.upstreams.connection import ConnectionSpec  # noqa: PLC0415

        spec = ConnectionSpec(
            config=self._config,
            environ=self._environ,
            known_version=self._known_version,
            known_transport=self._known_transport,
            on_change=self._heard,
            subscriptions=self._observing.subscriptions,
            folders=self.roots,
            stop_times=self._stop_times,
            handlers=self._handlers,
            credentials=self._credentials,
        )
        async with open_connection(spec) as link:
            self._known_version, self._known_transport = link.protocol_version, link.transport
            connection.link, connection.made_at = link, self._clock()
            connection.settled.set()
            if self._was_connected:
                self._heard("tools")  # it may have come back with other tools
            if not self._closing:
                async with anyio.create_task_group() as tasks:
                    if self._was_connected:
                        tasks.start_soon(self._observing.establish, link, self._heard)
                    self._was_connected = True
                    tasks.start_soon(link.follow_roots)
                    tasks.start_soon(self._observing.leave_when_deaf, link, lambda: self._in_flight > 0)
                    await self._keep(link)
                    tasks.cancel_scope.cancel()

    async def _keep(self, link: ServerConnection) -> None:
        """Wait for the end of a connection; one that is idle and does not answer pings is ended here (A-067)."""
        ping_s = self._config.ping_s or math.inf
        while link.alive:
            with anyio.move_on_after(ping_s):
                await link.ended.wait()
            if not link.alive or self._in_flight or await link.answers(min(PING_S_MAX, ping_s)):
                continue
            if link.alive and not self._in_flight:
                _log.warning("server %r did not answer a ping while idle and is reconnected", self.server_id)
                link.retire()

    def _heard(self, kind: str, uri: str = "") -> None:
        if kind == "resource":
            self._observing.subscriptions.heard(uri)
        if self._on_change is not None and not self._closing:
            self._on_change(Change(server_id=self.server_id, kind=kind, uri=uri))

    def _timed_out(self, link: ServerConnection | None, doing: str, timeout_s: float) -> UpstreamError:
        if link is None:
            problem = f"was not ready within {timeout_s:g} s (starting, or busy with other calls); call {doing!r} again"
            return UpstreamConnectTimeoutError(self.server_id, problem, for_guest=problem)
        link.suspect = True
        self._doubt_version(link)
        problem = f"did not answer {doing!r} within {timeout_s:g} s and was told to cancel it"
        return UpstreamCallTimeoutError(self.server_id, f"{problem}{link.failures.silence_note}", for_guest=problem)

    def _doubt_version(self, link: ServerConnection) -> None:
        """A server that fails the first request after its version was assumed may have changed: probe it next time."""
        if link.blind:
            self._known_version = None
            link.ended.set()

    def _failed(self, error: UpstreamError) -> None:
        if error.retry_after_s:
            self._rate.hold(error.retry_after_s)
        self._circuit.failed(error)

    def _closed_error(self) -> UpstreamClosedError:
        return UpstreamClosedError(self.server_id, "is being shut down with this process")
