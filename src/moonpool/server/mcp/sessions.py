"""Executions of MCP clients: one-shot, or in a session that the model named. Cancelling ends the code.

A named session keeps its kernel until it was idle for `session_idle_s`, or until it has been idle longest and a new one
needs its place. A cancelled one-shot is killed; in a named session the code is interrupted first, so that its variables
survive if possible.

INVARIANT: `execute` returns or raises only when its code no longer runs; `close` leaves no sandbox of this connection.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.envelope import Envelope
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.files.streams import Sink
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.sessions import Session
    from moonpool.pipeline.caller_grant import CallerGrant

NAMED_COUNT_MAX: Final = 16
_ENDED_WITHIN_S: Final = 5.0


class SessionsBusyError(MoonpoolError):
    """All named sessions are running code, so none can make room."""

    code = "sessions_busy"
    fault = Fault.CALLER
    retryable = True

    def __init__(self) -> None:
        super().__init__(
            f"{NAMED_COUNT_MAX} named sessions run code now; wait for one to end, or run the code without `session`"
        )


@dataclass(slots=True)
class _Named:
    session: Session
    used_at: float
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    idle_timer: asyncio.TimerHandle | None = None


class McpSessions:
    """The sessions of one connection."""

    def __init__(self, runtime: Runtime, *, idle_s: float) -> None:
        self._runtime, self._idle_s = runtime, idle_s
        self._named: dict[str, _Named] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def execute(self, request: CodeRequest, caller_grant: CallerGrant, name: str | None) -> Envelope:
        """Run code, in the session called `name` if given. Raises InputError, SessionsBusyError."""
        if name is None:
            session = self._runtime.session(caller_grant, final=True)
            try:
                return await interruptible(session, request, at_once=True)
            finally:
                self._close_soon(session)
        entry = self._named.get(name) or self._open(name, caller_grant)
        async with self._in_use(name, entry):
            return await interruptible(entry.session, request, at_once=False)

    def has(self, name: str) -> bool:
        """Whether there is a session of this name."""
        return name in self._named

    async def read_file(self, name: str, path: str, sink: Sink) -> None:
        """Write a file of an existing session to `sink`, once no code runs in it. Raises FileTransferError."""
        entry = self._named[name]
        async with self._in_use(name, entry):
            await entry.session.files.get(path, sink)

    async def close(self) -> None:
        """End every session."""
        for name in list(self._named):
            self._discard(name)
        if self._closing:
            await asyncio.wait(self._closing)

    @asynccontextmanager
    async def _in_use(self, name: str, entry: _Named) -> AsyncGenerator[None]:
        entry.waiting += 1
        if entry.idle_timer is not None:
            entry.idle_timer.cancel()
        try:
            async with entry.turn:
                yield
        finally:
            entry.waiting -= 1
            self._rest(name, entry)

    def _open(self, name: str, caller_grant: CallerGrant) -> _Named:
        if len(self._named) >= NAMED_COUNT_MAX:
            resting = [(entry.used_at, other) for other, entry in self._named.items() if not entry.waiting]
            if not resting:
                raise SessionsBusyError
            self._discard(min(resting)[1])
        entry = _Named(self._runtime.session(caller_grant), asyncio.get_running_loop().time())
        self._named[name] = entry
        return entry

    def _rest(self, name: str, entry: _Named) -> None:
        loop = asyncio.get_running_loop()
        entry.used_at = loop.time()
        if not entry.waiting and self._named.get(name) is entry:
            entry.idle_timer = loop.call_later(self._idle_s, self._discard, name)

    def _discard(self, name: str) -> None:
        entry = self._named.pop(name)
        if entry.idle_timer is not None:
            entry.idle_timer.cancel()
        self._close_soon(entry.session)

    def _close_soon(self, session: Session) -> None:
        closing = asyncio.ensure_future(session.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def interruptible(session: Session, request: CodeRequest, *, at_once: bool) -> Envelope:
    """Run; when cancelled, end the code and return only after its end was recorded."""
    running = asyncio.ensure_future(session.execute(request))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        session.interrupt(at_once=at_once)
        with anyio.CancelScope(shield=True):
            await asyncio.wait({running}, timeout=_ENDED_WITHIN_S)
        running.cancel()
        raise
