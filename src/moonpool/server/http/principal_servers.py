"""For each (organisation, principal, profile) one set of tools, and the connections over it.

SECURITY: everything that an id of a client can name (session, stream, event, kept call, named session of a kernel) is
looked up below this key, so what belongs to another principal is unknown here by construction.

All of it is bounded: callers, and of each its sessions and streams. What was idle for long enough is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.server.http.event_streams import EventLog
from moonpool.server.http.mcp_session import McpSession
from moonpool.server.mcp.server import OwnServer
from moonpool.server.mcp.stateless import StatelessTools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

    from mcp.server import Server

    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sse_connection import SseConnection
    from moonpool.server.mcp.profiles import Profile
    from moonpool.server.mcp.server import ServedTools

CALLERS_MAX: Final = 512
SESSIONS_MAX: Final = 64
SSE_CONNECTIONS_MAX: Final = 32
SESSION_IDLE_S: Final = 1800.0
CALLER_IDLE_S: Final = 3600.0
"""Longer than any kept call or named session of its tools, see `Settings.session_idle_s` and `approval_expiry_s`."""
TIDY_S: Final = 15.0
_log = logging.getLogger(__name__)


class ServiceBusyError(MoonpoolError):
    """The service has as many callers, sessions or streams open as it may (HTTP 503). Nothing was opened."""

    code = "service_busy"
    fault = Fault.HOST
    _names_host = False
    retryable = True


class ToolsSource(Protocol):
    """Opens what a caller uses (`moonpool.bootstrap.service.Service`)."""

    async def open_tools(self, caller: HttpCaller, profile: Profile, /) -> ServedTools | OwnServer | StatelessTools:
        """The tools of this caller, whose tenant is opened for it. They are closed by who asked for them."""
        ...


@dataclass(frozen=True, slots=True)
class ServerKey:
    """Whose tools these are. Two credentials of one principal share them, unless their rights differ."""

    organisation: str
    principal: str
    profile: str
    roles: tuple[str, ...]
    is_person: bool
    client_id: str | None

    @classmethod
    def of(cls, caller: HttpCaller, profile: Profile) -> ServerKey:
        return cls(
            caller.organisation, caller.principal, profile.name, caller.roles, caller.is_person, caller.client_id
        )


class PrincipalServer:
    """The tools of one caller, its sessions, and a server for requests without one."""

    def __init__(self, tools: ServedTools | OwnServer | StatelessTools, profile: Profile) -> None:
        self._tools, self.profile = tools, profile
        self._log = EventLog()
        self.sessions: dict[str, McpSession] = {}
        self.sse_connections: dict[str, SseConnection] = {}
        self.quiet_streams: set[asyncio.Event] = set()  # those of a stateless profile; setting one ends it
        self.stateless: StatelessTools | None = None
        self._modern: StreamableHTTPSessionManager | None = None
        if isinstance(tools, StatelessTools):
            self.stateless = tools
        else:
            self._modern = StreamableHTTPSessionManager(profile.make_server(tools), stateless=True)
        self._leave, self._is_over = asyncio.Event(), False
        self._closing = set[asyncio.Task[None]]()
        self._lingering: dict[asyncio.Task[None], SseConnection] = {}
        self._running = asyncio.Event()
        self._holder = asyncio.create_task(self._hold())
        self._requests = 0
        self.used_at = _now()

    @property
    def modern(self) -> StreamableHTTPSessionManager:
        """The SDK's entry for requests of 2026-07-28."""
        assert self._modern is not None, "a stateless profile has no server of the SDK"
        return self._modern

    @property
    def server(self) -> Server[Any]:
        """The server of all requests that have no session."""
        return self.modern.app

    async def _hold(self) -> None:
        """The SDK's manager must be left by the task that entered it."""
        async with AsyncExitStack() as stack:
            if self._modern is not None:
                await stack.enter_async_context(self._modern.run())
            self._running.set()
            await self._leave.wait()

    async def begin(self) -> None:
        """Wait until it can serve, and let the tools prepare."""
        self._tools.prepare()
        await self._running.wait()

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it, and no execution goes on without a request."""
        used = self._requests or self.sessions or self.sse_connections or self.quiet_streams
        return not (used or self._tools.is_busy)

    @property
    def is_resting(self) -> bool:
        """Whether it has nothing but sessions in which nothing runs and to which nobody listens."""
        busy = self._requests or self.sse_connections or self.quiet_streams or self._tools.is_busy
        return not busy and all(session.is_idle for session in self.sessions.values())

    @property
    def open_calls(self) -> int:
        """Requests in progress, and calls whose connection has broken."""
        open_sessions = sum(not session.idle.is_set() for session in self.sessions.values())
        return self._requests + open_sessions + sum(not one.idle.is_set() for one in self.sse_connections.values())

    def runs(self, name: object) -> bool:
        """Whether a call of the tool `name` begins an execution: code, or one tool where tools are called directly."""
        match self._tools:
            case StatelessTools() as tools:
                return tools.runs(name)
            case OwnServer():
                return True
            case tools:
                return name == tools.offer.runs

    @contextmanager
    def using(self) -> Generator[PrincipalServer]:
        """It is not closed inside the block."""
        self._requests += 1
        self.used_at = _now()
        try:
            yield self
        finally:
            self._requests -= 1
            self.used_at = _now()

    def make_server(self) -> Server[Any]:
        assert not isinstance(self._tools, StatelessTools), "a stateless profile has no connections"
        return self.profile.make_server(self._tools)

    def open_session(self) -> McpSession:
        """A session whose handshake is to come. Raises ServiceBusyError."""
        if self._is_over:
            raise ServiceBusyError("what this caller had open has just ended; send initialize again")
        if len(self.sessions) >= SESSIONS_MAX:
            idle = [session for session in self.sessions.values() if session.is_idle]
            if not idle:
                raise ServiceBusyError(f"{SESSIONS_MAX} sessions of this caller are in use; end some with DELETE")
            self.close_session(min(idle, key=lambda session: session.used_at))
        session = McpSession(self.make_server(), self._log)
        self.sessions[session.session_id] = session
        return session

    def close_session(self, session: McpSession) -> None:
        """Unknown from now on; ends in the background."""
        if self.sessions.pop(session.session_id, None) is not None:
            task = asyncio.create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def end_sse(self, connection: SseConnection) -> None:
        """Its client has left: it ends when nothing runs in it any more."""
        connection.leave()
        task = asyncio.create_task(connection.wait_idle())
        self._lingering[task] = connection

        def ended(task: asyncio.Task[None]) -> None:
            del self._lingering[task]
            del self.sse_connections[connection.session_id]

        task.add_done_callback(ended)

    def tidy(self) -> None:
        """Close sessions that were idle for long."""
        for session in tuple(self.sessions.values()):
            if not session.is_running or (session.is_idle and _now() - session.used_at > SESSION_IDLE_S):
                self.close_session(session)

    def end_listening(self) -> None:
        """End streams on which nothing but news travels, so that their connections close."""
        for session in self.sessions.values():
            session.end_listening()
        for connection in self.sse_connections.values():
            connection.leave()
        for over in self.quiet_streams:
            over.set()

    async def close(self) -> None:
        """End everything that runs."""
        self._is_over = True
        for over in self.quiet_streams:
            over.set()
        for session in tuple(self.sessions.values()):
            self.close_session(session)
        for connection in tuple(self.sse_connections.values()):
            await connection.close()
        if ending := {*self._closing, *self._lingering}:
            await asyncio.wait(ending)
        await self._tools.close()
        self._leave.set()
        await asyncio.wait({self._holder})


class PrincipalServers:
    """All callers' servers. Each is opened once, when its caller first needs it."""

    def __init__(self, source: ToolsSource) -> None:
        self._source = source
        self._servers: dict[ServerKey, PrincipalServer] = {}
        self._opening: dict[ServerKey, asyncio.Task[PrincipalServer]] = {}
        self._closing = set[asyncio.Task[None]]()
        self._tidying = asyncio.create_task(self._tidy_on())

    async def get(self, caller: HttpCaller, profile: Profile) -> PrincipalServer:
        """The server of this caller. Raises ServiceBusyError, and what opening its tenant raises."""
        key = ServerKey.of(caller, profile)
        if (server := self._servers.get(key)) is not None:
            return server
        opening = self._opening.get(key)
        if opening is None:
            self._make_room()
            opening = self._opening[key] = asyncio.create_task(self._open(key, caller, profile))
            opening.add_done_callback(lambda _: self._opening.pop(key))
        return await asyncio.shield(opening)

    async def _open(self, key: ServerKey, caller: HttpCaller, profile: Profile) -> PrincipalServer:
        tools = await self._source.open_tools(caller, profile)
        server = PrincipalServer(tools, profile)
        await server.begin()
        self._servers[key] = server
        return server

    @property
    def owners(self) -> set[tuple[str, str]]:
        """Organisation and principal of those that have a server."""
        return {(key.organisation, key.principal) for key in self._servers}

    def uses(self, organisation: str) -> bool:
        """Whether a caller of it has a session or a stream, or something runs, or it is being opened."""
        opening = any(key.organisation == organisation for key in self._opening)
        return opening or any(
            not server.is_idle for key, server in self._servers.items() if key.organisation == organisation
        )

    def end_organisation(self, organisation: str) -> Awaitable[object]:
        """End everything of its callers, who are unknown from now on."""
        for key in tuple(self._servers):
            if key.organisation == organisation:
                self._close_soon(key)
        return asyncio.gather(*self._closing, return_exceptions=True)

    def end_caller(self, organisation: str, principal: str) -> None:
        """End everything of this caller, in the background; it is unknown from now on."""
        for key in tuple(self._servers):
            if (key.organisation, key.principal) == (organisation, principal):
                self._close_soon(key)

    def _make_room(self) -> None:
        if len(self._servers) + len(self._opening) < CALLERS_MAX:
            return
        idle = [key for key, server in self._servers.items() if server.is_idle]
        idle = idle or [key for key, server in self._servers.items() if server.is_resting]
        if not idle:
            raise ServiceBusyError(f"{CALLERS_MAX} callers use this service now; try again later")
        # SECURITY: the organisation with the most callers makes room, so that none keeps the others out.
        counts = Counter(key.organisation for key in self._servers)
        self._close_soon(min(idle, key=lambda key: (-counts[key.organisation], self._servers[key].used_at)))

    def _close_soon(self, key: ServerKey) -> None:
        task = asyncio.create_task(self._servers.pop(key).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _tidy_on(self) -> None:
        while True:
            await asyncio.sleep(TIDY_S)
            for key, server in tuple(self._servers.items()):
                server.tidy()
                if server.is_idle and _now() - server.used_at > CALLER_IDLE_S:
                    self._close_soon(key)

    @property
    def open_calls(self) -> int:
        return len(self._opening) + sum(server.open_calls for server in self._servers.values())

    @property
    def is_idle(self) -> bool:
        """Whether no client uses any of them."""
        return not self._opening and all(server.is_idle for server in self._servers.values())

    def end_listening(self) -> None:
        for server in self._servers.values():
            server.end_listening()

    async def close(self) -> None:
        """End every call of every caller."""
        self._tidying.cancel()
        with suppress(asyncio.CancelledError):
            await self._tidying
        for opening in tuple(self._opening.values()):
            opening.cancel()
        if self._opening:
            await asyncio.wait(set(self._opening.values()))
        for key in tuple(self._servers):
            self._close_soon(key)
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)


def _now() -> float:
    return asyncio.get_running_loop().time()
