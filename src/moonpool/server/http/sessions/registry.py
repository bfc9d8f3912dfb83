"""All sessions over HTTP of a process, by whose they are.

SECURITY: everything is looked up below (organisation, principal). A session of another caller is not found in the same
way, and in the same time, as one that never was.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from moonpool.server.http.sessions.errors import (
    ServiceClosingError,
    TooManySessionsError,
    UnknownSessionError,
)
from moonpool.server.http.sessions.served_session import ServedSession, SessionOrigin, network_rules, open_kernel
from moonpool.server.http.sessions.tenants import SessionBounds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from moonpool.features.approvals.service import Approvals
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.sessions import messages
    from moonpool.server.http.sessions.tenants import SessionTenants

_log = logging.getLogger(__name__)
_Owner = tuple[str, str]
_BOUNDS: Final = SessionBounds()


@asynccontextmanager
async def open_sessions(tenants: SessionTenants, bounds: SessionBounds = _BOUNDS) -> AsyncGenerator[SessionRegistry]:
    """A registry; on exit its sessions are closed, and with them their streams end."""
    registry = SessionRegistry(tenants, bounds)
    try:
        yield registry
    finally:
        await registry.close_all()


class SessionRegistry:
    """Made by `open_sessions`."""

    def __init__(self, tenants: SessionTenants, bounds: SessionBounds) -> None:
        self._tenants, self.bounds = tenants, bounds
        self._sessions: dict[_Owner, dict[str, ServedSession]] = {}
        self._opening: dict[_Owner, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closing = False

    # --- sessions

    async def create(self, caller: HttpCaller, wanted: messages.CreateSession) -> ServedSession:
        """Open a session. Raises TooManySessionsError, InputError, NetworkRuleError, and what opening a tenant does."""

        async def made() -> ServedSession:
            rules = network_rules(wanted.network)
            tenant = await self._tenants.tenant(caller.organisation)
            runtime = await tenant.runtime_for(wanted)
            grant = tenant.grant(caller, wanted)
            origin = SessionOrigin(caller=caller, tenant=tenant, runtime=runtime, grant=grant, wanted=wanted)
            return ServedSession(origin, open_kernel(origin, rules), now=self.now, expires_at=self._end_of_life)

        return await self._added(caller, made)

    async def fork(self, caller: HttpCaller, session: ServedSession) -> ServedSession:
        """Another session with the state of this one. Raises TooManySessionsError, CheckpointError, InputError."""
        return await self._added(caller, lambda: session.fork(now=self.now, expires_at=self._end_of_life))

    async def _added(self, caller: HttpCaller, make: Callable[[], Awaitable[ServedSession]]) -> ServedSession:
        owner = (caller.organisation, caller.principal)
        self._check_room(owner)
        self._opening[owner] = self._opening.get(owner, 0) + 1
        try:
            session = await make()
            if self._is_closing:
                await session.close()
                raise ServiceClosingError
            self._sessions.setdefault(owner, {})[session.session_id] = session
            self._look_again(owner, session)
            return session
        finally:
            self._opening[owner] -= 1
            if not self._opening[owner]:
                del self._opening[owner]

    def _check_room(self, owner: _Owner) -> None:
        if self._is_closing:
            raise ServiceClosingError
        own = len(self._sessions.get(owner, ())) + self._opening.get(owner, 0)
        if own >= self.bounds.per_principal_max:
            raise TooManySessionsError(f"you have {own} sessions open; close some first")
        organisation = owner[0]
        opened = sum(len(found) for whose, found in self._sessions.items() if whose[0] == organisation)
        opened += sum(count for whose, count in self._opening.items() if whose[0] == organisation)
        if opened >= self.bounds.per_organisation_max:
            raise TooManySessionsError(f"your organisation has {opened} sessions open; close some first")

    def get(self, caller: HttpCaller, session_id: str) -> ServedSession:
        """A session of this caller. Raises UnknownSessionError."""
        if self._is_closing:
            raise ServiceClosingError
        session = self._sessions.get((caller.organisation, caller.principal), {}).get(session_id)
        if session is None or session.is_closed:
            raise UnknownSessionError
        return session

    def all_of(self, caller: HttpCaller) -> tuple[ServedSession, ...]:
        """The sessions of this caller, the oldest first."""
        return tuple(self._sessions.get((caller.organisation, caller.principal), {}).values())

    async def close(self, caller: HttpCaller, session_id: str) -> None:
        """End a session of this caller. Raises UnknownSessionError."""
        await self._end((caller.organisation, caller.principal), self.get(caller, session_id))

    async def _end(self, owner: _Owner, session: ServedSession) -> None:
        own = self._sessions.get(owner, {})
        own.pop(session.session_id, None)
        if not own:
            self._sessions.pop(owner, None)
        if (timer := self._timers.pop(session.session_id, None)) is not None:
            timer.cancel()
        await session.close()

    async def close_all(self) -> None:
        """End all sessions; none is opened any more."""
        self._is_closing = True
        sessions = [(owner, session) for owner, own in self._sessions.items() for session in own.values()]
        await asyncio.gather(*(self._end(owner, session) for owner, session in sessions), *self._ending)

    # --- time

    @property
    def now(self) -> float:
        """The clock of idle times."""
        return asyncio.get_running_loop().time()

    @property
    def _end_of_life(self) -> float:
        return self.now + self.bounds.lifetime_s

    def _look_again(self, owner: _Owner, session: ServedSession) -> None:
        """End it when it has been idle for long enough, or lived for so long; look again at that time otherwise."""
        if session.is_closed:
            return
        idle_at = (self.now if session.is_busy else session.used_at) + self.bounds.idle_s
        due = min(idle_at, session.expires_at)
        if due <= self.now:
            ending = asyncio.ensure_future(self._end(owner, session))
            self._ending.add(ending)
            ending.add_done_callback(self._ended)
            return
        timer = asyncio.get_running_loop().call_at(due, self._look_again, owner, session)
        self._timers[session.session_id] = timer

    def _ended(self, ending: asyncio.Task[None]) -> None:
        self._ending.discard(ending)
        if not ending.cancelled() and (error := ending.exception()) is not None:
            _log.error("a session that expired did not end well", exc_info=error)

    async def approvals(self, caller: HttpCaller) -> Approvals:
        """Those of the caller's organisation. Raises what opening its tenant does."""
        return (await self._tenants.tenant(caller.organisation)).approvals
